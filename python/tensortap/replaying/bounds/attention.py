"""Attention: products of queries and keys, a softmax, a product with the values; and its backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms

_FORWARD = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")  # fmt: skip
# Of 16-bit values the exponential is computed with few more bits than these have.
_EXPONENTIAL = 2.0**-13


def terms_of_attention(call: DoubleCall, number: int, path: str) -> Terms | None:
    """None for an operator that is no attention, and for what it makes besides."""
    if call.name in _FORWARD:
        return _forward(call, path)
    if call.name.removesuffix("_backward") in _FORWARD:
        return _backward(call, path)
    return None


@dataclass(frozen=True)
class _Scores:
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scores: torch.Tensor  # scaled and masked
    sizes: torch.Tensor  # of their terms
    scale: float
    groups: int  # how many query heads share a head of keys


def _scores(call: DoubleCall) -> _Scores:
    query, key, value = (call.argument(name) for name in ("query", "key", "value"))
    given = call.argument("scale")
    scale = query.shape[-1] ** -0.5 if given is None else float(given)
    groups = query.shape[1] // max(key.shape[1], 1)
    key, value = (each.repeat_interleave(groups, 1) if groups > 1 else each for each in (key, value))
    scores = query @ key.transpose(-1, -2) * scale
    sizes = query.abs() @ key.abs().transpose(-1, -2) * abs(scale)
    mask: Any = call.argument("attn_mask")
    mask = call.argument("attn_bias") if mask is None else mask
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
        sizes = sizes + torch.where(mask.isfinite() & (mask > -9999), mask, 0).abs()
    if call.argument("is_causal"):
        below = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~below, float("-inf"))
    return _Scores(query, key, value, scores, sizes, scale, groups)


def _forward(call: DoubleCall, path: str) -> Terms | None:
    of = _scores(call)
    weights = of.scores.softmax(-1).nan_to_num()
    spread = weights * (1 + of.sizes + (weights * of.sizes).sum(-1, keepdim=True))
    if path in ("/0", ""):
        # The weights are rounded to the dtype of the values before they are multiplied.
        return Terms(spread @ of.value.abs(), own=2 * weights @ of.value.abs())
    if path == "/1":
        sizes = of.scores.logsumexp(-1).abs().nan_to_num(posinf=0.0) + (weights * of.sizes).sum(-1) + 1
        narrow = call.call.tensors[0].dtype.itemsize < 4
        return Terms(sizes, absolute=_EXPONENTIAL if narrow else 0.0)
    return None


def _backward(call: DoubleCall, path: str) -> Terms | None:
    of = _scores(call)
    gradient, out = (
        first if (first := call.argument(name)) is not None else call.argument(other)
        for name, other in (("grad_out", "grad_out_"), ("out", "out"))
    )
    weights = of.scores.softmax(-1).nan_to_num()
    high = of.scores.logsumexp(-1, keepdim=True).abs().nan_to_num(posinf=0.0)
    spread = 1 + of.sizes + high
    along = (gradient.abs() * out.abs()).sum(-1, keepdim=True)
    of_scores = weights * (gradient.abs() @ of.value.abs().transpose(-1, -2) + along)
    if path == "/0":
        return Terms((of_scores * spread) @ of.key.abs() * abs(of.scale),
                     own=2 * of_scores @ of.key.abs() * abs(of.scale))  # fmt: skip
    if path == "/1":
        made = [(each.transpose(-1, -2) @ of.query.abs()) * abs(of.scale) for each in (of_scores * spread, of_scores)]
    elif path == "/2":
        made = [each.transpose(-1, -2) @ gradient.abs() for each in (weights * spread, weights)]
    else:
        return None
    sizes, own = (_by_key_heads(each, of.groups) for each in made)
    return Terms(sizes, own=2 * own)


def _by_key_heads(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    return tensor if groups == 1 else tensor.reshape(len(tensor), -1, groups, *tensor.shape[2:]).sum(2)
