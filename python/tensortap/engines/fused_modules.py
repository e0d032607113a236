"""What the fused modules of engines are in terms of those that Transformers has in their place, for model.json."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

Packed = Mapping[str, Sequence[str]]  # which projections a fused one is made of, by its name


def fused(model: nn.Module, name: str, module: nn.Module, packed: Packed) -> dict[str, Any]:
    """Of one module of an engine's. vLLM and SGLang call these alike."""
    last = name.rpartition(".")[2]
    kind = type(module).__name__
    if last in packed:
        return {"parts": list(packed[last])}
    if kind == "LogitsProcessor":  # it is given the weights of the head, which is never called
        return {"parts": ["lm_head"]}
    if kind.endswith("AndMul"):
        return {"product": [last, packed.get("gate_up_proj", ["gate_proj", "up_proj"])[-1]]}
    # Gemma scales its embeddings after the module that looks them up.
    if last == "embed_tokens" and (factor := getattr(parent_of(model, name), "normalizer", None)) is not None:
        return {"times": float(factor)}
    # A layer of a decoder leaves adding the residual to the next norm, an operator with several implementations.
    if "residual" in inspect.signature(getattr(module, "forward_native", module.forward)).parameters:
        return {"sums_inputs": True} | ({"sums": True} if next(module.children(), None) is not None else {})
    return {}


def parent_of(model: nn.Module, name: str) -> nn.Module:
    """The module that holds it."""
    return model.get_submodule(name.rpartition(".")[0])
