"""A call in another floating-point dtype than the one that it was recorded in."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

from tensortap.replaying.call_tensors import laid_out
from tensortap.replaying.call_text import CallArguments, UseAt
from tensortap.replaying.operators import OpName

# The dtypes that operators compute in, with their complex ones.
PRECISIONS: dict[torch.dtype, torch.dtype | None] = {
    torch.float64: torch.complex128,
    torch.float32: torch.complex64,
    torch.bfloat16: None,
    torch.float16: torch.complex32,
}
_REAL = (*PRECISIONS, torch.float8_e4m3fn, torch.float8_e5m2)
_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)


class NoSuchPrecision(ValueError):
    """A call that means nothing in another dtype; the message says why."""


def counterpart(dtype: torch.dtype, precision: torch.dtype) -> torch.dtype:
    """What stands for a dtype where values have this precision. Raises NoSuchPrecision."""
    if dtype in _REAL:
        return precision
    if dtype not in _COMPLEX:
        return dtype
    if (made := PRECISIONS[precision]) is None:
        raise NoSuchPrecision(f"there are no complex numbers of {precision}".replace("torch.", ""))
    return made


def in_precision(tensor: torch.Tensor, precision: torch.dtype) -> torch.Tensor:
    """Floating-point values in this precision, where they lay; all others as they are."""
    made = tensor.to(counterpart(tensor.dtype, precision))
    return made if made.stride() == tensor.stride() else laid_out(made, tensor.stride())


def all_in_precision(tensors: dict[int, torch.Tensor], precision: torch.dtype) -> dict[int, torch.Tensor]:
    """Copies in this precision; uses of one tensor stay uses of one tensor."""
    copies = {id(tensor): in_precision(tensor, precision) for tensor in tensors.values()}
    return {number: copies[id(tensor)] for number, tensor in tensors.items()}


def arguments_in_precision(
    name: OpName,
    op: OpOverload[..., Any],
    arguments: CallArguments,
    tensors: dict[int, torch.Tensor],
    precision: torch.dtype,
) -> CallArguments:
    """The arguments of the call in this precision; those that are tensors are left as uses. Raises NoSuchPrecision.

    A dtype that is asked for becomes this one, so a cast is the identity.
    """
    if name.name == "view" and name.overload == "dtype":
        raise NoSuchPrecision("it takes the bits of its argument for another dtype")
    if name.name == "nextafter":
        raise NoSuchPrecision("which number is next depends on the dtype")
    changed = arguments.map(lambda value: counterpart(value, precision) if isinstance(value, torch.dtype) else value)
    names = [argument.name for argument in op._schema.arguments]
    if "half_to_float" in names:  # softmax in float32 of 16-bit values: a cast, too
        changed.args[names.index("half_to_float")] = False
    if "norm" in name.name and "eps" in names:
        _write_epsilon(names.index("eps"), changed, tensors)
    return changed


def _write_epsilon(place: int, arguments: CallArguments, tensors: dict[int, torch.Tensor]) -> None:
    """Without an epsilon an RMS norm takes that of its dtype."""
    values = arguments.args
    if len(values) <= place:
        values += [None] * (place + 1 - len(values))
    first = values[0]
    if values[place] is None and isinstance(first, UseAt):
        dtype = tensors[first.number].dtype
        values[place] = torch.finfo(torch.float32 if dtype.itemsize < 4 else dtype).eps
