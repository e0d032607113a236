"""Operators of one element at a time, those that only move values, and all that have no rule of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms, most
from tensortap.replaying.operators import is_pointwise, returns_view

_SHIFT = 2.0**-20

# Nothing is computed: each element of the result stands in an argument, and is rounded where the dtype is another.
MOVES_VALUES = frozenset((
    "alias_copy", "amax", "amin", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "diag_embed",
    "diagonal_backward", "embedding", "expand_copy", "fill", "flip", "full", "full_like", "gather", "index",
    "index_copy", "index_fill", "index_put", "_index_put_impl", "index_select", "lift_fresh", "lift_fresh_copy",
    "masked_fill", "masked_scatter", "masked_select", "max", "max_pool2d_with_indices", "maximum", "median", "min",
    "minimum", "new_full", "new_ones", "new_zeros", "nonzero", "ones", "ones_like", "pixel_shuffle",
    "pixel_unshuffle", "repeat", "repeat_interleave", "reshape", "roll", "scalar_tensor", "scatter",
    "select_backward", "select_scatter", "slice_backward", "slice_scatter", "sort", "split_with_sizes_copy",
    "stack", "take", "take_along_dim", "_to_copy", "to_copy", "topk", "tril", "triu", "_unsafe_view",
    "wait_tensor", "where", "zero", "zeros", "zeros_like",
))  # fmt: skip
# One operation of IEEE arithmetic, which is rounded once.
ROUNDS_ONCE = frozenset((
    "abs", "add", "clamp", "clamp_max", "clamp_min", "div", "hardtanh", "mul", "neg", "nll_loss_backward", "reciprocal",
    "relu", "rsub", "sqrt", "square", "sub", "threshold", "threshold_backward", "hardtanh_backward",
))  # fmt: skip


def moves_values(call: DoubleCall) -> bool:
    """Whether each value of the results stands in an argument."""
    return call.name in MOVES_VALUES or returns_view(call.call.op)


def terms_of_elements(call: DoubleCall, number: int, path: str) -> Terms:
    """By how the result follows its arguments: what rounding one of these does to it."""
    exact = call.exact[number]
    if moves_values(call):
        return Terms(torch.zeros_like(exact, dtype=torch.float64))
    if is_pointwise(call.call.op) or call.call.name.name.startswith(("_foreach_", "_fused_adam", "_fused_sgd")):
        sizes = exact.abs() + _followed(call, number, lambda tensor: 1.0)
        extra = _INSIDE.get(call.name)
        if extra is not None:
            sizes = sizes + extra(call)
        # A cube is a square that was rounded, times the number.
        own = exact.abs() if call.name == "pow" else None
        return Terms(sizes, steps=0.0 if call.name in ROUNDS_ONCE else 8.0, own=own)
    # Errors of many terms: each is shifted up or down by itself.
    sizes = exact.abs() + 4 * _followed(call, number, _signs)
    typical = sizes.square().mean().sqrt() if sizes.numel() else sizes
    given = max((tensor.numel() for tensor in call.tensors.values()), default=1)
    return Terms(torch.maximum(sizes, typical), most(given / max(exact.numel(), 1)))


def _signs(tensor: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(tensor.device).manual_seed(29)
    return torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device).double() * 2 - 1


def _followed(call: DoubleCall, number: int, shift: Callable[[torch.Tensor], torch.Tensor | float]) -> torch.Tensor:
    """How far the result moves when each argument does, beside the size of that, added up over the arguments."""
    exact = call.exact[number]
    total = torch.zeros(exact.shape, dtype=torch.float64, device=exact.device)
    for group in call.groups():
        moved = call.changed(functools.partial(_moved, group, shift))[number]
        total += ((moved - exact).abs() / _SHIFT).nan_to_num(nan=0.0, posinf=0.0)
    return total


def _moved(
    group: set[int], shift: Callable[[torch.Tensor], torch.Tensor | float], number: int, tensor: torch.Tensor
) -> torch.Tensor:
    return tensor * (1 + _SHIFT * shift(tensor)) if number in group else tensor


def _of_gelu(call: DoubleCall) -> torch.Tensor:
    x: torch.Tensor = call.argument("self").abs()
    return x


def _of_gelu_backward(call: DoubleCall) -> torch.Tensor:
    gradient, x = call.argument("grad_output"), call.argument("self")
    made: torch.Tensor = gradient.abs() * (1 + x.abs())
    return made


# What stands inside, and is larger than the result: 1 + erf(x) of a number far below zero.
_INSIDE: dict[str, Callable[[DoubleCall], torch.Tensor]] = {
    "gelu": _of_gelu,
    "gelu_backward": _of_gelu_backward,
    "silu_backward": _of_gelu_backward,
    "mish": _of_gelu,
    "mish_backward": _of_gelu_backward,
}
