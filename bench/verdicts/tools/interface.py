"""What a tool is to the score: it records runs under names, and compares two recordings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from runs import Run


class Refused(Exception):
    """The tool says that it cannot compare these two recordings."""


@dataclass(frozen=True)
class Answer:
    """What a tool says of two recordings.

    `named` is the module that went wrong first, as `named_modules()` calls it; of an operator, the module that it runs
    in. Empty where none is named.
    """

    verdict: Literal["same", "unsure", "differs"]
    named: str
    sentence: str


class Tool(ABC):
    """A tool with one of its settings."""

    # What it can record, and in how much detail: pairs of surface and level.
    settings: ClassVar[tuple[tuple[str, str], ...]]

    def __init__(self, surface: str, level: str, scratch: Path) -> None:
        self.surface = surface
        self.level = level
        self.scratch = scratch  # for its files

    def can_record(self, run: Run) -> bool:
        """Whether such runs can be recorded; pairs of others are left out."""
        return run.compiled is None and run.samples is None and not run.training

    @abstractmethod
    def record(self, run: Run, name: str) -> None:
        """Calls `run()` once and keeps what it did under this name, in place of what was there."""

    @abstractmethod
    def compare(self, a: str, b: str) -> Answer:
        """Compares two recordings; raises `Refused` where it will not."""
