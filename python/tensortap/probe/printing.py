"""Lines for people: what a probe saw."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import Any

import torch

from tensortap.probe.actions import Print
from tensortap.probe.sites import first_values
from tensortap.probe.snapshot import Snapshot


def label_of(name: str, invocation: int | None) -> str:
    """What a call of a probe is called; as in keys."""
    return f"{name}::call{invocation + 1}" if invocation else name


class Printer:
    """Prints for one probe; what its `Print` does not ask for, it does not."""

    def __init__(self, action: Print | None) -> None:
        self._action = action
        self.not_printed = 0

    def wants(self, number: int) -> bool:
        return self._action is not None and number % self._action.every == 0

    def say(self, snapshot: Snapshot, head: torch.Tensor) -> None:
        """One line; `head` are the bytes of the first elements, or of all."""
        assert self._action is not None
        values = first_values(head, snapshot.dtype, self._action.max_items)
        self._write(line_of(label_of(snapshot.probe_name, snapshot.invocation), snapshot, values))

    def miss(self, label: str, numbers: Iterable[int]) -> None:
        """These were overwritten before they could be printed."""
        lost = sum(self.wants(number) for number in numbers) if self._action is not None else 0
        if lost:
            self.not_printed += lost
            self._write(f"{label}: {lost} not printed: replays came faster than they were read")

    def _write(self, line: str) -> None:
        assert self._action is not None
        file = self._action.file if self._action.file is not None else sys.stderr
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, none, or a pipe that nobody reads
            file.write(line + "\n")
            file.flush()


def line_of(label: str, snapshot: Snapshot, values: list[Any]) -> str:
    """A snapshot for people to read, on one line."""
    stats = snapshot.stats
    elements = 1
    for length in snapshot.shape:
        elements *= length
    shown = [_number(value) for value in values] + (["…"] if len(values) < elements else [])
    infinite = stats["pos_inf"] + stats["neg_inf"]
    dtype = str(snapshot.dtype).removeprefix("torch.")
    return (
        f"{label} #{snapshot.replay_index} {list(snapshot.shape)} {dtype} {snapshot.device}: [{', '.join(shown)}] "
        f"min {stats['min']:.6g} max {stats['max']:.6g} mean {stats['mean']:.6g} nan {stats['nan']} inf {infinite}"
    )


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return "|".join(_number(part) for part in value)
    if isinstance(value, (bool, int)):
        return str(value)
    return f"{value:.6g}"
