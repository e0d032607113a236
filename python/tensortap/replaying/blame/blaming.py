"""`tap.blame`: every operator of a run beside the exact result of its own arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tensortap import _core, reading
from tensortap.reading import Pass, Rank, Run
from tensortap.records import EventRecord
from tensortap.replaying.blame.found import BlamedCall, CallAt, RefusedCall
from tensortap.replaying.blame.judged import TensorError, cancels, judge
from tensortap.replaying.blame.report import Blame
from tensortap.replaying.blame.settings import contradiction, settings_of
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.rounding import is_bounded
from tensortap.replaying.call_tensors import BytesMissing
from tensortap.replaying.calling import Refused, device_of, first_line
from tensortap.replaying.double import NoDouble
from tensortap.replaying.operators import (
    OpName,
    UnknownOperator,
    find_operator,
    is_determined,
    is_wait,
    leaves_uninitialised,
    returns_view,
)
from tensortap.replaying.replay import prepared_call
from tensortap.tensors.dtypes import TORCH_DTYPES

Progress = Callable[[int, int], None]
_OF_PYTORCH = re.compile(r"^<frozen |/(site|dist)-packages/(torch|tensortap)/|/python/tensortap/")


def blame(
    run: str | os.PathLike[str],
    *,
    passes: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    top: int = 10,
    device: str | torch.device = "cpu",
    all: bool = False,
    progress: Progress | None = None,
) -> Blame:
    """Find the operators whose results are farther from the exact ones than rounding explains. No second run is needed.

    Each operator is called again in float64 with the arguments that it was recorded with. What was recorded may differ
    from that by its rounding bound.

        print(tap.blame("run"))

    Parameters
    ----------
    run
        A run, a rank, a pass, a trace, or where one lies; with operators, at level "full".
    passes, ranks
        Only these: `"0,2-5"`, a number, or numbers.
    top
        How many calls are listed, whether above the line or not.
    device
        Where to call the operators.
    all
        The printed text also lists each call that was not made again.
    progress
        Called with how many calls are done, of how many.

    Raises
    ------
    ValueError
        When there is no such pass, or none with operators.
    """
    where = device_of(device)
    opened = reading.open(os.fspath(run))
    found = Blame(Path(opened.path), show_all=all)
    chosen = chosen_passes(opened, passes, ranks)
    done, total = 0, 0
    for position, (rank, number) in enumerate(chosen):
        kept = rank.passes[number]
        events = [(i, event) for i, event in enumerate(kept.events) if event.kind in ("op", "kernel")]
        total = max(total, done + len(events) * (len(chosen) - position))  # as if the others were alike
        settings = settings_of(rank.model)
        for index, event in events:
            _add(found, Place(rank, number, index, kept, settings), event, where)
            done += 1
            if progress is not None:
                progress(done, total)
    if done == 0:
        raise ValueError(f"{opened.path} has no operators; record with ttap run --ops --level full")
    found.calls.sort(key=_rank_of)
    found.findings = [one for one in found.calls if one.is_finding]
    found.cancelling.sort(key=lambda one: -one.error.cancellation)
    del found.calls[top:]
    return found


def chosen_passes(
    run: Run, passes: str | int | Iterable[int] | None, ranks: str | int | Iterable[int] | None
) -> list[tuple[Rank, int]]:
    """The passes that are asked for, rank by rank. Raises ValueError when there is none."""
    of_passes, of_ranks = _numbers(passes), _numbers(ranks)
    chosen = [(rank, n) for rank in run.ranks if rank.number in of_ranks for n in rank.passes if n in of_passes]
    if not chosen:
        raise ValueError(f"{run.path} has no such pass; ttap ls shows which there are")
    return chosen


@dataclass(frozen=True)
class Place:
    """Where a call is, and what is known of the modules there."""

    rank: Rank
    number: int
    index: int
    kept: Pass
    settings: dict[str, dict[str, Any]]


def _add(found: Blame, place: Place, event: EventRecord, device: torch.device) -> None:
    one = judged_call(place, event, device)
    if isinstance(one, str):
        found.nothing_to_judge[one] += 1
    elif isinstance(one, RefusedCall):
        found.refused.append(one)
    else:
        found.judged += 1
        found.calls.append(one)
        if cancels(one.error) and not one.is_finding:
            found.cancelling.append(one)


def judged_call(place: Place, event: EventRecord, device: torch.device) -> BlamedCall | RefusedCall | str:
    """The call beside its exact result; or why it was not made again; or in a word why there is nothing to judge."""
    name = OpName.of(event.name)
    if what := _nothing_to_judge(place.kept, name, event):
        return what
    try:
        worst = worst_error(DoubleCall(prepared_call(event, device)))
    except (Refused, NoDouble) as error:
        return RefusedCall(name.op, name.scope, place.rank.number, place.number, place.index, str(error))
    if worst is None:
        return "without values"
    where = call_at(place.kept, place.rank.number, place.index, worst.path)
    setting = contradiction(place.kept, place.index, place.settings.get(name.scope, {}))
    return BlamedCall(**vars(where), error=worst, setting=setting)


def call_at(kept: Pass, rank: int, index: int, path: str) -> CallAt:
    """The event of this index in a pass; `path` says which of its results."""
    event, name = kept.events[index], OpName.of(kept.events[index].name)
    return CallAt(
        key=_core.key_text(event.name, event.call, "out", path),
        op=name.op,
        module=name.scope,
        backward=name.backward,
        rank=rank,
        pass_number=kept.number,
        event=index,
        call=call_text(kept, event),
        line=own_line(event.stack),
    )


def _nothing_to_judge(kept: Pass, name: OpName, event: EventRecord) -> str:
    """Why no result of the call is rounded; empty where one is."""
    if event.kind != "op" or not event.returned:
        return ""
    if is_wait(name) or _is_given_one_under_way(event):
        return "waits for collectives"  # which are judged by themselves, as is the operator beneath
    if leaves_uninitialised(name):
        return "of memory that nothing was written to"
    try:
        if returns_view(find_operator(name)):
            return "views"
    except UnknownOperator:
        return ""
    made = [use for use in event.uses if use.role in ("out", "after")]
    dtypes = [TORCH_DTYPES.get(kept.records[use.record].dtype) for use in made if use.record is not None]
    if not made or (dtypes and not any(dtype is not None and is_bounded(dtype) for dtype in dtypes)):
        return "in float64" if torch.float64 in dtypes else "integer results" if made else "without tensors"
    return ""


def _is_given_one_under_way(event: EventRecord) -> bool:
    """Whether it waits for an argument before an operator beneath it computes with that."""
    classes = event.notes.get("classes")
    return isinstance(classes, dict) and any(
        kind == "AsyncCollectiveTensor" for path, kind in classes.items() if not path.startswith("out")
    )


def worst_error(call: DoubleCall) -> TensorError | None:
    """Of the results of the call the one that is farthest from the exact one."""
    worst: TensorError | None = None
    missing = ""
    for number in call.exact:
        use = call.call.event.uses[number]
        if not is_determined(call.call.name, use.path):
            missing = missing or f"the result {use.path} is one of many that are right"
            continue
        try:
            _, recorded = call.call.recorded_result(number)
        except BytesMissing as error:
            missing = str(error)
            continue
        if recorded is None:
            continue
        try:
            error_of = judge(call, number, recorded.to(call.call.device))
        except Exception as error:
            # Arguments of a kind that its rule does not know: one call that is not judged, and no end of all.
            raise Refused(f"its rounding bound is not known: {first_line(error)}") from error
        if error_of is not None and (worst is None or error_of.bounds > worst.bounds):
            worst = error_of
    if worst is None and missing:
        raise Refused(missing)
    return worst


def _rank_of(one: BlamedCall) -> tuple[bool, float, int, int, int]:
    """What is above the line first, the largest error first, then in the order of the calls."""
    return (not one.is_finding, -one.error.bounds, one.rank, one.pass_number, one.event)


def _numbers(given: str | int | Iterable[int] | None) -> _core.NumberSet:
    if given is None or given == "":
        return _core.NumberSet("0-")
    if isinstance(given, str):
        return _core.NumberSet(given)
    return _core.NumberSet(",".join(str(number) for number in ([given] if isinstance(given, int) else given)))


def call_text(kept: Pass, event: EventRecord) -> str:
    """The arguments of a call, with dtype and shape in place of each tensor."""

    def described(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        use = event.uses[int(found[1])]
        if use.record is None:
            return "?"
        record = kept.records[use.record]
        return f"{record.dtype}{list(record.shape)}"

    return re.sub(r"%(?:%|(\d+))", described, event.arguments)


def own_line(stack: str) -> str:
    """The innermost line of a stack that is of the program, not of PyTorch."""
    frames = [frame for frame in stack.splitlines() if not _OF_PYTORCH.search(frame.partition("\t")[0])]
    return frames[-1].replace("\t", ": ") if frames else ""
