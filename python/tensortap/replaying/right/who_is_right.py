"""`tap.who_is_right`: both sides of a difference beside the exact results of their own inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

from tensortap import reading
from tensortap.comparing import Diff
from tensortap.reading import FormatError, Pass, Rank
from tensortap.records import EventRecord, TensorRecord
from tensortap.replaying.blame.blaming import Place, judged_call
from tensortap.replaying.blame.found import BlamedCall, RefusedCall
from tensortap.replaying.blame.settings import settings_of
from tensortap.replaying.calling import device_of
from tensortap.replaying.operators import OpName
from tensortap.replaying.right.find_tensor import find_tensor
from tensortap.replaying.right.recording_again import how_to_record
from tensortap.replaying.right.report import ReplayedSide, Suspect, WhoIsRight

_PLACE = re.compile(r"rank (\d+), pass (\d+)")
_PUT_TOGETHER = re.compile(r"^ranks |by token$")
_NO_CALLS = "the file has tensors, and not the calls that made them"


def who_is_right(diff: Diff, *, top: int = 3, device: str | torch.device = "cpu") -> WhoIsRight:
    """Which side of a comparison is wrong.

    Of each difference that an operator introduced, both sides are called again in float64, with the inputs that they
    were recorded with. A result that is farther from that than rounding explains is wrong, whichever side it is of.

        found = tap.who_is_right(tap.diff("good", "bad"))
        found.first.wrong, found.first.sentence

    Parameters
    ----------
    diff
        What `tap.diff` gave. The recordings must be where they were.
    top
        How many differences are looked at.
    device
        Where to call the operators.

    Returns
    -------
    WhoIsRight
        Of each the answer, or the reason why there is none, and how to record what is missing.
    """
    return who_is_right_in(diff.to_json(), top, device_of(device))


def who_is_right_in(document: dict[str, Any], top: int, device: torch.device) -> WhoIsRight:
    """The same for what `ttap diff --json` printed."""
    chosen: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}  # each key once, where it is the first
    for compared, tensor in introduced(document):
        chosen.setdefault(tensor["key"], (compared, tensor))
    suspects = []
    for key, (compared, tensor) in list(chosen.items())[:top]:
        a, b = (_replayed(document[side]["path"], compared[side], tensor, side, device) for side in ("a", "b"))
        suspects.append(Suspect(key, a, b))
    return WhoIsRight(suspects, len(chosen) - len(suspects))


def introduced(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What operators made different, in execution order: the pair of passes, and the tensor."""
    for place in [document["first"], *document["introduced"]]:
        if place is not None:
            compared = document["passes"][place["pass"]]
            yield compared, compared["tensors"][place["tensor"]]


def _replayed(run: str, place: str, tensor: dict[str, Any], side: str, device: torch.device) -> ReplayedSide:
    """One side of a suspect; without a call where it cannot be."""
    key = tensor.get("key_b", tensor["key"]) if side == "b" else tensor["key"]
    if tensor["verdict"] == ("extra" if side == "a" else "missing"):
        return ReplayedSide(key, reason="it has no such call")
    if made := tensor.get(f"made_{side}"):
        return ReplayedSide(key, reason=f"it is made of several tensors: {made}")
    found = _PLACE.fullmatch(place)
    if found is None and _PUT_TOGETHER.search(place):
        return ReplayedSide(key, reason=f"it was put together from {place}: compare one rank, pass by pass (--by-pass)")
    if found is None:
        return ReplayedSide(key, reason=_NO_CALLS)
    number = int(found[2])
    try:
        rank, kept, record = find_tensor(reading.open(run), int(found[1]), number, key)
    except (LookupError, OSError, FormatError) as error:
        return ReplayedSide(key, reason=str(error.args[0] if error.args else error))
    return replayed_side(rank, number, kept, record, device)


def replayed_side(rank: Rank, number: int, kept: Pass, record: TensorRecord, device: torch.device) -> ReplayedSide:
    """The call that made a tensor, made again; of a module the worst of its operators."""
    key = record.key
    if record.event is None:
        return ReplayedSide(key, reason=_NO_CALLS)
    event = kept.events[record.event]
    calls = [record.event] if event.kind == "op" else list(_operators_of(kept, record.event, record))
    if not calls:
        again = how_to_record(rank, number) if event.kind == "module" else ""
        return ReplayedSide(key, reason=f"the recording has the {event.kind}, and not its operators", record=again)
    return _worst(rank, number, kept, calls, key, device)


def _operators_of(kept: Pass, index: int, record: TensorRecord) -> Iterator[int]:
    """The operators that ran in the call of a module; of a gradient those of its backward."""
    of_backward = "grad" in record.role
    module = kept.events[index].name
    for i, event in enumerate(kept.events):
        if event.kind != "op":
            continue
        if of_backward:
            name = OpName.of(event.name)
            if name.backward and (name.scope == module or name.scope.startswith(f"{module}.")):
                yield i
        elif _is_in(kept, event, index):
            yield i


def _is_in(kept: Pass, event: EventRecord, index: int) -> bool:
    parent = event.parent
    while parent is not None and parent >= index:
        if parent == index:
            return True
        parent = kept.events[parent].parent
    return False


def _worst(rank: Rank, number: int, kept: Pass, calls: list[int], key: str, device: torch.device) -> ReplayedSide:
    """Of several calls the one that is farthest from the exact result."""
    settings = settings_of(rank.model)
    judged: list[BlamedCall] = []
    refused: list[RefusedCall] = []
    nothing = ""
    for i in calls:
        found = judged_call(Place(rank, number, i, kept, settings), kept.events[i], device)
        if isinstance(found, BlamedCall):
            judged.append(found)
        elif isinstance(found, RefusedCall):
            refused.append(found)
        else:
            nothing = f"nothing is rounded there: {found}"
    operators = tuple(one.op for one in judged)
    again = how_to_record(rank, number) if any(_lacks_bytes(kept, one.event) for one in refused) else ""
    if refused and not any(one.is_finding for one in judged):
        # What was not judged may be what is wrong.
        more = f" ({len(refused)} of {len(calls)} operators)" if len(calls) > 1 else ""
        return ReplayedSide(
            key, operators=operators, reason=f"{refused[0].op}: {refused[0].reason}{more}", record=again
        )
    if not judged:
        return ReplayedSide(key, reason=nothing)
    worst = max(judged, key=lambda one: (one.is_finding, one.error.bounds))
    return ReplayedSide(key, worst, operators, record=again)


def _lacks_bytes(kept: Pass, index: int) -> bool:
    return any(
        use.record is None or not (kept.records[use.record].has_bytes or kept.records[use.record].group)
        for use in kept.events[index].uses
        if use.role != "part"
    )
