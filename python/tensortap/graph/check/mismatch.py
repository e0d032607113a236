"""What a check of a compiled graph answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tensortap.graph.check.bisect import Reduced
from tensortap.graph.check.difference import Difference


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
    """One execution in which the compiled graph and the interpreted one differed.

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
