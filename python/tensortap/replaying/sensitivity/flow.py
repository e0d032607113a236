"""Which call of a pass made each value, and which calls an output was made of."""

from __future__ import annotations

from dataclasses import dataclass

from tensortap.reading import Pass
from tensortap.records import EventRecord, Use

_GIVEN = ("in",)
_MADE = ("out", "after")


@dataclass(frozen=True)
class Flow:
    """The calls that an output was made of.

    Attributes
    ----------
    output
        Where in `Pass.records` the output is.
    calls
        The events, in the order in which they ran.
    last_use
        For each record the last of these calls that is given it.
    lost
        How many of the values that they are given were made by calls that are not known: written through another
        view, or past the dispatcher.
    """

    output: int
    calls: tuple[int, ...]
    last_use: dict[int, int]
    lost: int


def given(event: EventRecord) -> list[tuple[int, Use]]:
    """The tensors that a call is given, with the numbers of their uses."""
    return [(number, use) for number, use in enumerate(event.uses) if use.role in _GIVEN]


def made(kept: Pass, index: int) -> dict[int, int]:
    """The records that a call made, by the number of their use; not those that it was given, and shows again."""
    return {
        number: use.record
        for number, use in enumerate(kept.events[index].uses)
        if use.role in _MADE and use.record is not None and kept.records[use.record].event == index
    }


def flow_to(kept: Pass, output: int) -> Flow:
    """The calls that the record `output` was made of."""
    calls: set[int] = set()
    waiting: list[int | None] = [output]
    while waiting:
        record = waiting.pop()
        i = None if record is None else kept.records[record].event
        if i is None or i in calls or record not in made(kept, i).values():
            continue
        calls.add(i)
        waiting += [use.record for _, use in given(kept.events[i])]
    ordered = tuple(sorted(calls))
    last_use = {use.record: i for i in ordered for _, use in given(kept.events[i]) if use.record is not None}
    return Flow(output, ordered, last_use, _lost(kept, calls))


def _lost(kept: Pass, calls: set[int]) -> int:
    """Values that came from outside, of tensors that held another value before."""
    held: dict[int, int] = {}  # the record that a tensor object held last
    lost = 0
    for i, event in enumerate(kept.events):
        for _, use in given(event):
            if use.tensor is None or use.record is None:
                continue
            from_outside = kept.records[use.record].role == "in"
            if i in calls and from_outside and held.get(use.tensor, use.record) != use.record:
                lost += 1
            held[use.tensor] = use.record
        for use in event.uses:
            if use.role in _MADE and use.tensor is not None and use.record is not None:
                held[use.tensor] = use.record
    return lost
