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
}


def save(name, directory):
    config, model_class, changes = MODELS[name]
    torch.manual_seed(0)
    model = model_class(config(**SHAPE, **changes)).float()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)  # else attention is nearly even, and a fault in it does little
            elif "norm" in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(directory)


if __name__ == "__main__":
    save(sys.argv[2], sys.argv[1])
