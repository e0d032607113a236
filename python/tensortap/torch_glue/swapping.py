"""torch.utils.swap_tensors, which refuses tensors that anything refers to weakly, as an operator source does."""

from __future__ import annotations

import threading
from typing import Any

import torch

from tensortap.torch_glue.patching import Patch

_lock = threading.Lock()
_sources: tuple[Any, ...] = ()
_patch: Patch | None = None


class Swapping:
    """Lets an operator source forget tensors that are about to be swapped."""

    def __init__(self, source: Any) -> None:
        global _sources, _patch
        self._source = source
        with _lock:
            _sources = (*_sources, source)
            if _patch is None and hasattr(torch._C, "_swap_tensor_impl"):
                _patch = Patch(torch._C, "_swap_tensor_impl", _forgetting)

    def remove(self) -> None:
        """Takes it off."""
        global _sources, _patch
        with _lock:
            _sources = tuple(source for source in _sources if source is not self._source)
            if not _sources and _patch is not None:
                _patch.undo()
                _patch = None


def _forgetting(swap: Any) -> Any:
    def swap_tensor_impl(first: Any, second: Any) -> Any:
        for source in _sources:
            source.forget(first)
            source.forget(second)
        return swap(first, second)

    return swap_tensor_impl
