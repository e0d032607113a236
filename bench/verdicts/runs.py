"""One run of a model: what a tool records."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from architectures import Inputs
from torch import nn


@dataclass
class Run:
    """A model, its inputs, and how it is run. `run()` runs it once."""

    model: nn.Module
    inputs: Inputs
    context: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    compiled: Callable[..., Any] | None = None  # is called in place of the model
    training: bool = False  # the backward too
    ops_only: bool = False  # compiled, or compared with what is: a compiled module calls no hooks
    samples: int | None = None  # of the batch; the others are not compared

    def __post_init__(self) -> None:
        self.buffers = {name: value.clone() for name, value in self.model.named_buffers()}

    def reset(self) -> None:
        """Takes back what a run leaves in the model: gradients, and what batch norms have seen."""
        self.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, value in self.model.named_buffers():
                value.copy_(self.buffers[name])

    def __call__(self) -> None:
        with self.context(), torch.set_grad_enabled(self.training):
            called = self.model if self.compiled is None else self.compiled
            output = called(**self.inputs)
            if self.training:
                loss_of(output).backward()


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of floats in what a module returned."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def loss_of(output: Any) -> torch.Tensor:
    """A weighted sum. Behind a norm, a sum of squares would have a gradient of nothing but rounding."""
    return sum(
        (
            (tensor.float() * torch.linspace(-1, 2, tensor.numel(), device=tensor.device).view(tensor.shape)).mean()
            for tensor in tensors_of(output)
        ),
        torch.zeros(()),
    )


def returned(run: Run, wanted: set[str] | None = None) -> dict[str, torch.Tensor]:
    """What every module returned first, by name."""
    seen: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            found = tensors_of(output)
            if found and name not in seen:
                seen[name] = found[0].detach().clone()

        return hook

    handles = [
        module.register_forward_hook(keep(name))
        for name, module in run.model.named_modules()
        if name and (wanted is None or name in wanted)
    ]
    run()
    for handle in handles:
        handle.remove()
    return seen
