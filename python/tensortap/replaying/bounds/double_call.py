"""A recorded call in float64, which can be made again with other arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tensortap.replaying.call_text import CallArguments, UseAt
from tensortap.replaying.calling import Call
from tensortap.replaying.double import all_in_double, arguments_in_double, in_double
from tensortap.replaying.double_kernels import kernel_in_double
from tensortap.replaying.operators import written_arguments


class DoubleCall:
    """The call with its tensors in float64.

    Attributes
    ----------
    exact
        What it gives, by the number of the use.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.arguments = arguments_in_double(call.name, call.op, call.arguments, call.tensors)
        self.tensors = all_in_double(call.tensors)
        self.exact = self.made(self.arguments, self.tensors)

    @property
    def name(self) -> str:
        """`add` of `aten::add_.Tensor` and `aten::_foreach_add.List`."""
        plain = self.call.name.name.removeprefix("_foreach_")
        return plain[:-1] if len(plain) > 1 and plain.endswith("_") else plain

    def made(self, arguments: CallArguments, tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Call it with these; raises Refused. What it writes to is a copy."""
        if written_arguments(self.call.op):
            copies = {id(tensor): tensor.clone() for tensor in tensors.values()}
            tensors = {number: copies[id(tensor)] for number, tensor in tensors.items()}
        made = self.call.made(arguments, tensors, kernel_in_double(self.call.name))
        return {number: in_double(value) for number, value in made.items()}  # a factory has a dtype of its own

    def changed(self, change: Callable[[int, torch.Tensor], torch.Tensor]) -> dict[int, torch.Tensor]:
        """The results with other values in its floating-point tensors."""
        tensors = {n: change(n, tensor) if _is_number(tensor) else tensor for n, tensor in self.tensors.items()}
        return self.made(self.arguments, tensors)

    @functools.cached_property
    def of_magnitudes(self) -> dict[int, torch.Tensor]:
        """The results with the magnitudes of all its tensors and factors: of a sum of products, that of the terms'."""
        tensors = {n: tensor.abs() if _is_number(tensor) else tensor for n, tensor in self.tensors.items()}
        kwargs = {n: abs(v) if n in ("alpha", "beta") else v for n, v in self.arguments.kwargs.items()}
        return self.made(CallArguments(self.arguments.args, kwargs), tensors)

    def argument(self, name: str) -> Any:
        """The argument of this name, or its default; None where the operator has none of that name."""
        for place, argument in enumerate(self.call.op._schema.arguments):
            if argument.name != name:
                continue
            if place < len(self.arguments.args) and not argument.kwarg_only:
                value = self.arguments.args[place]
            else:
                value = self.arguments.kwargs.get(name, argument.default_value)
            return self.tensors[value.number] if isinstance(value, UseAt) else value
        return None

    def groups(self) -> list[set[int]]:
        """The uses of floating-point tensors, those of one list together."""
        found: dict[str, set[int]] = {}
        for number, tensor in self.tensors.items():
            if _is_number(tensor):
                found.setdefault(self.call.event.uses[number].path.split("/")[1], set()).add(number)
        return list(found.values())


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
