"""One run of a graph that is recorded."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import fx

from tensortap import _core
from tensortap.graph.arguments import tensors_of
from tensortap.graph.fx.writes import version_of
from tensortap.graph.graph_session import GraphSession
from tensortap.graph.modules import Names, Scope
from tensortap.session.tensor_capture import TensorPlace
from tensortap.tensors.snapshot import is_plain

Numbers = tuple[int, ...]  # two for each tensor of a value: which tensor, and which value it holds

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


class Run:
    """One run of a graph that is recorded."""

    def __init__(
        self,
        session: GraphSession,
        registers: Mapping[fx.Node, int],
        versioned: AbstractSet[int],  # registers of which somebody will ask whether they were written to
        number: int,
        names: Names,
        values: Iterator[int],
        event: _core.Event,
    ) -> None:
        self._session = session
        self._registers = registers
        self._versioned = versioned
        self.core = session._writer_now().core
        self.number = number  # of the pass
        self.names = names
        self.values = values
        self.has_modes = torch._C._len_torch_function_stack() > 0
        self.graph = session.graph_now()
        self.held: dict[int, Numbers] = {}  # by register: the records of this pass that hold its value
        self.versions: dict[int, Any] = {}  # what the versions of these tensors were then
        self._parents = [event]
        self.parent = event  # of what comes next
        self.begin_event = self.core.begin_event
        self.end_event_with = self.core.end_event_with
        self._record = session.capture.record

    # ---- for the nodes ----

    def begin_node(self, name: str, level: int, stack: str) -> _core.Event:
        return self.core.begin_event(name, "node", self.number, level, self.parent, False, self.graph, stack)

    def capture(
        self, event: _core.Event, name: str, tensor: torch.Tensor, role: str, path: str, number: int, *,
        stable: bool = False,
    ) -> None:  # fmt: skip
        self._record(tensor, TensorPlace(event, self.number, (name,), role, path, number, stable))

    def hold(self, register: int, numbers: Numbers | None, value: Any) -> None:
        """The records that hold a register's value from now on; None: there are none."""
        if numbers is None:
            self.held.pop(register, None)
            return
        self.held[register] = numbers
        if register in self._versioned:
            self.versions[register] = _versions(value)

    def is_stale(self, register: int, value: Any) -> bool:
        """Whether something was written to the value since it was recorded, or may have been."""
        now = _versions(value)
        return now is None or now != self.versions.get(register)

    def written(self, registers: list[int], numbers: Numbers | None, tensor: torch.Tensor) -> None:
        """A node has written to an argument, whose value is in another record now."""
        for register in registers:
            if len(self.held.get(register, ())) == 2:
                self.hold(register, numbers, tensor)
            else:
                self.held.pop(register, None)  # one of several

    def not_captured(self, reason: str) -> None:
        """A tensor was dropped, and the recorder has counted it."""
        if self._session.options.core.strict:
            raise RuntimeError(reason)

    def failed(self, error: Exception) -> None:
        """Recording failed; the model goes on."""
        self._session.failed(error)

    # ---- modules ----

    def enter(self, scope: Scope) -> None:
        parent = self.parent
        self._parents.append(parent)
        try:
            name = self.names.of_entry(scope.entry)
            level = self._session.options.levels.of_name(name)
            self.parent = self.core.begin_event(name, "module", self.number, level, parent, False, self.graph)
            self._parents[-1] = self.parent
        except Exception as error:
            self.failed(error)

    def leave(self, scope: Scope, value: Any) -> None:
        event = self._parents.pop()
        self.parent = self._parents[-1]
        if event is self.parent:
            return
        try:
            if scope.output is None or not self._session.outputs:
                self.core.end_event(event)
                return
            with torch._C.DisableTorchFunction():
                self._end_module(event, scope, value)
        except Exception as error:
            self.failed(error)

    def _end_module(self, event: _core.Event, scope: Scope, value: Any) -> None:
        numbers = self.held.get(self._registers[scope.output], ())  # type: ignore[index]
        if len(numbers) == 2 and isinstance(value, torch.Tensor) and is_plain(value):
            failure = self.end_event_with(event, value, 0, _module_texts(("",)), list(numbers))
            if failure is not None:
                self.not_captured(failure)
            return
        tensors = tensors_of(value)
        for path, tensor in tensors:
            self.capture(event, self.names.of_entry(scope.entry), tensor, "out", path, 0)
        if len(numbers) == 2 * len(tensors):
            self.core.end_event(event, _module_texts(tuple(path for path, _ in tensors)), list(numbers))
        else:
            self.core.end_event(event)

    def end(self, notes: str) -> None:
        """The graph has run, or a node of it has raised."""
        self.core.end_event(self._parents[0], _core.CallTexts(notes=notes))


@functools.cache
def _module_texts(paths: tuple[str, ...]) -> _core.CallTexts:
    """Of a module that gave tensors under these paths."""
    listed = ", ".join(f"%{number}" for number in range(len(paths)))
    results = f"({listed})" if len(paths) > 1 else listed
    return _core.CallTexts("", results, "", [("out", path, False) for path in paths])


def _versions(value: Any) -> Any:
    """What says whether a value was written to; None: nothing does."""
    if type(value) in _PLAIN:
        return version_of(value)
    found = tuple(version_of(tensor) for _, tensor in tensors_of(value))
    return None if None in found else found
