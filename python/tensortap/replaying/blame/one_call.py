"""`ttap replay`: one recorded call, made again in its own dtype and in float64."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tensortap import _core, reading
from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.replaying.blame.blaming import call_text, chosen_passes, worst_error
from tensortap.replaying.blame.judged import LINE, TensorError
from tensortap.replaying.blame.report import plain_json
from tensortap.replaying.blame.text import bounds_text, number_text
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.call_tensors import dtype_name
from tensortap.replaying.calling import Refused, device_of
from tensortap.replaying.collectives import CollectiveCall
from tensortap.replaying.double import NoDouble
from tensortap.replaying.replay import prepared_call, replay
from tensortap.replaying.results import NotReplayable, Replayed


@dataclass(frozen=True)
class InPrecision:
    """A result of the call in another dtype beside the exact one.

    Attributes
    ----------
    path, dtype
        Which result, and the dtype that the call was made in.
    relative, recorded
        Its error as a whole beside the size of the exact result; and that of what was recorded.
    worst, got, exact
        The element with the largest error, what this dtype gives there, and what is right.
    """

    path: str
    dtype: str
    relative: float
    recorded: float | None
    worst: tuple[int, ...]
    got: float | complex
    exact: float | complex


@dataclass(frozen=True)
class OneCall:
    """A call that was made again.

    Attributes
    ----------
    same_bits
        Whether each result has the recorded bits, by its path.
    error
        How far what was recorded is from the exact result; None where rounding has no meaning.
    unjudged
        Why there is no error, where that is another reason.
    in_precision
        Its floating-point results in the dtype that was asked for.
    in_any_order
        Whether its bits depend on the order in which a backend adds what the ranks gave.
    """

    op: str
    call: str
    where: str
    same_bits: dict[str, bool | None]
    error: TensorError | None
    unjudged: str
    in_precision: tuple[InPrecision, ...] = ()
    in_any_order: bool = False

    @property
    def ok(self) -> bool:
        """Whether it gave the recorded bits, and rounding explains their error."""
        if self.error is not None:
            return self.error.kind == "rounding"
        return self.in_any_order or all(same is not False for same in self.same_bits.values())

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.op}({self.call})"
        yield f"  where     {self.where}"
        for path, same in self.same_bits.items():
            words = {
                True: "the recorded bits",
                False: "other bits than recorded" + (", as ranks are added in any order" if self.in_any_order else ""),
                None: "not compared: no bytes were kept",
            }
            yield f"  {'result ' + path if path else 'result':<9} {words[same]}"
        if self.error is not None:
            error = self.error
            yield (f"  recorded  {bounds_text(error.bounds)} rounding bounds from the exact result"
                   f" ({'more' if error.bounds > LINE else 'no more'} than rounding explains)")  # fmt: skip
            got, exact = number_text(error.got), number_text(error.exact)
            yield f"  worst at  {list(error.worst)}: recorded {got}, exact {exact}"
        elif self.unjudged:
            yield f"  exact     not known: {self.unjudged}"
        for one in self.in_precision:
            beside = "" if one.recorded is None else f", what was recorded {one.recorded:.3g}"
            which = f"{one.path} " if one.path else ""
            yield f"  {'in ' + one.dtype:<9} {which}{one.relative:.3g} of its size from the exact result{beside}"
            got, exact = number_text(one.got), number_text(one.exact)
            yield f"  worst at  {list(one.worst)}: {one.dtype} {got}, exact {exact}"

    def to_json(self) -> dict[str, Any]:
        """As `ttap replay --json` prints it."""
        error = None if self.error is None else _plain(self.error)
        return {"command": "replay", "op": self.op, "call": self.call, "where": self.where, "ok": self.ok,
                "same_bits": self.same_bits, "error": error, "unjudged": self.unjudged,
                "in_precision": [_plain(one) for one in self.in_precision]}  # fmt: skip


def _plain(what: TensorError | InPrecision) -> dict[str, Any]:
    return {name: plain_json(value) for name, value in asdict(what).items()}


def replay_key(
    run: str, key: str, passes: str, ranks: str, device: str, precision: torch.dtype | None = None
) -> OneCall:
    """The call of a key made again, in the first pass that has it. Raises ValueError where it cannot be."""
    where = device_of(device)
    opened = reading.open(os.fspath(run))
    chosen = chosen_passes(opened, passes, ranks)
    for rank, number in chosen:
        kept = rank.passes[number]
        event = _event_of(kept, key)
        if event is not None:
            return _made_again(kept, event, f"rank {rank.number}, pass {number}", where, precision)
    if chosen:
        _ = chosen[0][0].passes[chosen[0][1]].record(key)  # raises, with keys that are near
    raise ValueError(f"{key!r} is no operator's, or its call is not in the recording")


def _event_of(kept: Pass, key: str) -> EventRecord | None:
    for event in kept.events:
        if event.kind == "op" and key == _core.key_text(event.name, event.call, "out", ""):
            return event
    if key in kept and (of := kept.record(key).event) is not None and kept.events[of].kind == "op":
        return kept.events[of]
    return None


def _made_again(
    kept: Pass, event: EventRecord, where: str, device: torch.device, precision: torch.dtype | None
) -> OneCall:
    again = replay(event, device=device)
    if isinstance(again, NotReplayable):
        raise ValueError(f"the call cannot be made again: {again.reason}")
    error, unjudged, in_any_order = None, "", False
    try:
        call = prepared_call(event, device)
        in_any_order = isinstance(call, CollectiveCall) and call.in_any_order
        error = worst_error(DoubleCall(call))
    except (Refused, NoDouble) as reason:
        unjudged = str(reason)
    same = {each.path: each.same_bits for each in again.tensors}
    other = () if precision is None else tuple(_in_precision(event, device, precision))
    return OneCall(again.op, call_text(kept, event), where, same, error, unjudged, other, in_any_order)


def _in_precision(event: EventRecord, device: torch.device, precision: torch.dtype) -> Iterator[InPrecision]:
    name = dtype_name(precision)
    made, exact = (replay(event, dtype=dtype, device=device) for dtype in (precision, torch.float64))
    for each, what in ((made, name), (exact, "f64, which is what its error is held against")):
        if isinstance(each, NotReplayable):
            raise ValueError(f"the call cannot be made again in {what}: {each.reason}")
    assert isinstance(made, Replayed)
    assert isinstance(exact, Replayed)
    for got, right in zip(made.tensors, exact.tensors, strict=True):
        if not (right.value.is_floating_point() or right.value.is_complex()) or not right.value.numel():
            continue
        error = _distance(got.value, right.value)
        place = int(error.reshape(-1).argmax())
        yield InPrecision(
            path=got.path,
            dtype=name,
            relative=_relative(error, right.value),
            recorded=None if got.recorded is None else _relative(_distance(got.recorded, right.value), right.value),
            worst=tuple(int(i) for i in torch.unravel_index(torch.tensor(place), error.shape)),
            got=got.value.reshape(-1)[place].item(),
            exact=right.value.reshape(-1)[place].item(),
        )


def _distance(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Of each element; none between equal infinities, and an infinite one to NaN."""
    wide = got.to(device=exact.device, dtype=exact.dtype)
    same = (wide == exact) | (wide.isnan() & exact.isnan())
    return (wide - exact).abs().where(~same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _relative(error: torch.Tensor, exact: torch.Tensor) -> float:
    size = float(exact.abs().nan_to_num(posinf=0.0).square().mean().sqrt())
    off = float(error.square().mean().sqrt())
    return off / size if size > 0 else math.inf if off else 0.0
