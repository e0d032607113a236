"""What a check of a compiled graph is asked, and one difference that it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
