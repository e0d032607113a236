"""Tiny language models with random weights, saved as an engine loads them: `models.py DIRECTORY NAME`."""

import sys

import torch
import transformers

SHAPE = {
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
}
MODELS = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, {}),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, {}),
    "gemma": (transformers.GemmaConfig, transformers.GemmaForCausalLM, {}),
    "qwen3_moe": (
        transformers.Qwen3MoeConfig,
        transformers.Qwen3MoeForCausalLM,
        {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True},
    ),
    # The latent and the rotated size are those that vLLM's kernels have.
    "deepseek": (
        transformers.DeepseekV2Config,
        transformers.DeepseekV2ForCausalLM,
        {
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 64,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "q_lora_rank": 48,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "topk_method": "greedy",
            "n_group": 1,
            "topk_group": 1,
        },
    ),
}


def save(name, directory):
    config, model_class, changes = MODELS[name]
    torch.manual_seed(0)
    model = model_class(config(**SHAPE | changes)).float()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)  # else attention is nearly even, and a fault in it does little
            elif "norm" in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(directory)


if __name__ == "__main__":
    save(sys.argv[2], sys.argv[1])
