"""In which precision a model runs: a dtype, or bf16 with weights in fp8."""

from __future__ import annotations

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "fp8": torch.bfloat16}
LARGEST = torch.finfo(torch.float8_e4m3fn).max


def sides(text: str) -> tuple[str, str]:
    """The precision of A and of B: `f32/bf16`, or `bf16` for both."""
    a, _, b = text.partition("/")
    for side in (a, b or a):
        if side not in DTYPES:
            raise ValueError(f"{side}: one of {', '.join(DTYPES)}, or two of them with a slash between")
    return a, b or a


class Fp8Weight(nn.Module):
    """A layer whose weight is stored in fp8 with a scale per channel, and is dequantized whenever it is used."""

    @property
    def weight(self) -> torch.Tensor:
        return self.weight_fp8.to(torch.bfloat16) * self.weight_scale


class Fp8Linear(Fp8Weight, nn.Linear):
    pass


class Fp8Conv1D(Fp8Weight, Conv1D):
    pass


def quantize(module: nn.Linear | Conv1D) -> None:
    """In place, so that a fault in its forward stays."""
    kind, axis = (Fp8Linear, 1) if isinstance(module, nn.Linear) else (Fp8Conv1D, 0)
    weight = module.weight.detach().float()
    scale = (weight.abs().amax(axis, keepdim=True) / LARGEST).clamp(min=1e-12).bfloat16()
    del module.weight
    module.__class__ = kind
    module.register_buffer("weight_fp8", (weight / scale.float()).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn))
    module.register_buffer("weight_scale", scale)


def cast(model: nn.Module, precision: str) -> nn.Module:
    """The model in this precision, as it would be loaded: the frequencies of rotary embeddings stay in f32."""
    frequencies = {name: value.clone() for name, value in model.named_buffers() if "inv_freq" in name}
    model.to(DTYPES[precision])
    for name, value in frequencies.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, value)
    if precision == "fp8":
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D) and not isinstance(module, Fp8Weight):
                quantize(module)
    return model


def has_fp8(model: nn.Module) -> bool:
    return any(isinstance(module, Fp8Weight) for module in model.modules())
