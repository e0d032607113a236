"""Results of operators: written over when the operator returns, before anybody has used them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from tensortap.grafting.graft_session import GraftSession
from tensortap.grafting.plan import Plan, Spot
from tensortap.grafting.recorded_values import RecordedValues
from tensortap.grafting.report import NO_SUCH_CALL, Refused, Tally
from tensortap.grafting.values import check_fit, write_into
from tensortap.ops.module_scopes import ModuleScopes
from tensortap.replaying.operators import OpName, UnknownOperator, find_operator, written_arguments
from tensortap.session.filters import nearest_names
from tensortap.session.passes import SKIPPED
from tensortap.torch_glue import op_extension
from tensortap.torch_glue.compiling import Compiling
from tensortap.torch_glue.program_errors import raise_if_of_program
from tensortap.torch_glue.swapping import Swapping

_META = 0  # the level
_MEMORY = 4 << 30  # for the names and shapes of the calls
_OF_TRACE = -1  # the pass that calls are counted in, where all are in one


class OpGraft:
    """The operators of a graft.

    They are observed as a recording observes them, so a call has the name that it was recorded under. Its result is
    written over and not replaced: what the operator has saved for its backward is then the new result, too.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module] | None,
        plan: Plan,
        values: RecordedValues,
        tally: Tally,
        session: GraftSession,
    ) -> None:
        self._models = dict(models) if models is not None else None
        self._plan = plan
        self._values = values
        self._tally = tally
        self._session = session
        self._names = {name for key in plan.of_kind("op") for name in key.names}
        # The module of an operator of the backward is that of the forward's, which is observed for it.
        self._scopes = {OpName.of(name).scope for name in self._names if OpName.of(name).backward}
        self._seen: set[str] = set()
        self._observe()
        session.at_fork.append(self._restart)

    def _observe(self) -> None:
        self._source = op_extension.load().OpSource(
            view="dispatch",
            inputs=False,
            outputs=False,
            ids=False,
            stacks=False,
            all_threads=True,
            compilation=False,
            unseen_writes=False,
            level=_META,
            decide=self._level_of,
            describe=None,
            take_apart=None,
            hook=self._after,
            limit_bytes=_MEMORY,
            recorder=None,
        )
        scopes = ModuleScopes(self._source, self._models or {}, self._session.source.name_of)
        self._aids = [Compiling(), scopes, Swapping(self._source)]
        self._source.start()
        scopes.enter_those_under_way()

    def _stop(self) -> None:
        self._source.stop()
        while self._aids:
            self._aids.pop().remove()

    def _restart(self) -> None:
        """In a forked child, where the threads of the observer are not."""
        self._stop()
        self._observe()

    def close(self) -> None:
        """Ends it."""
        self._stop()
        if (missed := self._source.counts()["no_room"]) > 0:
            for key in self._plan.of_kind("op"):
                key.grafted.refused[f"there was no memory to observe {missed} more calls"] += 1

    def why_unmet(self, names: set[str]) -> str:
        """Why no operator of these names was seen."""
        if names & self._seen:
            return NO_SUCH_CALL
        near = nearest_names(min(names), sorted(self._seen))
        return "no such operator ran" + (f"; near it: {', '.join(near)}" if near else "")

    def _level_of(self, name: str) -> int | None:
        self._seen.add(name)
        known = OpName.of(name)
        is_forward_of_one = not known.backward and known.scope in self._scopes
        return _META if name in self._names or is_forward_of_one else None

    def _after(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, name: str) -> str:
        """An operator has returned; called by the observer, which records nothing of what happens in here."""
        if name not in self._names:
            return ""
        number = self._pass_here()
        if number is None or number == SKIPPED:
            return ""
        call = self._session.counter.count(name, _OF_TRACE if self._plan.of_trace else number)
        for path, own in _results(result):
            self._put_in(number, Spot(name, call, "out", path), own, [*_tensors(args), *_tensors(kwargs.values())])
        return ""

    def _pass_here(self) -> int | None:
        if self._plan.of_trace:
            return 0
        tracker = self._session.tracker
        number = tracker.number_here()
        if number is None and self._models is None:  # of a whole program the first pass begins before any module
            tracker.begin_early()
            number = tracker.number_here()
        return number

    def _put_in(self, number: int, spot: Spot, own: torch.Tensor, arguments: list[torch.Tensor]) -> None:
        if (key := self._plan.wanted([spot.name], spot)) is None:
            return
        try:
            value = self._values.for_own(own, number, [spot.name], spot)
            cast = check_fit(own, value)
            if _is_view(own, arguments) and not _writes(spot.name):
                raise Refused("it is a view, which has no memory of its own: graft the tensor that it shows")
            write_into(own, value)
            self._tally.placed(key.grafted, cast)
        except Refused as why:
            self._tally.refused(key.grafted, str(why))
        except Exception as error:
            raise_if_of_program(error)
            self._tally.refused(key.grafted, f"{type(error).__name__}: {error}".partition("\n")[0])


def _results(result: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """With their paths; one by itself has none."""
    if isinstance(result, torch.Tensor):
        yield "", result
    elif isinstance(result, tuple | list):
        for position, item in enumerate(result):
            for path, tensor in _results(item):
                yield f"/{position}{path}", tensor


def _tensors(arguments: Any) -> Iterator[torch.Tensor]:
    for value in arguments:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _is_view(own: torch.Tensor, arguments: list[torch.Tensor]) -> bool:
    return any(torch._C._is_alias_of(own, each) for each in arguments)


def _writes(name: str) -> bool:
    """Whether the operator writes to an argument, which is its result."""
    try:
        return bool(written_arguments(find_operator(OpName.of(name))))
    except UnknownOperator:
        return False
