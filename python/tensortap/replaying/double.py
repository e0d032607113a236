"""A call in float64: the exact result, as far as a recording's own dtypes are concerned."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

from tensortap.replaying.call_text import CallArguments
from tensortap.replaying.operators import OpName
from tensortap.replaying.precision import NoSuchPrecision, all_in_precision, arguments_in_precision, in_precision

NoDouble = NoSuchPrecision


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """Floating-point values in double precision, where they lay; all others as they are."""
    return in_precision(tensor, torch.float64)


def all_in_double(tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Copies in double precision; uses of one tensor stay uses of one tensor."""
    return all_in_precision(tensors, torch.float64)


def arguments_in_double(
    name: OpName, op: OpOverload[..., Any], arguments: CallArguments, tensors: dict[int, torch.Tensor]
) -> CallArguments:
    """The arguments of the call in float64; those that are tensors are left as uses. Raises NoDouble."""
    return arguments_in_precision(name, op, arguments, tensors, torch.float64)
