"""`tap.sensitivity`: how much of an output's error each operator's own error explains."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator

import torch

from tensortap import reading
from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.replaying.blame.blaming import Progress, call_at, chosen_passes
from tensortap.replaying.blame.found import RefusedCall
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.rounding import is_bounded
from tensortap.replaying.call_tensors import BytesMissing, laid_out, record_of
from tensortap.replaying.calling import Refused, device_of, prepared
from tensortap.replaying.double import NoDouble, in_double
from tensortap.replaying.operators import OpName
from tensortap.replaying.sensitivity.derivative import pulled_back
from tensortap.replaying.sensitivity.flow import Flow, flow_to, given, made
from tensortap.replaying.sensitivity.report import CallShare, Sensitivity
from tensortap.tensors.dtypes import TORCH_DTYPES


def sensitivity(
    run: str | os.PathLike[str],
    *,
    output: str = "",
    passes: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    top: int = 10,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> Sensitivity:
    """How much of an output's error each operator's own error explains: which of them to keep in a wider dtype.

    The calls that the output was made of are made again in float64, from the inputs and weights on: that is what the
    output should be. A call's own error is what was recorded beside the exact result of its own arguments; derivatives
    carry it to the output. The shares add up to the part of the output's error that first order explains.

        print(tap.sensitivity("run", output="lm_head:aten::mm"))

    Parameters
    ----------
    run
        A run, a rank, a pass, a trace, or where one lies; with operators, at level "full".
    output
        The key of an operator's result; where it is empty, the last of the forward with more than one value.
    passes, ranks
        Which pass: the first of these.
    top
        How many calls are listed.
    device
        Where to call the operators.
    progress
        Called with how many calls are done, of how many.

    Raises
    ------
    ValueError
        When there is no such pass or output, or its error cannot be told.
    """
    opened = reading.open(os.fspath(run))
    of_rank, number = chosen_passes(opened, passes, ranks)[0]
    kept = of_rank.passes[number]
    record = _output_of(kept, output)
    flow = flow_to(kept, record)
    follower = _Follower(kept, flow, device_of(device), progress)
    error, size = follower.error_of_output()
    found = Sensitivity(
        path=opened.path,
        rank=of_rank.number,
        pass_number=number,
        output=kept.records[record].key,
        dtype=kept.records[record].dtype,
        shape=kept.records[record].shape,
        relative=float(error.abs().square().mean().sqrt()) / size if size > 0 else 0.0,
        lost=flow.lost,
    )
    if not bool(error.any()):
        found.cut = follower.refused(of_rank.number, number)
        return found
    shares = follower.shares(error)
    calls = [_share_of(kept, i, share, relative, of_rank.number) for i, (share, relative) in shares.items()]
    calls.sort(key=lambda one: -abs(one.share))
    found.count = len(calls)
    found.explained = sum(one.share for one in calls)
    found.magnitude = sum(abs(one.share) for one in calls)
    found.modules = _by_module(calls)
    found.calls = calls[:top]
    found.cut = follower.refused(of_rank.number, number)
    return found


def _output_of(kept: Pass, key: str) -> int:
    """Where in the records the output is. Raises ValueError."""
    if key:
        wanted = kept.record(key).key
        return next(i for i, record in enumerate(kept.records) if record.key == wanted)
    single: int | None = None  # of a loss, errors of many values cancel
    for i, event in reversed(list(enumerate(kept.events))):
        name = OpName.of(event.name)
        if event.kind != "op" or name.backward or _takes_shapes_only(name, event):
            continue
        for record in made(kept, i).values():
            dtype = TORCH_DTYPES.get(kept.records[record].dtype)
            if dtype is not None and is_bounded(dtype) and kept.records[record].has_bytes:
                if math.prod(kept.records[record].shape) > 1:
                    return record
                single = record if single is None else single
    if single is not None:
        return single
    raise ValueError(f"{kept.path} has no operator's result with bytes; record with ttap run --ops --level full")


def _takes_shapes_only(name: OpName, event: EventRecord) -> bool:
    """Whether no value of an argument counts: autograd begins with ones_like() of the loss."""
    return not given(event) or name.name.endswith("_like") or name.name.startswith("new_")


class _Follower:
    """One pass through the calls in their order, in float64, and one back."""

    def __init__(self, kept: Pass, flow: Flow, device: torch.device, progress: Progress | None) -> None:
        self._kept, self._flow, self._device, self._progress = kept, flow, device, progress
        self._erring: set[int] = set()  # records whose values are not those of float64
        self._cut: dict[int, str] = {}  # calls that errors are not followed through
        self._done = 0

    def error_of_output(self) -> tuple[torch.Tensor, float]:
        """What was recorded of the output less what it is in float64, and the size of that."""
        right: dict[int, torch.Tensor] = {}  # what each record is in float64, as long as it is needed
        for i in self._flow.calls:
            event = self._kept.events[i]
            try:
                for record, value in self._in_double(i, right):
                    if record in self._flow.last_use or record == self._flow.output:
                        right[record] = value
            except (Refused, NoDouble) as reason:
                self._cut[i] = str(reason)
            for _, use in given(event):
                if use.record is not None and self._flow.last_use[use.record] == i and use.record != self._flow.output:
                    right.pop(use.record, None)
            self._step()
        output = self._kept.records[self._flow.output].key
        if self._flow.output not in right:
            raise ValueError(f"the error of {output} cannot be told: {self._why_not()}")
        exact = right[self._flow.output]
        difference = _difference(self._recorded(self._flow.output), exact)
        if not bool(difference.isfinite().all()):
            raise ValueError(f"{output} has NaN or Inf where float64 has none: ttap blame says which call made it")
        finite = exact.where(exact.isfinite(), 0.0)
        return difference, float(finite.abs().square().mean().sqrt())

    def shares(self, error: torch.Tensor) -> dict[int, tuple[float, float]]:
        """For each call the share of the output's error that its own explains, and its own error beside its size."""
        power = float(error.abs().square().sum())
        weights = {self._flow.output: error / power}
        found: dict[int, tuple[float, float]] = {}
        for i in reversed(self._flow.calls):
            self._step()
            event = self._kept.events[i]
            mine = {number: weights.pop(record) for number, record in made(self._kept, i).items() if record in weights}
            if not mine or i in self._cut:
                continue
            call = DoubleCall(prepared(event, self._device))
            share, relative = self._own_error(call, i, mine)
            if relative > 0:
                found[i] = share, relative
            wanted = {n: use.record for n, use in given(event) if use.record in self._erring and n in call.tensors}
            try:
                pulled = pulled_back(call, mine, wanted)
            except Refused as reason:
                self._cut[i] = str(reason)
                continue
            for number, each in pulled.items():
                record = wanted[number]
                assert record is not None
                weights[record] = weights[record] + each if record in weights else each
        return found

    def refused(self, rank: int, pass_number: int) -> list[RefusedCall]:
        """The calls that errors were not followed through; what came from outside brings none."""
        inside = {record for i in self._flow.calls for record in made(self._kept, i).values()}
        found = []
        for i, reason in sorted(self._cut.items()):
            event, name = self._kept.events[i], OpName.of(self._kept.events[i].name)
            if not _takes_shapes_only(name, event) and any(use.record in inside for _, use in given(event)):
                found.append(RefusedCall(name.op, name.scope, rank, pass_number, i, reason))
        return found

    def _in_double(self, index: int, right: dict[int, torch.Tensor]) -> Iterator[tuple[int, torch.Tensor]]:
        """What the call makes of its arguments as they are in float64."""
        event = self._kept.events[index]
        call = DoubleCall(prepared(event, self._device))
        tensors = dict(call.tensors)
        for number, use in given(event):
            if number in tensors and use.record in self._erring and use.record in right:
                tensors[number] = laid_out(right[use.record], tensors[number].stride())
        changed = any(tensors[number] is not each for number, each in call.tensors.items())
        results = call.made(call.arguments, _shared(call.tensors, tensors)) if changed else call.exact
        for number, record in made(self._kept, index).items():
            value = results.get(number)
            # A choice, an index say, is taken as it was recorded.
            if value is None or not (value.is_floating_point() or value.is_complex()):
                continue
            try:
                recorded = self._recorded(record, event, number)
            except BytesMissing:
                continue
            if recorded.shape == value.shape:
                if bool((_difference(recorded, value) != 0).any()):
                    self._erring.add(record)
                yield record, value

    def _own_error(self, call: DoubleCall, index: int, weights: dict[int, torch.Tensor]) -> tuple[float, float]:
        share, relative = 0.0, 0.0
        records = made(self._kept, index)
        for number, weight in weights.items():
            exact = call.exact[number]
            own = _difference(self._recorded(records[number]), exact)
            own = own.where(own.isfinite(), 0.0)
            share += float((weight.conj() * own).real.sum()) if own.is_complex() else float((weight * own).sum())
            size = float(exact.where(exact.isfinite(), 0.0).abs().square().mean().sqrt())
            relative = max(relative, float(own.abs().square().mean().sqrt()) / size if size > 0 else 0.0)
        return share, relative

    def _recorded(self, record: int, event: EventRecord | None = None, number: int = 0) -> torch.Tensor:
        if event is not None:
            record_of(self._kept, event.uses[number])  # raises BytesMissing
        value = self._kept[self._kept.records[record].key]
        assert isinstance(value, torch.Tensor)
        return in_double(value.to(self._device))

    def _why_not(self) -> str:
        return Counter(self._cut.values()).most_common(1)[0][0] if self._cut else "no call of the pass made it"

    def _step(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, 2 * len(self._flow.calls))


def _shared(before: dict[int, torch.Tensor], after: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Uses that were of one tensor are of one tensor still."""
    of_one: dict[int, torch.Tensor] = {}
    return {number: of_one.setdefault(id(before[number]), tensor) for number, tensor in after.items()}


def _difference(recorded: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """None between equal infinities, and between NaN and NaN."""
    same = (recorded == exact) | (recorded.isnan() & exact.isnan())
    return (recorded - exact).where(~same, 0.0)


def _share_of(kept: Pass, index: int, share: float, relative: float, rank: int) -> CallShare:
    first = kept.records[next(iter(made(kept, index).values()))]
    where = call_at(kept, rank, index, "")
    return CallShare(**vars(where), dtype=first.dtype, shape=first.shape, share=share, relative=relative)


def _by_module(calls: list[CallShare]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for one in calls:
        shares[one.module] = shares.get(one.module, 0.0) + one.share
    return dict(sorted(shares.items(), key=lambda item: -abs(item[1])))
