"""What a probe reports: a snapshot of a tensor, and a comparison that failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from tensortap import _core
from tensortap.typed_dicts import Stats

Element: TypeAlias = bool | int | float | complex | tuple[float, float]  # a pair: of packed values


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a probe recorded of one replay.

    Attributes
    ----------
    probe_name
        The probe's.
    replay_index
        Of the graph, from 0; of calls outside a graph: which call.
    invocation
        Which call of the probe within the graph, from 0.
    shape, dtype, device
        Of the tensor; the rows that were alive, where `rows` limits them.
    tensor
        A copy on the CPU; None at level fingerprint.
    hash, stats
        As in the records of a pass: 128 bits in hexadecimal, and a dict of statistics.
    eager
        Whether it comes from a call outside a graph.
    """

    probe_name: str
    replay_index: int
    invocation: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    tensor: torch.Tensor | None
    fingerprint: _core.Fingerprint = field(repr=False)
    eager: bool = False

    @property
    def hash(self) -> str:
        return self.fingerprint.hash

    @property
    def stats(self) -> Stats:
        return self.fingerprint.stats


class CompareFailed(AssertionError):
    """A probe's tensor was not what was expected.

    Attributes
    ----------
    probe_name, replay_index, invocation
        Where: the first replay that differed.
    element
        The index of the first element that differed.
    actual, expected
        Its two values.
    differing, elements, largest
        How many elements of how many differed in that replay, and by how much at most.
    failures, comparisons
        How many replays of how many differed.
    """

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message)
        self.probe_name: str
        self.replay_index: int
        self.invocation: int
        self.element: tuple[int, ...]
        self.actual: Element
        self.expected: Element
        self.differing: int
        self.elements: int
        self.largest: float
        self.failures: int
        self.comparisons: int
        self.__dict__.update(known)
