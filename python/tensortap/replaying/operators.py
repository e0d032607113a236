"""Which operator of PyTorch a recorded call was of, and what its schema says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

_COLLECTIVES = ("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
# Their result is memory that nothing was written to.
_UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_",
                  "_resize_output_")  # fmt: skip


# They give every value of the argument that they write to anew.
_OVERWRITING = ("copy_", "fill_", "zero_", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_",
                "normal_", "random_", "uniform_")  # fmt: skip

# Results that their arguments do not determine: eigenvectors have any sign, and scratch memory any value.
_UNDETERMINED = {"_linalg_eigh": ("/1",), "linalg_eig": ("/0", "/1"), "_linalg_svd": ("/0", "/2"), "_ctc_loss": ("/1",)}


class UnknownOperator(LookupError):
    """An operator that is not here; the message says what is missing."""


@dataclass(frozen=True)
class OpName:
    """`encoder.layer.0:backward:aten::add.Tensor`, taken apart as `src/core/op_name.h` does."""

    scope: str
    backward: bool
    library: str
    name: str
    overload: str

    @staticmethod
    def of(text: str) -> OpName:
        mark = text.find("::")
        colon = text.rfind(":", 0, mark) if mark > 0 else -1
        scope, op = ("", text) if colon < 0 else (text[:colon], text[colon + 1 :])
        backward = scope == "backward" or scope.endswith(":backward")
        if backward:
            scope = scope[: -len("backward")].removesuffix(":")
        library, _, name = op.rpartition("::")
        name, _, overload = name.partition(".")
        return OpName(scope, backward, library, name, overload)

    @property
    def op(self) -> str:
        """Without scope and direction: `aten::add.Tensor`."""
        return f"{self.library}::{self.name}" + (f".{self.overload}" if self.overload else "")


def find_operator(name: OpName) -> OpOverload[..., Any]:
    """The operator of this name; raises UnknownOperator when its library is not loaded here."""
    library = getattr(torch.ops, name.library)
    try:
        packet = getattr(library, name.name)
    except AttributeError:
        packet = None
    if not isinstance(packet, OpOverloadPacket):
        raise UnknownOperator(f"{name.op} is not here: import the library that registers it (--import)")
    overload = name.overload or "default"
    if not hasattr(packet, overload):
        raise UnknownOperator(f"this PyTorch has {name.library}::{name.name} without the overload {overload}")
    found: OpOverload[..., Any] = getattr(packet, overload)
    return found


def is_random(op: OpOverload[..., Any]) -> bool:
    """Whether it draws random numbers."""
    return torch.Tag.nondeterministic_seeded in op.tags


def is_pointwise(op: OpOverload[..., Any]) -> bool:
    """Whether each element of its result is made of the elements at the same place of its arguments."""
    return torch.Tag.pointwise in op.tags


def is_collective(name: OpName) -> bool:
    """Whether it exchanges values with other processes."""
    return name.library in _COLLECTIVES


def is_wait(name: OpName) -> bool:
    """Whether it only hands on what a collective made."""
    return is_collective(name) and name.name in ("wait_tensor", "_wrap_tensor_autograd")


def leaves_uninitialised(name: OpName) -> bool:
    """Whether its result is memory that nothing was written to."""
    return name.name in _UNINITIALISED


def overwrites(name: OpName) -> bool:
    """Whether it gives every value of the argument that it writes to anew."""
    return name.overload == "out" or name.overload.endswith("_out") or name.name in _OVERWRITING


def is_determined(name: OpName, path: str) -> bool:
    """Whether its arguments determine every value of this result."""
    return path not in _UNDETERMINED.get(name.name, ())


def returns_view(op: OpOverload[..., Any]) -> bool:
    """Whether its results show the memory of an argument: nothing is computed."""
    returns = op._schema.returns
    return bool(returns) and all(each.alias_info is not None and not each.alias_info.is_write for each in returns)


def written_arguments(op: OpOverload[..., Any]) -> set[str]:
    """The names of the arguments that it writes to."""
    return {
        argument.name
        for argument in op._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }
