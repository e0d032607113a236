"""What is put where: which recorded tensor belongs to which place of which pass of this program."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from tensortap import _core, reading
from tensortap.comparing import diff
from tensortap.grafting.report import GraftedKey, Refused
from tensortap.reading import Pass, Rank, Run, began
from tensortap.records import TensorRecord
from tensortap.session import metadata
from tensortap.session.filters import nearest_names

_FULL = 'level="full" (ttap run --level full)'


class Spot(NamedTuple):
    """A tensor of a pass, under the name that this program gives it."""

    name: str
    call: int
    role: str
    path: str


@dataclass
class PlannedKey:
    """A key, and where it goes."""

    grafted: GraftedKey
    kind: str = "module"  # of the call: `module` or `op`
    names: set[str] = field(default_factory=set)  # of the calls, in this program
    roles: set[str] = field(default_factory=set)
    one: Spot | None = None  # the only place in a pass; None: every tensor of these names and roles

    def wants(self, spot: Spot) -> bool:
        """Whether this tensor goes by it, whether or not its pass was recorded."""
        return spot == self.one if self.one is not None else spot.name in self.names and spot.role in self.roles


class RecordedTensor(NamedTuple):
    """A tensor of the run that is grafted from."""

    key: str
    recorded: Pass

    def value(self) -> torch.Tensor:
        """Its bytes, mapped. Raises Refused."""
        record = self.recorded.record(self.key)
        check_record(record)
        value = self.recorded[self.key]
        assert isinstance(value, torch.Tensor)
        return value


class Plan:
    """The keys of one run, and their tensors pass by pass.

    With `strict` a key that is not there is an error; else it is one that is not met.
    """

    def __init__(self, run: Run, keys: Sequence[str], names_of: Run | None, *, strict: bool = True) -> None:
        self.run = run
        self._rank = _rank_of(run)
        self._renamed = _names_by_diff(run, names_of) if names_of is not None else {}
        self._names_of = names_of
        self._opened: dict[int, Pass] = {}
        self._spots: dict[int, dict[Spot, RecordedTensor]] = {}  # by pass
        self._lock = threading.RLock()
        self.of_trace = (
            self._rank.metadata.get("program", {}).get("source") == "ops"
        )  # one pass, whatever was called how often
        self.keys = [self._planned(key, strict=strict) for key in dict.fromkeys(keys)]
        self._by_spot = {key.one: key for key in reversed(self.keys) if key.one is not None}

    def of_kind(self, kind: str) -> list[PlannedKey]:
        """The keys that are results of modules, or of operators."""
        return [key for key in self.keys if key.kind == kind]

    def wanted(self, names: Iterable[str], spot: Spot) -> PlannedKey | None:
        """The key that a tensor of this program goes by, whether or not this pass was recorded."""
        for name in names:
            here = spot._replace(name=name)
            if (key := self._by_spot.get(here)) is not None:
                return key
            for key in self.keys:
                if key.wants(here):
                    return key
        return None

    def found(self, number: int, names: Iterable[str], spot: Spot) -> RecordedTensor | None:
        """The recorded tensor of a place; None: the run has none."""
        spots = self._of_pass(number)
        for name in names:
            if (known := spots.get(spot._replace(name=name))) is not None:
                return known
        return None

    def from_pass_on(self, number: int, names: Iterable[str], spot: Spot) -> RecordedTensor | None:
        """The same in the first pass that has it, from this one on."""
        for later in self._rank.passes:
            if later >= number and (known := self.found(later, names, spot)) is not None:
                return known
        return None

    def why_not_recorded(self, number: int, spot: Spot) -> str:
        """Of a tensor that was met, and that the run has not got."""
        if number not in self._rank.passes:
            return f"pass {number} of this program is not in {self.run.path}"
        return f"{_core.key_text(*spot)} of pass {number} is not in {self.run.path}"

    # ---- reading ----

    def _planned(self, text: str, *, strict: bool) -> PlannedKey:
        """A key that cannot be grafted is met nowhere; `strict`: it raises KeyError or ValueError."""
        planned = PlannedKey(GraftedKey(text, str(self.run.path)))
        try:
            self._look_for(text, planned)
        except (KeyError, ValueError) as why:
            if strict:
                raise
            planned.grafted.unmet = str(why.args[0])
        return planned

    def _look_for(self, text: str, planned: PlannedKey) -> None:
        for number in self._rank.passes:
            recorded = self._open(number)
            records = _selected(recorded, text)
            if not records:
                continue
            for record in records:
                try:
                    check_record(record)
                except Refused as why:
                    raise ValueError(f"{text} of {self.run.path} cannot be grafted: {why}") from None
            event = recorded.events[records[0].event] if records[0].event is not None else None
            planned.kind = event.kind if event is not None else "module"
            if planned.kind not in ("module", "op"):
                raise ValueError(f"{text} of {self.run.path} is of a {planned.kind}: results of modules and operators "
                                 "can be grafted, and inputs of modules")  # fmt: skip
            self._check_roles(text, planned.kind, records)
            if "batch@in/query_start" in recorded:
                raise ValueError(f"{text} of {self.run.path} has rows of several requests, which no two steps arrange "
                                 "alike: graft from a run of the model by itself")  # fmt: skip
            self._place(planned, recorded, records)
            if text in recorded:
                planned.one = self._spot_here(records[0])
            return
        raise KeyError(_not_there(text, self._rank, self.run))

    def _check_roles(self, text: str, kind: str, records: list[TensorRecord]) -> None:
        roles = ("out", "in") if kind == "module" else ("out",)
        for record in records:
            if record.role not in roles:
                what = "an argument of an operator: graft the result of what made it" if kind == "op" else record.role
                raise ValueError(f"{text} of {self.run.path} cannot be grafted: it is {what}")

    def _place(self, planned: PlannedKey, recorded: Pass, records: list[TensorRecord]) -> dict[Spot, RecordedTensor]:
        placed = {}
        for record in records:
            spot = self._spot_here(record)
            planned.names.add(spot.name)
            planned.roles.add(spot.role)
            placed[spot] = RecordedTensor(record.key, recorded)
        return placed

    def _spot_here(self, record: TensorRecord) -> Spot:
        if self._names_of is None:
            return Spot(record.name, record.call, record.role, record.path)
        if (found := self._renamed.get(record.key)) is None:
            raise KeyError(f"{record.key} of {self.run.path} has no counterpart in {self._names_of.path}: "
                           f"see ttap diff --matches {self.run.path} {self._names_of.path}")  # fmt: skip
        return found

    def _of_pass(self, number: int) -> dict[Spot, RecordedTensor]:
        with self._lock:
            if number not in self._spots:
                self._spots[number] = spots = {}
                if number in self._rank.passes:
                    recorded = self._open(number)
                    for planned in self.keys:
                        spots.update(self._place(planned, recorded, _selected(recorded, planned.grafted.key)))
            return self._spots[number]

    def _open(self, number: int) -> Pass:
        if number not in self._opened:
            self._opened[number] = self._rank.passes[number]
        return self._opened[number]


def check_record(record: TensorRecord) -> None:
    """Whether its values are there. Raises Refused."""
    if record.group:
        raise Refused("it is a quantized tensor")
    if not record.has_bytes and record.level == "full":
        raise Refused("its bytes were dropped")
    if not record.has_bytes:
        raise Refused(f"its bytes were not kept: record with {_FULL}")


def opened(run: str | os.PathLike[str] | Run) -> Run:
    """A run, opened unless it is."""
    return run if isinstance(run, Run) else reading.open(run)


def _selected(recorded: Pass, key: str) -> list[TensorRecord]:
    """The tensor of this key; of a name, or of a call of several results, all it stands for."""
    if key in recorded:
        return [recorded.record(key)]
    named = [record for record in recorded.records if record.name == key and record.role == "out"]
    return named or [record for record in recorded.records if record.key.startswith(f"{key}/")]


def _rank_of(run: Run) -> Rank:
    number, world = metadata.rank(), metadata.world_size()
    numbers = {rank.number for rank in run.ranks}
    recorded = max(((rank.metadata.get("launch") or {}).get("ranks", 1) for rank in run.ranks), default=1)
    alone = world == 1 and len(numbers) == 1
    if max(recorded, len(numbers)) != world and not alone:
        raise ValueError(f"{run.path} was recorded by {_processes(max(recorded, len(numbers)))}, and this program has "
                         f"{_processes(world)}: each is given what its own rank recorded")  # fmt: skip
    # Of several processes of a rank the one that began first: it started the others.
    of_rank = [rank for rank in run.ranks if rank.number == number or alone]
    if not of_rank:
        raise ValueError(f"rank {number} is not in {run.path}")
    return min(of_rank, key=began)


def _processes(count: int) -> str:
    return "one process" if count == 1 else f"{count} processes"


def _names_by_diff(run: Run, names_of: Run) -> dict[str, Spot]:
    """Where the tensors of a run stand in another one, by their keys."""
    records = {record.key: record for each in _rank_of(names_of).passes.values() for record in each.records}
    found: dict[str, Spot] = {}
    for tensor in diff(run, names_of).tensors:
        if tensor.made_a or tensor.made_b or tensor.verdict in ("missing", "extra"):
            continue
        record = records.get(tensor.key_b or tensor.key)
        if record is not None:
            found.setdefault(tensor.key, Spot(record.name, record.call, record.role, record.path))
    return found


def _not_there(key: str, rank: Rank, run: Run) -> str:
    if not rank.passes:
        return f"there is no pass in {run.path}"
    near = nearest_names(key, list(next(iter(rank.passes.values()))))
    return f"{key} is not in {run.path}" + (f"; near it: {', '.join(near)}" if near else "")
