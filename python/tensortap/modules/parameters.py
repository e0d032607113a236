"""The parameters and buffers of a module: which of them are to be recorded before a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tensortap import _core
from tensortap.quant.group import Group
from tensortap.quant.libraries.recognise import groups_of_module


class Parameters:
    """Finds what has changed in one module since it was asked last: another tensor, or one that was written to.

    What is written through `.data` is not noticed: PyTorch does not count it either. Nor does it count what is written
    to tensors of inference mode: these are always new.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, ...]] = {}
        self._was_training = False  # in the last call

    def changed(self, module: nn.Module | None, optimizer_steps: int = 0) -> Iterator[tuple[str, torch.Tensor | Group]]:
        """Each parameter and buffer that is new or another, with its path; those of one quantized weight as a group.

        After another of the `optimizer_steps` everything that needs a gradient is new.
        """
        if module is None:
            return
        held = {**module._parameters, **module._buffers}
        states = {name: _state(tensor, optimizer_steps) for name, tensor in held.items() if tensor is not None}
        changed = {name for name, state in states.items() if self._known.get(name) != state}
        if (module.training or self._was_training) and isinstance(module, nn.modules.batchnorm._NormBase):
            changed.update(name for name in module._buffers if name in states)  # written to without being counted
        self._was_training = module.training
        # What is not taken, because something fails on the way, is as new the next time.
        self._known = {name: state for name, state in states.items() if name not in changed}
        if not changed:
            return
        taken: set[str] = set()
        for name, group in groups_of_module(module).items():
            taken.update(group.members)
            if changed.intersection(group.members):
                yield _core.append_path("", name), group
                self._known.update((member, states[member]) for member in group.members)
        for name in states:
            if name in changed and name not in taken:
                yield _core.append_path("", name), held[name]  # type: ignore[misc]
                self._known[name] = states[name]

    def forget(self) -> None:
        """All of them are new again: in a forked child, which has recorded nothing."""
        self._known = {}


def _state(tensor: torch.Tensor, optimizer_steps: int) -> tuple[Any, ...]:
    """Which tensor it is, and how often it was written to; of a wrapper subclass, that of all it consists of."""
    state: tuple[Any, ...] = (id(tensor), tuple(tensor.shape), optimizer_steps if tensor.requires_grad else 0)
    inner = vars(tensor).values() if type(tensor) is not torch.Tensor else ()
    if hasattr(tensor, "__tensor_flatten__"):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    else:
        state += _memory(tensor)
    return state + tuple(_memory(part) for part in inner if isinstance(part, torch.Tensor))


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.is_inference():
        return (object(),)  # which is like nothing else
    try:
        return tensor.data_ptr(), tensor._version
    except RuntimeError:  # a wrapper has no memory
        return (id(tensor),)
