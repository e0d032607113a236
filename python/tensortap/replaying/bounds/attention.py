"""Attention: products of queries and keys, a softmax, a product with the values; and its backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms

_FORWARD = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")  # fmt: skip
# Of 16-bit values the exponential is computed with few more bits than these have.
_EXPONENTIAL = 2.0**-13


# So many scores are held at a time, some six times over in float64.
_MOST_SCORES = 1 << 20


def terms_of_attention(call: DoubleCall, number: int, path: str) -> Terms | None:
    """None for an operator that is no attention, and for what it makes besides."""
    rule = _forward if call.name in _FORWARD else _backward if call.name.removesuffix("_backward") in _FORWARD else None
    if rule is None:
        return None
    samples = [_joined(one, 1) for one in _by_sample(call, rule, path)]
    return _joined(samples, 0)


def _by_sample(
    call: DoubleCall, rule: Callable[[_Given, str], Terms | None], path: str
) -> Iterator[list[Terms | None]]:
    """The terms of some samples at a time, and of these of some heads of keys at a time."""
    batch, heads, queries = call.argument("query").shape[:3]
    key_heads, keys = call.argument("key").shape[1:3]
    scores = max(1, queries * keys * max(1, heads // max(key_heads, 1)))  # for each head of keys
    some_heads = max(1, min(key_heads, _MOST_SCORES // scores))
    some = max(1, _MOST_SCORES // (scores * key_heads)) if some_heads == key_heads else 1
    for sample in range(0, batch, some):
        rows = slice(sample, sample + some)
        yield [rule(_given(call, rows, head, some_heads), path) for head in range(0, key_heads, some_heads)]


def _joined(parts: list[Terms | None], axis: int) -> Terms | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len(known) < 2:
        return known[0] if known and len(known) == len(parts) else None
    own = [part.own for part in known if part.own is not None]
    sizes = torch.cat([part.sizes for part in known], axis)
    return replace(known[0], sizes=sizes, own=torch.cat(own, axis) if own else None)


@dataclass(frozen=True)
class _Given:
    """The arguments of some samples and heads."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    is_causal: bool
    scale: float
    groups: int  # how many query heads share a head of keys
    gradient: torch.Tensor | None
    out: torch.Tensor | None
    narrow: bool


def _given(call: DoubleCall, rows: slice, head: int, heads: int) -> _Given:
    query, key, value = (call.argument(name) for name in ("query", "key", "value"))
    groups = query.shape[1] // max(key.shape[1], 1)
    of_keys, of_queries = slice(head, head + heads), slice(head * groups, (head + heads) * groups)
    scale, mask = call.argument("scale"), call.argument("attn_mask")
    mask = call.argument("attn_bias") if mask is None else mask
    if mask is not None:
        whole = mask.expand(*query.shape[:3], key.shape[2])
        mask = whole[rows, of_queries]
    gradient, out = call.argument("grad_out"), call.argument("out")
    gradient = call.argument("grad_out_") if gradient is None else gradient
    return _Given(
        query=query[rows, of_queries],
        key=key[rows, of_keys],
        value=value[rows, of_keys],
        mask=mask,
        is_causal=bool(call.argument("is_causal")),
        scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
        groups=groups,
        gradient=None if gradient is None else gradient[rows, of_queries],
        out=None if out is None else out[rows, of_queries],
        narrow=call.call.tensors[0].dtype.itemsize < 4,
    )


@dataclass(frozen=True)
class _Scores:
    key: torch.Tensor
    value: torch.Tensor
    scores: torch.Tensor  # scaled and masked
    sizes: torch.Tensor  # of their terms


def _scores(of: _Given) -> _Scores:
    key, value = (each.repeat_interleave(of.groups, 1) if of.groups > 1 else each for each in (of.key, of.value))
    scores = of.query @ key.transpose(-1, -2) * of.scale
    sizes = of.query.abs() @ key.abs().transpose(-1, -2) * abs(of.scale)
    mask = of.mask
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
        sizes = sizes + torch.where(mask.isfinite() & (mask > -9999), mask, 0).abs()
    if of.is_causal:
        below = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~below, float("-inf"))
    return _Scores(key, value, scores, sizes)


def _forward(given: _Given, path: str) -> Terms | None:
    of = _scores(given)
    weights = of.scores.softmax(-1).nan_to_num()
    if path in ("/0", ""):
        spread = weights * (1 + of.sizes + (weights * of.sizes).sum(-1, keepdim=True))
        # The weights are rounded to the dtype of the values before they are multiplied.
        return Terms(spread @ of.value.abs(), own=2 * weights @ of.value.abs())
    if path == "/1":
        sizes = of.scores.logsumexp(-1).abs().nan_to_num(posinf=0.0) + (weights * of.sizes).sum(-1) + 1
        return Terms(sizes, absolute=_EXPONENTIAL if given.narrow else 0.0)
    return None


def _backward(given: _Given, path: str) -> Terms | None:
    of, gradient, out = _scores(given), given.gradient, given.out
    if gradient is None or out is None:
        return None
    weights = of.scores.softmax(-1).nan_to_num()
    high = of.scores.logsumexp(-1, keepdim=True).abs().nan_to_num(posinf=0.0)
    spread = 1 + of.sizes + high
    along = (gradient.abs() * out.abs()).sum(-1, keepdim=True)
    of_scores = weights * (gradient.abs() @ of.value.abs().transpose(-1, -2) + along)
    scale = abs(given.scale)
    if path == "/0":
        return Terms((of_scores * spread) @ of.key.abs() * scale, own=2 * of_scores @ of.key.abs() * scale)
    if path == "/1":
        made = [(each.transpose(-1, -2) @ given.query.abs()) * scale for each in (of_scores * spread, of_scores)]
    elif path == "/2":
        made = [each.transpose(-1, -2) @ gradient.abs() for each in (weights * spread, weights)]
    else:
        return None
    sizes, own = (_by_key_heads(each, given.groups) for each in made)
    return Terms(sizes, own=2 * own)


def _by_key_heads(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    return tensor if groups == 1 else tensor.reshape(len(tensor), -1, groups, *tensor.shape[2:]).sum(2)
