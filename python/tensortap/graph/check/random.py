"""Where the random numbers of PyTorch stand: kept, and put back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class RandomState:
    """The state of the generators of the CPU, and of the GPUs on which a graph's inputs lie."""

    cpu: torch.Tensor
    gpus: dict[int, torch.Tensor]

    @staticmethod
    def of(inputs: Iterable[Any]) -> RandomState:
        """Take the state as it is now."""
        devices = {value.get_device() for value in inputs if isinstance(value, torch.Tensor) and value.is_cuda}
        return RandomState(torch.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices})

    def restore(self) -> None:
        """Put it back."""
        torch.set_rng_state(self.cpu)
        for device, state in self.gpus.items():
            torch.cuda.set_rng_state(state, device)
