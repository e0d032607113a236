"""What two passes show beside a call: how far its results are apart, who wrote meanwhile, which draw it is."""

from __future__ import annotations

import functools
import math

from tensortap.repeating.calls import NOT_INITIALISED, Call, PassCalls
from tensortap.typed_dicts import Stats

# The step of a dtype beside its values, and how many of them sums in another order may come to.
_STEPS = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
_MOST_STEPS = {"f64": 256, "f32": 256, "f16": 16, "bf16": 8}


class Facts:
    """Of a pass of A and the one of B."""

    def __init__(self, a: PassCalls, b: PassCalls) -> None:
        self.a, self.b = a, b

    def apart(self, call: Call, other: Call) -> tuple[float | None, bool]:
        """How far the results are apart at least, beside their size; whether that is no more than rounding."""
        farthest: float | None = None
        is_rounding = True
        for path in call.made.keys() & other.made.keys():
            mine, theirs = call.made[path].record, other.made[path].record
            if mine is None or theirs is None:
                continue
            one, another = self.a.records[mine], self.b.records[theirs]
            if one.hash == another.hash or one.stats is None or another.stats is None:
                continue
            relative = _apart(one.stats, another.stats)
            most = _STEPS.get(one.dtype, 0.0) * _MOST_STEPS.get(one.dtype, 0)
            is_rounding = is_rounding and 0 < relative <= most
            farthest = relative if farthest is None else max(farthest, relative)
        return farthest, is_rounding and farthest is not None

    def writes_meanwhile(self, call: Call, other: Call) -> bool:
        """Whether another thread of A or B writes to an argument or a result of this call while it runs."""
        for side, one in ((self.a, call), (self.b, other)):
            tensors = {use.tensor for use in (*one.given.values(), *one.made.values())} - {None}
            begin, end = one.event.time_ns, one.event.time_ns + one.event.duration_ns
            for writer in self._writers(side):
                event = writer.event
                if event.thread == one.event.thread or event.time_ns > end or event.time_ns + event.duration_ns < begin:
                    continue
                if any(use.written and use.tensor in tensors for use in event.uses):
                    return True
        return False

    @functools.cached_property
    def outside(self) -> tuple[set[str], set[str]]:
        """The hashes of tensors that no recorded operator made, in A and in B."""
        return _from_outside(self.a), _from_outside(self.b)

    @functools.cached_property
    def first_made(self) -> dict[int, int]:
        """By tensor object of A, the first event that made it."""
        first: dict[int, int] = {}
        for call in self.a.calls:
            for use in call.made.values():
                if use.tensor is not None:
                    first.setdefault(use.tensor, call.index)
        return first

    @functools.cached_property
    def began_empty(self) -> set[int | None]:
        """Which tensor objects of A were memory at first that no operator had written to."""
        return {
            use.tensor
            for call in self.a.calls
            for use in call.made.values()
            if use.tensor is not None and self.a.unread(use).startswith(NOT_INITIALISED)
        }

    @functools.cached_property
    def draws(self) -> tuple[dict[int, int], dict[int, int]]:
        """Which draw of its thread each is, by event, in A and in B."""
        return _draws(self.a), _draws(self.b)

    def _writers(self, side: PassCalls) -> list[Call]:
        return self._writers_a if side is self.a else self._writers_b

    @functools.cached_property
    def _writers_a(self) -> list[Call]:
        return _writing_threads(self.a)

    @functools.cached_property
    def _writers_b(self) -> list[Call]:
        return _writing_threads(self.b)


def _apart(one: Stats, another: Stats) -> float:
    if any(one[name] != another[name] for name in ("nan", "pos_inf", "neg_inf")):
        return math.inf
    size = max(one["max_abs"], another["max_abs"])
    if not size:
        return 0.0
    return max(abs(one[name] - another[name]) for name in ("min", "max", "mean", "std")) / size


def _writing_threads(side: PassCalls) -> list[Call]:
    """The calls that write to a tensor, in a pass where several threads run operators."""
    if len({call.event.thread for call in side.calls}) < 2:
        return []
    return [call for call in side.calls if any(use.written for use in call.event.uses)]


def _from_outside(side: PassCalls) -> set[str]:
    return {
        known
        for call in side.calls
        for use in call.given.values()
        if side.maker(use) is None and (known := side.hash(use)) is not None
    }


def _draws(side: PassCalls) -> dict[int, int]:
    number: dict[int, int] = {}
    counts: dict[int, int] = {}
    for call in side.calls:
        if call.draws:
            counts[call.event.thread] = number[call.index] = counts.get(call.event.thread, 0) + 1
    return number
