"""A call in float64: the exact result, as far as a recording's own dtypes are concerned."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

from tensortap.replaying.call_tensors import laid_out
from tensortap.replaying.call_text import CallArguments, UseAt
from tensortap.replaying.operators import OpName

DOUBLE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.float8_e4m3fn: torch.float64, torch.float8_e5m2: torch.float64,
    torch.complex32: torch.complex128, torch.complex64: torch.complex128,
}  # fmt: skip


class NoDouble(ValueError):
    """A call that means nothing in float64; the message says why."""


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """Floating-point values in double precision, where they lay; all others as they are."""
    made = tensor.to(DOUBLE.get(tensor.dtype, tensor.dtype))
    return made if made.stride() == tensor.stride() else laid_out(made, tensor.stride())


def all_in_double(tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Copies in double precision; uses of one tensor stay uses of one tensor."""
    copies = {id(tensor): in_double(tensor) for tensor in tensors.values()}
    return {number: copies[id(tensor)] for number, tensor in tensors.items()}


def arguments_in_double(
    name: OpName, op: OpOverload[..., Any], arguments: CallArguments, tensors: dict[int, torch.Tensor]
) -> CallArguments:
    """The arguments of the call in float64; those that are tensors are left as uses. Raises NoDouble.

    A dtype that is asked for becomes float64, so a cast is the identity.
    """
    if name.name == "view" and name.overload == "dtype":
        raise NoDouble("it takes the bits of its argument for another dtype")
    changed = arguments.map(lambda value: DOUBLE.get(value, value) if isinstance(value, torch.dtype) else value)
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
