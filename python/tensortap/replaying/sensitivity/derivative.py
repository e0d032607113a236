"""The derivative of one recorded call, at the arguments that it was recorded with."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch._ops import OpOverload

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.calling import Refused
from tensortap.replaying.double_kernels import Kernel, kernel_in_double
from tensortap.replaying.operators import written_arguments

_AUTOGRAD = ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd")
_NONE = "PyTorch has no derivative of it"


def has_derivative(op: OpOverload[..., Any]) -> bool:
    """Whether its library registered one, or composed it of operators that have one."""
    name = op._schema.name + (f".{op._schema.overload_name}" if op._schema.overload_name else "")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _AUTOGRAD)


def pulled_back(call: DoubleCall, weights: dict[int, torch.Tensor], wanted: Collection[int]) -> dict[int, torch.Tensor]:
    """What a small change of each wanted argument does to the sum of the results, each times its weights.

    Both are by the numbers of their uses. Uses of one tensor have one derivative, under the first of them. Raises
    Refused for an operator of which PyTorch has none.
    """
    leaves: dict[int, torch.Tensor] = {}  # by the tensor's id
    first: dict[int, int] = {}  # the use under which its derivative is given
    for number in wanted:
        tensor = call.tensors[number]
        if tensor.is_floating_point() or tensor.is_complex():
            leaves.setdefault(id(tensor), tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_())
            first.setdefault(id(tensor), number)
    if not leaves:
        return {}
    if not has_derivative(call.call.op):
        raise Refused(_NONE)
    results = _made(call, leaves)
    followed = [(results[number], each) for number, each in weights.items() if results[number].requires_grad]
    if not followed:
        raise Refused(_NONE)
    try:
        found = torch.autograd.grad(
            [result for result, _ in followed],
            list(leaves.values()),
            [each.to(result.dtype) for result, each in followed],
            allow_unused=True,
        )
    except RuntimeError as error:
        raise Refused(f"{_NONE}: {str(error).splitlines()[0][:120]}") from error
    made = {first[key]: each for key, each in zip(leaves, found, strict=True) if each is not None}
    if not all(bool(each.isfinite().all()) for each in made.values()):
        raise Refused("its derivative is not finite")
    return made


def _made(call: DoubleCall, leaves: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    tensors = {number: leaves.get(id(tensor), tensor) for number, tensor in call.tensors.items()}
    if written_arguments(call.call.op):
        copies = {id(tensor): tensor.clone() for tensor in tensors.values()}
        tensors = {number: copies[id(tensor)] for number, tensor in tensors.items()}
    kernel = _FOLLOWED.get(call.name) or kernel_in_double(call.call.name)
    return call.call.made(call.arguments, tensors, kernel, differentiable=True)


def _same_values(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    return tensor.view_as(tensor)


# PyTorch has no derivative of these on purpose; their result follows the argument all the same.
_FOLLOWED: dict[str, Kernel] = {"detach": _same_values}
