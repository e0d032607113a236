"""A copy of a module with other values: calling it leaves the model as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import nn

from tensortap.replaying.calling import Refused, first_line
from tensortap.replaying.precision import counterpart, in_precision


def copied(
    module: nn.Module, values: Mapping[int, torch.Tensor], device: torch.device, precision: torch.dtype | None
) -> nn.Module:
    """The module with these values, by the ids of its tensors, and its own in place of those that are missing.

    Hooks of the program go along: they may compute what the module needs, as those of weight_norm do. Raises Refused.
    """
    if precision is not None:
        _refuse_other_kinds(module)
    memo: dict[int, object] = {}
    for name, tensor in _tensors(module):
        if type(tensor) in (torch.Tensor, nn.Parameter) and id(tensor) not in memo:
            value = values.get(id(tensor), tensor.detach())
            if value.is_meta and device.type != "meta":
                raise Refused(f"the values of {name} were not recorded, and the model has none: it is on device meta")
            memo[id(tensor)] = _like(tensor, value, device, precision)
    try:
        made = copy.deepcopy(module, memo)
    except Exception as error:  # a class of the program may raise anything
        raise Refused(f"the module cannot be copied: {type(error).__name__}: {first_line(error)}") from error
    if precision is not None:
        _write_epsilons(module, made)
    return made


def _tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters, buffers and plain attributes."""
    held = [
        (f"{prefix}.{name}" if prefix else name, value)
        for prefix, each in module.named_modules()
        for name, value in (*each._parameters.items(), *each._buffers.items(), *vars(each).items())
    ]
    return [(name, value) for name, value in held if isinstance(value, torch.Tensor)]


def _like(
    tensor: torch.Tensor, value: torch.Tensor, device: torch.device, precision: torch.dtype | None
) -> torch.Tensor:
    made = value.clone().to(device)
    if precision is not None:
        made = in_precision(made, precision)
    if isinstance(tensor, nn.Parameter):
        made = nn.Parameter(made, requires_grad=tensor.requires_grad)
    vars(made).update(vars(tensor))
    return made


def _refuse_other_kinds(module: nn.Module) -> None:
    for name, tensor in _tensors(module):
        if (
            type(tensor) not in (torch.Tensor, nn.Parameter)
            and counterpart(tensor.dtype, torch.float64) != tensor.dtype
        ):
            raise Refused(f"{name} is a {type(tensor).__name__}, which is not put into another dtype")


def _write_epsilons(module: nn.Module, made: nn.Module) -> None:
    """Without an epsilon an RMS norm takes that of its dtype."""
    for own, other in zip(module.modules(), made.modules(), strict=False):
        if isinstance(own, nn.RMSNorm) and isinstance(other, nn.RMSNorm) and own.eps is None:
            dtype = own.weight.dtype if own.weight is not None else torch.float32
            other.eps = torch.finfo(torch.float32 if dtype.itemsize < 4 else dtype).eps
