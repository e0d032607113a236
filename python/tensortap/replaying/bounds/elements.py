"""Operators of one element at a time, those that only move values, and all that have no rule of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms, most, rounded_sums
from tensortap.replaying.operators import is_pointwise, returns_view

_SHIFT = 2.0**-20
_UNKNOWN_STEPS = 100.0
# Elementwise, and of several operations, each of which a CPU rounds to the dtype of the result.
_IN_STEPS = ("floor_divide", "logit", "xlogy")

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
        jump = _jumps(call, number)
        own = _rounded_before(call, sizes, exact)
        return Terms(sizes, steps=0.0 if call.name in ROUNDS_ONCE else 8.0, own=own, absolute=jump)
    # Errors of many terms: each is shifted up or down by itself.
    sizes = exact.abs() + 4 * _followed(call, number, _signs)
    typical = sizes.square().mean().sqrt() if sizes.numel() else sizes
    given = max((tensor.numel() for tensor in call.tensors.values()), default=1)
    sizes = torch.maximum(sizes, typical)
    count = most(given / max(exact.numel(), 1))
    # How it is computed is not known: in how many steps, and in which dtype.
    return Terms(sizes, count, steps=_UNKNOWN_STEPS, own=rounded_sums(sizes, count))


def _rounded_before(call: DoubleCall, sizes: torch.Tensor, exact: torch.Tensor) -> torch.Tensor | None:
    """The sizes of what is rounded to the dtype of the result before the result is."""
    if call.name == "pow" or call.name.startswith("clamp"):
        return exact.abs()  # a cube is a square times the number; a bound is a number of the dtype
    if _is_in_steps(call):
        return 2 * sizes
    if call.name in ("add", "sub", "rsub"):
        alpha, other = call.argument("alpha"), call.argument("other")
        if isinstance(other, torch.Tensor):
            return 2 * (alpha * other).abs().expand_as(exact) if alpha not in (None, 1) else None
        return torch.full_like(sizes, 2 * abs(other * (alpha or 1))) if isinstance(other, int | float) else 2 * sizes
    return None


def _is_in_steps(call: DoubleCall) -> bool:
    return call.name in _IN_STEPS or (call.name == "div" and call.argument("rounding_mode") is not None)


def _jumps(call: DoubleCall, number: int) -> torch.Tensor | float:
    """1 where a quotient is so near a whole number that rounding decides which one it becomes."""
    if call.name not in ("div", "floor_divide") or not _is_in_steps(call):
        return 0.0
    quotient = call.argument("self") / call.argument("other")
    step = max(torch.finfo(each.dtype).eps for each in call.call.tensors.values() if each.is_floating_point())
    near = (quotient - quotient.round()).abs() <= 4 * step * quotient.abs()
    return near.double().expand_as(call.exact[number])


def _signs(tensor: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(tensor.device).manual_seed(29)
    return torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device).double() * 2 - 1


def _followed(call: DoubleCall, number: int, shift: Callable[[torch.Tensor], torch.Tensor | float]) -> torch.Tensor:
    """How far the result moves when each argument does, beside the size of that, added up over the arguments."""
    exact = call.exact[number]
    total = torch.zeros(exact.shape, dtype=torch.float64, device=exact.device)
    for group in call.groups():
        moved = call.changed(functools.partial(_moved, group, shift))[number]
        total += (moved - exact).abs().div_(_SHIFT).nan_to_num_(nan=0.0, posinf=0.0)
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
