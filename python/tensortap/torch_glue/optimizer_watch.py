"""Which optimizers the program steps, and how often: fused ones write to parameters, which PyTorch does not count."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


class OptimizerWatch:
    """Calls `stepped` with each optimizer after its first step, and when it has state for more parameters.

    Counts the steps of all of them, and keeps none of them alive. `guarded` runs our own code inside the program's.
    """

    def __init__(self, guarded: Callable[..., Any], stepped: Callable[[Optimizer], None]) -> None:
        self._guarded = guarded
        self._stepped = stepped
        self.count = 0
        self._known: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._handle = register_optimizer_step_post_hook(self._after)

    def remove(self) -> None:
        """Takes the hook off."""
        self._handle.remove()

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # What is compiled is counted by PyTorch, and would be compiled again for each number.
        if not torch.compiler.is_compiling():
            self.count += 1
            self._guarded(self._look, optimizer)

    def _look(self, optimizer: Optimizer) -> None:
        count = len(optimizer.state)
        if self._known.get(optimizer) != count:
            self._known[optimizer] = count
            self._stepped(optimizer)
