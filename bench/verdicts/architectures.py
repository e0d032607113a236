"""Small models of many architectures, with random weights large enough that every operator matters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from precision import DTYPES, cast
from torch import nn

Inputs = dict[str, torch.Tensor]

HIDDEN, HEADS, LAYERS, VOCABULARY, TOKENS = 64, 4, 3, 300, 20


@dataclass(frozen=True)
class Architecture:
    """A name, a model, and the inputs of a forward of `batch` samples."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator, int], Inputs]
    gain: float = 2.5  # of its matrices: most are made so small that a layer adds next to nothing

    def model(self, seed: int, precision: str = "f32", device: str = "cpu") -> nn.Module:
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self.build().eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 2:
                    parameter.mul_(self.gain)
                elif parameter.ndim == 1 and not name.endswith(("A_log", "D")):
                    parameter.add_(0.1 * torch.randn_like(parameter))
        return cast(model, precision).to(device)

    def sample(self, seed: int, precision: str = "f32", device: str = "cpu", batch: int = 2) -> Inputs:
        made = self.inputs(torch.Generator().manual_seed(seed), batch)
        dtype = DTYPES[precision]
        return {name: value.to(device, dtype if value.is_floating_point() else None) for name, value in made.items()}


def _tokens(generator: torch.Generator, batch: int) -> Inputs:
    return {"input_ids": torch.randint(5, VOCABULARY, (batch, TOKENS), generator=generator)}


def _pixels(generator: torch.Generator, batch: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 32, 32, generator=generator)}


def _pairs(generator: torch.Generator, batch: int) -> Inputs:
    return {
        **_tokens(generator, batch),
        "decoder_input_ids": torch.randint(5, VOCABULARY, (batch, 12), generator=generator),
    }


def _speech(generator: torch.Generator, batch: int) -> Inputs:
    return {
        "input_features": torch.randn(batch, 16, 40, generator=generator),
        "decoder_input_ids": torch.randint(5, VOCABULARY, (batch, 12), generator=generator),
    }


def _decoder(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        config = getattr(transformers, f"{name}Config")(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            use_cache=False,
            **settings,
        )
        return getattr(transformers, f"{name}ForCausalLM")(config)

    return build


def _with_layers(name: str, kind: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        config = getattr(transformers, f"{name}Config")(**settings)
        return getattr(transformers, f"{name}{kind}")(config)

    return build


_GQA = {"num_key_value_heads": 2, "intermediate_size": 160, "max_position_embeddings": 64}
_NARROW = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 128,
}

ARCHITECTURES = [
    Architecture("llama", _decoder("Llama", **_GQA), _tokens),
    Architecture("qwen3", _decoder("Qwen3", head_dim=16, **_GQA), _tokens),
    Architecture(
        "qwen3-moe",
        _decoder(
            "Qwen3Moe",
            head_dim=16,
            num_experts=6,
            num_experts_per_tok=2,
            moe_intermediate_size=48,
            norm_topk_prob=True,
            **_GQA,
        ),
        _tokens,
    ),
    Architecture("olmo2", _decoder("Olmo2", **_GQA), _tokens),
    Architecture("gemma2", _decoder("Gemma2", head_dim=16, query_pre_attn_scalar=16, **_GQA), _tokens),
    Architecture("gpt-neox", _decoder("GPTNeoX", intermediate_size=128, max_position_embeddings=64), _tokens),
    Architecture(
        "gpt2",
        _with_layers(
            "GPT2",
            "LMHeadModel",
            vocab_size=VOCABULARY,
            n_positions=64,
            n_embd=HIDDEN,
            n_layer=LAYERS,
            n_head=HEADS,
            use_cache=False,
        ),
        _tokens,
    ),
    Architecture("bert", _with_layers("Bert", "Model", vocab_size=VOCABULARY, **_NARROW), _tokens),
    Architecture(
        "deberta-v2",
        _with_layers(
            "DebertaV2",
            "Model",
            vocab_size=VOCABULARY,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            max_relative_positions=32,
            **_NARROW,
        ),
        _tokens,
    ),
    Architecture(
        "t5",
        _with_layers(
            "T5",
            "ForConditionalGeneration",
            vocab_size=VOCABULARY,
            d_model=HIDDEN,
            d_kv=16,
            d_ff=128,
            num_layers=2,
            num_heads=HEADS,
            use_cache=False,
        ),
        _pairs,
        gain=1,
    ),
    Architecture("vit", _with_layers("ViT", "Model", image_size=32, patch_size=8, **_NARROW), _pixels),
    Architecture(
        "convnext",
        _with_layers("ConvNext", "Model", hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 2, 1], image_size=32),
        _pixels,
    ),
    Architecture(
        "resnet",
        _with_layers(
            "ResNet", "Model", embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 2, 1, 1], layer_type="basic"
        ),
        _pixels,
    ),
    Architecture(
        "whisper",
        _with_layers(
            "Whisper",
            "ForConditionalGeneration",
            vocab_size=VOCABULARY,
            num_mel_bins=16,
            d_model=HIDDEN,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            max_source_positions=20,
            max_target_positions=32,
            use_cache=False,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        ),
        _speech,
    ),
]


def architecture(name: str) -> Architecture:
    for each in ARCHITECTURES:
        if each.name == name:
            return each
    raise KeyError(f"{name}: one of {', '.join(each.name for each in ARCHITECTURES)}")
