"""How far the results of a call are from the exact ones: those that were recorded, and those of another dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from tensortap.replaying.call_tensors import dtype_name
from tensortap.replaying.distance import distances, typical_size
from tensortap.replaying.results import Replayed, ReplayedTensor


@dataclass(frozen=True)
class InPrecision:
    """A result of the call in another dtype beside the exact one.

    Attributes
    ----------
    path, dtype
        Which result, and the dtype that the call was made in.
    relative, recorded
        Its error as a whole beside the size of the exact result; and that of what was recorded.
    worst, got, exact
        The element with the largest error, what this dtype gives there, and what is right.
    """

    path: str
    dtype: str
    relative: float
    recorded: float | None
    worst: tuple[int, ...]
    got: float | complex
    exact: float | complex


def in_precision(made: Replayed, exact: Replayed, precision: torch.dtype) -> Iterator[InPrecision]:
    """Each result of the call in this dtype beside that in float64."""
    for got, right in zip(made.tensors, exact.tensors, strict=True):
        if _is_number(right.value):
            yield _beside(got, got.value, right.value, dtype_name(precision))


def of_recorded(exact: Replayed) -> Iterator[InPrecision]:
    """Each recorded result beside that in float64."""
    for right in exact.tensors:
        if _is_number(right.value) and right.recorded is not None:
            yield _beside(right, right.recorded, right.value, dtype_name(right.recorded.dtype))


def _is_number(value: torch.Tensor) -> bool:
    return (value.is_floating_point() or value.is_complex()) and value.numel() > 0


def _beside(result: ReplayedTensor, got: torch.Tensor, exact: torch.Tensor, name: str) -> InPrecision:
    error = distances(got, exact)
    place = int(error.reshape(-1).argmax())
    return InPrecision(
        path=result.path,
        dtype=name,
        relative=_relative(error, exact),
        recorded=None if result.recorded is None else _relative(distances(result.recorded, exact), exact),
        worst=tuple(int(i) for i in torch.unravel_index(torch.tensor(place), error.shape)),
        got=got.reshape(-1)[place].item(),
        exact=exact.reshape(-1)[place].item(),
    )


def _relative(error: torch.Tensor, exact: torch.Tensor) -> float:
    size, off = typical_size(exact), float(error.square().mean().sqrt())
    return off / size if size > 0 else math.inf if off else 0.0
