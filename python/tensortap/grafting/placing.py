"""What a graft does where a recording would take a tensor: it puts another one in its place."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch

from tensortap.grafting.call_counter import CountedEvent
from tensortap.grafting.nested_copy import with_tensors
from tensortap.grafting.plan import Plan, PlannedKey, Spot
from tensortap.grafting.recorded_values import RecordedValues
from tensortap.grafting.report import Refused, Tally
from tensortap.grafting.values import check_fit, in_place_of, write_into
from tensortap.quant.group import Group
from tensortap.session.session import Session
from tensortap.session.tensor_capture import TensorCapture, TensorPlace
from tensortap.torch_glue.program_errors import raise_if_of_program

_NO_HOOK = "it is the result of a function, which no hook can change, or its call had begun before the graft"


@dataclass
class Chosen:
    """A tensor that is about to be put in."""

    key: PlannedKey
    path: str
    own: torch.Tensor
    value: torch.Tensor
    cast: str
    written: bool  # the module has written to the tensor, which its caller has given it


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.chosen: list[Chosen] = []  # by the hook that is being called


class Placing(TensorCapture):
    """Takes the tensors of the modules that are grafted, as a recording does, and answers their hooks."""

    def __init__(self, session: Session, plan: Plan, values: RecordedValues, tally: Tally) -> None:
        super().__init__(session)
        self._guarded = session.guarded
        self._plan = plan
        self._values = values
        self._tally = tally
        self._thread = _ThreadState()

    def record(self, tensor: torch.Tensor | Group, place: TensorPlace) -> None:
        """Chooses what takes the place of a tensor, if it is one of those asked for."""
        event = place.event
        if not isinstance(event, CountedEvent):
            return
        role = {"recompute": "out", "recompute_in": "in"}.get(place.role, place.role)
        written = isinstance(tensor, torch.Tensor) and event.was_written(tensor, role)
        spot, names = Spot(event.name, event.call, role, place.path), [event.name, *place.names]
        if (key := self._plan.wanted(names, spot)) is None:
            return
        try:
            if isinstance(tensor, Group):
                raise Refused("it is a quantized tensor here")
            value = self._values.for_own(tensor, place.pass_number, names, spot)
            cast = check_fit(tensor, value)
            self._thread.chosen.append(Chosen(key, place.path, tensor, value, cast, written))
        except Refused as why:
            self._tally.refused(key.grafted, str(why))

    # ---- the answers of the hooks ----

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What a module is called with instead."""
        given = {str(position): value for position, value in enumerate(args)} | kwargs
        answer: list[dict[str, Any]] = []
        if self._thread.chosen:
            self._guarded(self._put_in, given, answer)
        if not answer:
            return None
        changed = answer[0]
        return tuple(changed[str(position)] for position in range(len(args))), {name: changed[name] for name in kwargs}

    def result(self, args: tuple[Any, ...], output: Any) -> Any:
        """What a module returns instead."""
        answer: list[Any] = []
        if self._thread.chosen:
            self._guarded(self._put_in, output, answer)
        return answer[0] if answer else None

    def begin(self) -> None:
        """A hook begins to choose: for what was chosen before on this thread no hook has asked."""
        left, self._thread.chosen = self._thread.chosen, []
        for each in left:
            self._tally.refused(each.key.grafted, _NO_HOOK)

    def _put_in(self, value: Any, answer: list[Any]) -> None:
        chosen, self._thread.chosen = self._thread.chosen, []
        try:
            made: dict[str, torch.Tensor] = {}
            for each in chosen:
                if each.written:
                    write_into(each.own, each.value)
                else:
                    made[each.path] = in_place_of(each.own, each.value)
            changed, left_out = with_tensors(value, made) if made else (value, {})
        except Exception as error:
            raise_if_of_program(error)
            left_out = dict.fromkeys(
                (each.path for each in chosen), f"{type(error).__name__}: {error}".partition("\n")[0]
            )
            changed = value
        for each in chosen:
            if each.path in left_out:
                self._tally.refused(each.key.grafted, left_out[each.path])
            else:
                self._tally.placed(each.key.grafted, each.cast)
        if changed is not value:
            answer.append(changed)
