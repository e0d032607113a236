"""What is asked of a check of a compiled graph, and what it answers. Imports no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensortap.graph.bisect import Reduced


@dataclass(frozen=True)
class Tolerance:
    """What counts as close.

    Parameters
    ----------
    rtol, atol
        For every tensor; by default they depend on the dtype, as in `tap.diff`. Integers must be equal.
    equal_nan
        NaN agrees with NaN: what the graph computes is the question, not whether it should.
    """

    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = True

    def __post_init__(self) -> None:
        for name in ("rtol", "atol"):
            given = getattr(self, name)
            if given is not None and not given >= 0:
                raise ValueError(f"Tolerance({name}={given}): tolerances are not negative")


@dataclass(frozen=True)
class SearchLimits:
    """How much may be spent on looking for the smallest part.

    Parameters
    ----------
    compiles
        How many parts are compiled at most.
    seconds
        How long it may take; a compilation that has begun is waited for.
    """

    compiles: int = 100
    seconds: float = 300.0


@dataclass(frozen=True)
class Difference:
    """A value that two ways to run a graph do not agree on.

    Attributes
    ----------
    place
        What it is: `output 0`, or `input l_x_` for one that the graph writes to.
    reason
        How the two differ, in words.
    largest
        The largest difference of two elements; infinity where the two cannot be held against each other.
    limits
        The tolerance it was judged by: `rtol`, `atol`, `relative` (of the error as a whole, or None), `equal_nan`.
    """

    place: str
    reason: str
    largest: float = float("inf")
    limits: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.place} {self.reason}"


class GraphMismatch(AssertionError):
    """A compiled graph did not compute what the graph says.

    Attributes
    ----------
    mismatch : Mismatch
    """

    def __init__(self, message: str, mismatch: Mismatch) -> None:
        super().__init__(message)
        self.mismatch = mismatch


@dataclass(frozen=True)
class Mismatch:
    """One execution in which the compiled graph and the interpreted one parted.

    Attributes
    ----------
    graph_id
        Which graph.
    call
        Which execution of it in this process, from 0.
    differences
        What differed, and by how much.
    reduced
        The smallest part of the graph that still shows it; None after the first mismatch, or where none was found.
    script
        A program that shows it by itself; None where there is none.
    note
        Why there is none.
    """

    graph_id: str
    call: int
    differences: tuple[Difference, ...]
    reduced: Reduced | None = field(default=None, repr=False)
    script: Path | None = None
    note: str = ""

    @property
    def largest(self) -> float:
        return max(difference.largest for difference in self.differences)
