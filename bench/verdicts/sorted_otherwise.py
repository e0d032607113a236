"""A sort for the CPU that puts equal keys in the opposite order, as another device may."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch


@contextlib.contextmanager
def ties_reversed(then: Callable[[torch.Tensor], torch.Tensor] = lambda indices: indices) -> Iterator[None]:
    """`then` changes the indices that the sort returns."""

    def sort(
        keys: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # With the last ones first, a stable sort finds the last of equal keys first.
        order = keys.flip(dim).numpy().argsort(dim, kind="stable")
        indices = keys.shape[dim] - 1 - torch.from_numpy(order.copy())
        if descending:
            indices = indices.flip(dim)
        return keys.gather(dim, indices), then(indices)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it replaces PyTorch's own
        library.impl("sort.stable", sort, "CPU")
    try:
        yield
    finally:
        library._destroy()
