"""The calls of one pass, as a comparison of two runs sees them: what each was asked, and what it answered."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from tensortap.reading import Pass
from tensortap.records import EventRecord, TensorRecord, Use
from tensortap.replaying.blame.blaming import own_line
from tensortap.replaying.operators import OpName, UnknownOperator, find_operator, is_random, overwrites, returns_view

# How a recording begins to say that no operator wrote to a tensor.
NOT_INITIALISED = "not initialised"
_RESULTS = ("out", "after")


class Bits(NamedTuple):
    """What is known of a tensor's value: two have the same bits where all of it agrees.

    Attributes
    ----------
    hash
        Of its logical bytes; None where they were not read.
    """

    dtype: str
    shape: tuple[int, ...]
    hash: str | None


@dataclass(eq=False)
class Call:
    """One operator or kernel of a pass.

    Attributes
    ----------
    index
        Where it is in `Pass.events`.
    line
        The innermost line of the program's own code; empty without stacks.
    given, made
        The tensors that it took, and those that it left, by their paths. A tensor whose values it gives anew, all of
        them, is not given: what was in it before does not matter.
    question
        What it was asked: two calls with the same question should have the same answer.
    answer
        The bits that it made.
    draws
        Whether it draws random numbers: what a generator holds is part of no question.
    """

    index: int
    event: EventRecord
    line: str
    given: dict[str, Use]
    made: dict[str, Use]
    question: Hashable
    answer: Hashable
    draws: bool
    parts: dict[str, list[Use]] = field(default_factory=dict)

    @property
    def name(self) -> OpName:
        return OpName.of(self.event.name)


class PassCalls:
    """Every operator and kernel of a pass, in the order in which they began; of no pass, none."""

    def __init__(self, kept: Pass | None) -> None:
        self.records: list[TensorRecord] = kept.records if kept is not None else []
        self.events: list[EventRecord] = kept.events if kept is not None else []
        self._bits = [Bits(one.dtype, one.shape, one.hash) for one in self.records]
        self.calls = [self._call(i, one) for i, one in enumerate(self.events) if one.kind in ("op", "kernel")]
        self.by_event = {call.index: call for call in self.calls}

    @property
    def has_hashes(self) -> bool:
        return any(bits.hash is not None for bits in self._bits)

    def bits(self, use: Use) -> Bits | None:
        """None where nothing at all is known of the value."""
        return None if use.record is None else self._bits[use.record]

    def hash(self, use: Use) -> str | None:
        known = self.bits(use)
        return known.hash if known is not None else None

    def maker(self, use: Use) -> Call | None:
        """The call whose result the value is; None of what came from outside the recorded calls."""
        if use.record is None:
            return None
        record = self.records[use.record]
        if record.role not in _RESULTS or record.event is None:
            return None
        return self.by_event.get(record.event)

    def unread(self, use: Use) -> str:
        """Why the bytes of a value were not read; empty where they were, or nobody says."""
        if use.record is None:
            return ""
        record = self.records[use.record]
        if record.hash is not None or record.event is None:
            return ""
        place = record.path if record.role == "in" else f"{record.role}{record.path}"
        reasons = self.events[record.event].notes.get("unread")
        return str(reasons.get(place, "")) if isinstance(reasons, dict) else ""

    def _call(self, index: int, event: EventRecord) -> Call:
        name = OpName.of(event.name)
        anew = overwrites(name) or draws(event.name)
        given = {use.path: use for use in event.uses if use.role == "in" and not (use.written and anew)}
        made = {f"{use.role}{use.path}": use for use in event.uses if use.role in _RESULTS}
        parts: dict[str, list[Use]] = {}
        for use in event.uses:
            if use.role == "part":
                parts.setdefault(use.path, []).append(use)
        asked = tuple((path, self.bits(use)) for path, use in given.items())
        answered = tuple((path, self.bits(use)) for path, use in made.items())
        return Call(
            index=index,
            event=event,
            line=line_of(event.stack),
            given=given,
            made=made,
            question=(event.name, event.arguments, asked),
            answer=(event.returned, answered),
            draws=draws(event.name),
            parts=parts,
        )


@functools.cache
def line_of(stack: str) -> str:
    """The innermost line of the program's own code; calls of one line share it."""
    return own_line(stack)


@functools.cache
def is_view(name: str) -> bool:
    """Whether the operator of this event shows the memory of its argument, and reads none of it."""
    try:
        return returns_view(find_operator(OpName.of(name)))
    except (UnknownOperator, AttributeError):
        return False


@functools.cache
def draws(name: str) -> bool:
    """Whether the operator of this event draws random numbers."""
    try:
        return is_random(find_operator(OpName.of(name)))
    except (UnknownOperator, AttributeError):
        return False
