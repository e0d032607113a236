"""Inputs that a graph leaves alone, and whether what was compiled of it does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from tensortap import _core
from tensortap.graph.fx.writes import version_of
from tensortap.tensors.dtypes import TORCH_DTYPES
from tensortap.tensors.snapshot import is_bytes, is_plain
from tensortap.torch_glue.dispatch_modes import no_modes

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Untouched:
    """What shows whether inputs were written to: their versions, and with `contents` a hash of what they hold.

    Compiled code often writes past PyTorch's version counters.
    """

    def __init__(self, inputs: Sequence[Any], without: Collection[int], *, contents: bool) -> None:
        self._contents = contents
        self._inputs = {
            i: value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and i not in without
        }
        self._before = {i: self._state(value) for i, value in self._inputs.items()}

    def written(self) -> list[int]:
        """Those that have been, by number."""
        return [i for i, value in self._inputs.items() if self._state(value) != self._before[i]]

    def _state(self, tensor: torch.Tensor) -> tuple[int | None, str | int | None]:
        return version_of(tensor), _content(tensor) if self._contents else None


def _content(tensor: torch.Tensor) -> str | int | None:
    """Of a GPU's tensor the sum of its bits, which is made there; None where the values cannot be looked at."""
    with no_modes(), torch.no_grad():
        if is_plain(tensor) and tensor.dtype in TORCH_DTYPES.values():
            return _core.fingerprint(tensor.detach()).hash
        if not tensor.is_cuda or not is_bytes(tensor) or tensor.element_size() not in _INTEGERS:
            return None
        return int(tensor.detach().view(_INTEGERS[tensor.element_size()]).sum(dtype=torch.int64))
