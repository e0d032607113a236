"""The same pass on all ranks of a run, and which calls of these are one collective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tensortap import _core, reading
from tensortap.reading import FormatError, Pass
from tensortap.records import EventRecord, TensorRecord, Use

# Where a result of a collective is: the event of its call, and its path.
ResultPlace = tuple[int, str]


@dataclass(frozen=True)
class Given:
    """What one rank gave to a result of a collective.

    Attributes
    ----------
    group_rank, rank
        Its number within the process group, and that of the process.
    kept, event
        Its pass, and its call.
    tensors
        Path and record of each tensor; None where it was not recorded.
    """

    group_rank: int
    rank: int
    kept: Pass
    event: EventRecord
    tensors: list[tuple[str, TensorRecord | None]]


@dataclass(frozen=True)
class RankPasses:
    """The passes of all ranks; `part` is the place of the one that asks."""

    passes: list[tuple[int, Pass]]
    part: int
    core: _core.PassCollectives
    held: dict[ResultPlace, list[int]]

    def given_to(self, event: int, path: str) -> tuple[str, list[Given]]:
        """Why it is not known what the ranks gave to this result; or else what each gave."""
        problem, all_given = self.core.given_to(self.part, event, path)
        found = []
        for group_rank, part, call, tensors, missing in all_given:
            if part is None or call is None:
                problem = problem or missing
                continue
            rank, kept = self.passes[part]
            # Not by way of `events` and `records`: of other ranks little else is read.
            records = [(path, None if each is None else kept._record(each)) for path, each in tensors]
            found.append(Given(group_rank, rank, kept, kept._event(call), records))
        return problem, found

    def read_later(self, place: ResultPlace, use: Use) -> TensorRecord | None:
        """The record of a whole result that was read after its call; `use` is the result at the call."""
        kept = self.passes[self.part][1]
        if use.record is None:
            return None
        result = kept.records[use.record]
        for index in self.held.get(place, []):
            record = kept.records[index]
            if (_size(record), record.dtype, record.strides) != (_size(result), result.dtype, result.strides):
                continue
            # What a wait returns is the result, perhaps in another shape; an argument may be a part of it, or more.
            if record.role == "out" and (record.shape == result.shape or record.strides is None):
                return record
            if record.shape == result.shape and _object_of(kept, index) == use.tensor:
                return record
        return None

    def place_behind(self, record: int) -> ResultPlace | None:
        """The result of a collective that a record holds, which was read after its call."""
        return next((place for place, records in self.held.items() if record in records), None)


def _size(record: TensorRecord) -> int:
    return math.prod(record.shape)


def _object_of(kept: Pass, record: int) -> int | None:
    """Which tensor object a record was read of."""
    event = kept.records[record].event
    uses = () if event is None else kept.events[event].uses
    return next((use.tensor for use in uses if use.record == record), None)


def rank_passes_of(kept: Pass) -> RankPasses:
    """Those of the run that the pass lies in; found once for each pass."""
    known = vars(kept).get("_rank_passes")
    if not isinstance(known, RankPasses):
        known = vars(kept)["_rank_passes"] = _found(kept)
    return known


def _found(kept: Pass) -> RankPasses:
    passes, part = _on_all_ranks(kept)
    core = _core.PassCollectives.open([(rank, each._core) for rank, each in passes])
    held: dict[ResultPlace, list[int]] = {}
    for record, event, path in core.held_results(part):
        held.setdefault((event, path), []).append(record)
    return RankPasses(passes, part, core, held)


def _on_all_ranks(kept: Pass) -> tuple[list[tuple[int, Pass]], int]:
    """The passes of this number, and which of them is the one given; it alone where it lies in no run."""
    folder = kept.path.absolute().parent
    # The first run of a directory that has several lies in the directory itself.
    for place in (folder.parent, folder.parent / "run00001"):
        try:
            ranks = reading.open(place).ranks
        except (FormatError, OSError):
            continue
        if not any(rank.path == folder for rank in ranks):
            continue
        passes = [
            (rank.number, kept if rank.path == folder else rank.passes[kept.number])
            for rank in ranks
            if kept.number in rank.passes
        ]
        return passes, next(part for part, (_, each) in enumerate(passes) if each is kept)
    return [(_rank_number(kept.path), kept)], 0


def _rank_number(path: Path) -> int:
    try:
        return reading.open(path).ranks[0].number
    except (FormatError, OSError):
        return 0
