"""A sort for the CPU that puts equal keys in the opposite order, as another device may."""

import contextlib
import warnings

import torch


@contextlib.contextmanager
def ties_reversed(then=lambda indices: indices):
    """`then` changes the indices that the sort returns."""

    def sort(keys, *, stable=None, dim=-1, descending=False):
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
