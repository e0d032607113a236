"""`ttap replay`: one recorded call, made again in its own dtype and in float64."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from tensortap import _core, reading
from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.replaying.blame.beside_exact import InPrecision, in_precision, of_recorded
from tensortap.replaying.blame.blaming import call_text, chosen_passes, worst_error
from tensortap.replaying.blame.judged import LINE, TensorError
from tensortap.replaying.blame.report import row_json
from tensortap.replaying.blame.text import bounds_text, number_text
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.call_tensors import dtype_name
from tensortap.replaying.calling import Refused, device_of
from tensortap.replaying.collectives import CollectiveCall
from tensortap.replaying.double import NoDouble
from tensortap.replaying.find_module import Models
from tensortap.replaying.module_call import module_text
from tensortap.replaying.replay import prepared_call, replay
from tensortap.replaying.results import NotReplayable, Replayed
from tensortap.session.filters import nearest_names

if TYPE_CHECKING:
    from tensortap.literals import ParametersFrom

_KINDS = ("op", "module")
_NAMES_SHOWN = 4


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
    parameters
        Of a module: whether its parameters and buffers are those that were recorded.
    from_model
        The names of those that are the model's.
    distances
        Of a module: how far its recorded results are from those in float64. No bound is known for many operators.
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
    parameters: ParametersFrom | None = None
    from_model: tuple[str, ...] = ()
    distances: tuple[InPrecision, ...] = ()
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
        if self.parameters is not None:
            yield f"  weights   {self.parameters}{self._models_own()}"
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
        for one in self.distances:
            which = f"{one.path} " if one.path else ""
            yield f"  recorded  {which}{one.relative:.3g} of its size from the module in float64"
            yield f"  worst at  {list(one.worst)}: recorded {number_text(one.got)}, exact {number_text(one.exact)}"
        for one in self.in_precision:
            beside = "" if one.recorded is None else f", what was recorded {one.recorded:.3g}"
            which = f"{one.path} " if one.path else ""
            yield f"  {'in ' + one.dtype:<9} {which}{one.relative:.3g} of its size from the exact result{beside}"
            got, exact = number_text(one.got), number_text(one.exact)
            yield f"  worst at  {list(one.worst)}: {one.dtype} {got}, exact {exact}"

    def _models_own(self) -> str:
        if self.parameters != "partly recorded":
            return ""
        more = f" and {len(self.from_model) - _NAMES_SHOWN} more" if len(self.from_model) > _NAMES_SHOWN else ""
        return f"; of the model: {', '.join(self.from_model[:_NAMES_SHOWN])}{more}"

    def to_json(self) -> dict[str, Any]:
        """As `ttap replay --json` prints it."""
        error = None if self.error is None else row_json(self.error)
        return {"command": "replay", "op": self.op, "call": self.call, "where": self.where, "ok": self.ok,
                "same_bits": self.same_bits, "error": error, "unjudged": self.unjudged,
                "in_precision": [row_json(one) for one in self.in_precision], "parameters": self.parameters,
                "from_model": self.from_model, "distances": [row_json(one) for one in self.distances]}  # fmt: skip


def replay_key(
    run: str,
    key: str,
    passes: str,
    ranks: str,
    device: str,
    precision: torch.dtype | None = None,
    model: Models | None = None,
) -> OneCall:
    """The call of a key made again, in the first pass that has it. Raises ValueError where it cannot be."""
    where = device_of(device)
    opened = reading.open(os.fspath(run))
    chosen = chosen_passes(opened, passes, ranks)
    for rank, number in chosen:
        kept = rank.passes[number]
        event = _event_of(kept, key)
        if event is not None:
            place = f"rank {rank.number}, pass {number}"
            if event.kind == "module":
                return _module_made_again(kept, event, place, where, precision, model)
            return _made_again(kept, event, place, where, precision)
    raise ValueError(_why_not(chosen[0][0].passes[chosen[0][1]], key, run))


def _why_not(kept: Pass, key: str, run: str) -> str:
    """Why there is no call to make again, and which key may have been meant."""
    if key in kept and (of := kept.record(key).event) is not None:
        kind = kept.events[of].kind
        return f"{key} is the result of a {kind}; name an operator or module, as ttap log {shlex.quote(run)} shows it"
    results = [each.key for each in kept.records if each.role == "out"]
    near = nearest_names(key, results)
    hint = f"did you mean {' or '.join(near)}?" if near else f"ttap ls {shlex.quote(run)} lists the keys"
    return f"{run} has no call with the result {key}; {hint}"


def _event_of(kept: Pass, key: str) -> EventRecord | None:
    for event in kept.events:
        if event.kind in _KINDS and key == _core.key_text(event.name, event.call, "out", ""):
            return event
    if key in kept and (of := kept.record(key).event) is not None and kept.events[of].kind in _KINDS:
        return kept.events[of]
    return None


def _made_again(
    kept: Pass, event: EventRecord, where: str, device: torch.device, precision: torch.dtype | None
) -> OneCall:
    again = made_again(replay(event, device=device))
    error, unjudged, in_any_order = None, "", False
    try:
        call = prepared_call(event, device)
        in_any_order = isinstance(call, CollectiveCall) and call.in_any_order
        error = worst_error(DoubleCall(call))
    except (Refused, NoDouble) as reason:
        unjudged = str(reason)
    same = {each.path: each.same_bits for each in again.tensors}
    other = () if precision is None else tuple(_in_precision(event, device, precision))
    return OneCall(again.op, call_text(kept, event), where, same, error, unjudged, other, in_any_order=in_any_order)


def _module_made_again(
    kept: Pass,
    event: EventRecord,
    where: str,
    device: torch.device,
    precision: torch.dtype | None,
    model: Models | None,
) -> OneCall:
    if model is None:
        raise ValueError(
            f"{event.name} is a module; name a function that makes its model, --model FILE.py:make,"
            " or record its operators, ttap run --ops --level full"
        )
    again = made_again(replay(event, model=model, device=device))
    exact = replay(event, model=model, dtype=torch.float64, device=device)
    return OneCall(
        op=again.op,
        call=module_text(kept, event),
        where=where,
        same_bits={each.path: each.same_bits for each in again.tensors},
        error=None,
        unjudged=exact.reason if isinstance(exact, NotReplayable) else "",
        in_precision=() if precision is None else tuple(_in_precision(event, device, precision, model)),
        parameters=again.parameters,
        from_model=again.from_model,
        distances=tuple(of_recorded(exact)) if isinstance(exact, Replayed) else (),
    )


def _in_precision(
    event: EventRecord, device: torch.device, precision: torch.dtype, model: Models | None = None
) -> Iterator[InPrecision]:
    made, exact = (
        made_again(replay(event, model=model, dtype=dtype, device=device), what)
        for dtype, what in (
            (precision, f" in {dtype_name(precision)}"),
            (torch.float64, " in f64, which is what its error is held against"),
        )
    )
    yield from in_precision(made, exact, precision)


def made_again(again: Replayed | NotReplayable, how: str = "") -> Replayed:
    """What a replay gave. Raises ValueError with the reason where it gave nothing."""
    if isinstance(again, NotReplayable):
        raise ValueError(f"the call cannot be made again{how}: {again.reason}")
    return again
