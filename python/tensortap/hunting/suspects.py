"""Which tensors of a diff are followed up, and where their calls are in either run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tensortap.comparing import Diff
from tensortap.literals import EventKind
from tensortap.reading import Pass, Run
from tensortap.records import EventRecord
from tensortap.replaying.operators import OpName, UnknownOperator, find_operator, returns_view
from tensortap.replaying.right.who_is_right import introduced

_PLACE = re.compile(r"^ranks? (\d+).*, pass (\d+)$")


@dataclass(frozen=True)
class View:
    """A tensor that shows a part of another, and the name of the call that gave it."""

    key: str
    call: str


@dataclass(frozen=True)
class CallPlace:
    """A tensor of one run, and where the call is that made it.

    Attributes
    ----------
    key
        Of the tensor.
    call, kind
        The name of the call, `encoder.layer.0:aten::addmm` or a module's, and its kind.
    rank, pass_number, event
        Where in the run it is; `event` counts those of the pass.
    view
        What of the tensor was compared; None: all of it.
    """

    key: str
    call: str
    kind: EventKind
    rank: int
    pass_number: int
    event: int
    view: View | None = None


@dataclass(frozen=True)
class SuspectPair:
    """A tensor that an operator is suspected to have made different.

    Attributes
    ----------
    key
        As the diff has it.
    a, b
        It in either run; None where that run has no such call.
    reason
        What the diff says of it.
    """

    key: str
    a: CallPlace | None
    b: CallPlace | None
    reason: str


def suspect_pairs(diff: Diff, a: Run, b: Run, most: int) -> list[SuspectPair]:
    """What operators introduced, in the order of the runs; each operator once, on the first rank and pass with it."""
    found: list[SuspectPair] = []
    keys: set[tuple[str | None, str | None]] = set()
    calls: set[tuple[object, object]] = set()
    for compared, tensor in introduced(diff.to_json()):
        of_a = tensor["key"] if tensor["verdict"] != "extra" else None
        of_b = tensor.get("key_b", tensor["key"]) if tensor["verdict"] != "missing" else None
        if (of_a, of_b) in keys:  # before a pass is opened for it
            continue
        at_a, at_b = place_in(a, compared["a"], of_a), place_in(b, compared["b"], of_b)
        if at_a is None and at_b is None:
            continue
        keys.add((of_a, of_b))
        if (_call(at_a), _call(at_b)) not in calls:  # another result of a call that is there
            calls.add((_call(at_a), _call(at_b)))
            found.append(SuspectPair(tensor["key"], at_a, at_b, tensor["reason"]))
        if len(found) == most:
            break
    return found


def _call(place: CallPlace | None) -> tuple[int, int, int] | None:
    return None if place is None else (place.rank, place.pass_number, place.event)


def is_place_of(where: str, rank: int, pass_number: int) -> bool:
    """Whether a diff that calls a pass so may mean this one."""
    known = _PLACE.match(where)
    return known is None or (int(known[1]), int(known[2])) == (rank, pass_number)


def place_in(run: Run, where: str, key: str | None) -> CallPlace | None:
    """Where a run has this key, in the pass that a diff calls so: `rank 0, pass 3`."""
    for rank, number, kept in _passes(run, where) if key is not None else ():
        if key in kept and (event := kept.record(key).event) is not None:
            made, by = _behind_views(kept, key, event)
            view = None if made == key else View(key, kept.events[event].name)
            return CallPlace(made, kept.events[by].name, kept.events[by].kind, rank, number, by, view)
    return None


def _behind_views(kept: Pass, key: str, event: int) -> tuple[str, int]:
    """The tensor that a view shows, and the call that made it: a view computes nothing."""
    while _is_view(kept.events[event]):
        shown = next((use.record for use in kept.events[event].uses if use.role == "in"), None)
        if shown is None or kept.records[shown].role == "in":
            break
        maker = kept.records[shown].event
        if maker is None or maker >= event:  # a damaged file may say so
            break
        key, event = kept.records[shown].key, maker
    return key, event


def _is_view(event: EventRecord) -> bool:
    try:
        return event.kind == "op" and returns_view(find_operator(OpName.of(event.name)))
    except UnknownOperator:
        return False


def _passes(run: Run, where: str) -> Iterator[tuple[int, int, Pass]]:
    """The pass that a diff means by `rank 0, pass 3`; every one where it compared many as one."""
    for rank in run.ranks:
        for number in rank.passes:
            if is_place_of(where, rank.number, number):
                yield rank.number, number, rank.passes[number]
