"""A call of the second run in float64, with its recorded results and what rounding may do to them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch

from tensortap import reading
from tensortap.hunting.suspects import CallPlace
from tensortap.reading import FormatError, Pass
from tensortap.records import EventRecord
from tensortap.replaying.blame.found import BlamedCall
from tensortap.replaying.blame.judged import rounding_bound
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.rounding import is_bounded
from tensortap.replaying.call_tensors import BytesMissing, record_of
from tensortap.replaying.calling import Refused, prepared
from tensortap.replaying.double import NoDouble
from tensortap.replaying.right.find_tensor import find_tensor
from tensortap.replaying.right.report import ReplayedSide
from tensortap.replaying.right.who_is_right import replayed_side


@dataclass(frozen=True)
class Result:
    """A recorded result: the number of its use, its values, and what rounding may do to each."""

    number: int
    recorded: torch.Tensor
    bound: torch.Tensor


@dataclass(frozen=True)
class Compared:
    """What a diff compared of a result, and what rounding may do to each value; None where it is a view."""

    values: torch.Tensor
    bound: torch.Tensor | None

    def bound_beside(self, other: Compared) -> torch.Tensor | None:
        """What rounding may put between the two: a view is taken to be as exact as what it is compared with."""
        bounds = [bound for bound in (self.bound, other.bound) if bound is not None]
        if self.values.shape != other.values.shape or not bounds:
            return None
        return bounds[0] + bounds[-1]


@dataclass(frozen=True)
class CallAgain:
    """A call made again in float64, and the pass that it was recorded in.

    Attributes
    ----------
    view
        What of its result was compared, where that is a view of it.
    """

    kept: Pass
    double: DoubleCall
    view: torch.Tensor | None = None

    @property
    def event(self) -> EventRecord:
        """The recorded call."""
        return self.double.call.event

    @property
    def paths(self) -> list[str]:
        """Of its results."""
        return [self.event.uses[number].path for number in self.double.exact]

    def shaped_as(self, other: CallAgain, at: CallPlace) -> CallAgain:
        """With its view in the shape of the other's result at a place, where axes before the last are only merged."""
        shape = other.kept.record(at.key).shape
        if self.view is None or self.view.numel() != torch.Size(shape).numel() or self.view.shape[-1:] != shape[-1:]:
            return self
        return replace(self, view=self.view.reshape(shape))

    def compared(self, path: str) -> Compared | None:
        """What was compared of a result; None as of `result`."""
        found = self.result(path)
        if found is None:
            return None
        if self.view is None:
            return Compared(found.recorded, found.bound)
        return Compared(self.view.to(found.recorded.device), None)

    def result(self, path: str) -> Result | None:
        """The result of a path; None where there is none, its bytes were not kept, or nothing of it is rounded."""
        number = next((n for n in self.double.exact if self.event.uses[n].path == path), None)
        if number is None:
            return None
        try:
            recorded = self.kept[record_of(self.kept, self.event.uses[number]).key]
        except BytesMissing:
            return None
        if not isinstance(recorded, torch.Tensor) or not is_bounded(recorded.dtype):
            return None
        try:
            bound = rounding_bound(self.double, number, recorded.dtype)
        except Exception:  # arguments that its rule does not know
            return None
        return Result(number, recorded.to(bound.device), bound)


def side_of(
    run: str | os.PathLike[str], place: CallPlace | None, device: torch.device, failed: str = ""
) -> ReplayedSide:
    """The call of a place in a run that kept its bytes, held against the exact result of its arguments.

    `failed` says why there is no such run.
    """
    if place is None:
        return ReplayedSide("", reason="it has no such call")
    if failed:
        return ReplayedSide(place.key, reason=f"its second run failed: {failed}")
    try:
        rank, kept, record = find_tensor(reading.open(run), place.rank, place.pass_number, place.key)
    except (LookupError, OSError, FormatError) as error:
        return ReplayedSide(place.key, reason=f"in the second run: {error.args[0] if error.args else error}")
    return replayed_side(rank, place.pass_number, kept, record, device)


def call_again(run: str | os.PathLike[str], place: CallPlace | None, call: BlamedCall | None, device: torch.device
               ) -> CallAgain | None:  # fmt: skip
    """The call that was judged; None where none was."""
    if place is None or call is None:
        return None
    try:
        _, kept, _ = find_tensor(reading.open(run), place.rank, place.pass_number, place.key)
        view = None if place.view is None else kept.get(place.view.key)
        double = DoubleCall(prepared(kept.events[call.event], device))
        return CallAgain(kept, double, view if isinstance(view, torch.Tensor) else None)
    except (LookupError, OSError, FormatError, Refused, NoDouble):
        return None
