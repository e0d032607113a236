"""When a tensor is dumped: which steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from tensortap.quant.dump.config_entry import ConfigError, Entry

NAMES = ("freq", "start_step", "end_step", "start_end_list")
_STEP = "a step, counted from 0"
_END = "the last step, counted from 0; -1 or nothing for no end"


@dataclass(frozen=True)
class Schedule:
    """Every `freq`-th step of intervals that include both ends, counted from the first step of each."""

    intervals: tuple[tuple[int, int | None], ...] = ((0, None),)  # None: no end
    freq: int = 1

    def includes(self, step: int) -> bool:
        for first, last in self.intervals:
            if first <= step and (last is None or step <= last):
                return (step - first) % self.freq == 0
        return False


def schedule_of(entries: Mapping[str, Entry], notes: list[str]) -> Schedule:
    """From the entries freq, start_step, end_step and start_end_list, of which any may be missing."""
    freq = entries["freq"].number(1, "a number of steps, at least 1") if _is_given(entries, "freq") else 1
    if _is_given(entries, "start_end_list"):
        for name in ("start_step", "end_step"):
            if _is_given(entries, name):
                notes.append(f"{entries[name].place} is left aside: start_end_list is there")
        return Schedule(_intervals(entries["start_end_list"]), freq)
    first = entries["start_step"].number(0, _STEP) if _is_given(entries, "start_step") else 0
    last = _end(entries["end_step"], first) if _is_given(entries, "end_step") else None
    return Schedule(((first, last),), freq)


def _is_given(entries: Mapping[str, Entry], name: str) -> bool:
    return name in entries and entries[name].value is not None


def _end(entry: Entry, first: int) -> int | None:
    last = None if entry.value is None else entry.number(-1, _END)
    if last is None or last == -1:
        return None
    if last < first:
        raise entry.wrong(f"it must not be before the first step, {first}")
    return last


def _intervals(entry: Entry) -> tuple[tuple[int, int | None], ...]:
    intervals: list[tuple[int, int | None]] = []
    for item in entry.items("intervals [first, last]"):
        pair = item.items("two steps, [first, last]")
        if len(pair) != 2:
            raise item.wrong("it must be a list of two steps, [first, last]")
        first = pair[0].number(0, _STEP)
        intervals.append((first, _end(pair[1], first)))
    intervals.sort(key=lambda interval: interval[0])
    for (_, last), (first, _) in itertools.pairwise(intervals):
        if last is None or first <= last:
            raise ConfigError(f"{entry.place}: the interval from step {first} begins before the one before it ends")
    return tuple(intervals)
