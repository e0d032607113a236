"""Steps of optimizers: fused ones write to parameters, and PyTorch does not count it as it counts other writes."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


class OptimizerSteps:
    """Counts the steps of all optimizers of the process, until it is removed."""

    def __init__(self) -> None:
        self.count = 0
        self._handle = register_optimizer_step_post_hook(self._stepped)

    def remove(self) -> None:
        self._handle.remove()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # What is compiled is counted by PyTorch, and would be compiled again for each number.
        if not torch.compiler.is_compiling():
            self.count += 1
