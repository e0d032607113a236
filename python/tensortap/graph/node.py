"""One recorded node of a graph: what happens before it runs, and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tensortap import _core
from tensortap.graph.arguments import ValueWriter, tensors_of
from tensortap.graph.fx.writes import names_as_written, quietly_written, version_of
from tensortap.graph.modules import Names
from tensortap.graph.run import Numbers, Run
from tensortap.tensors.snapshot import is_of_transform

_MOST_TEXTS = 64  # of a node whose scalars change from run to run

_TENSOR, _PARAMETER = torch.Tensor, torch.nn.Parameter
_PLAIN = frozenset((_TENSOR, _PARAMETER))


@dataclass(frozen=True)
class Argument:
    """A node among the arguments of another."""

    register: int
    path: str
    checked: bool  # something between the two may write to it


@dataclass
class NodeCall:
    """A node that is under way."""

    event: _core.Event
    numbers: list[int]
    arguments: str | None = None  # None: as always, when all of them are tensors
    uses: list[tuple[str, torch.Tensor]] | None = None  # the tensors among them, where somebody must look at these
    versions: list[int | None] | None = None  # before the node ran, of one that may write


PlainCall = tuple[_core.Event, list[int]]  # the same, when all arguments are tensors of which records are there


class NodeTap:
    """A node that the filter selects. Its `before` and `after` stand around the node in the graph's program."""

    def __init__(
        self, node: fx.Node, register: int, level: int, used: list[fx.Node], arguments: list[Argument], *, writes: bool,
        inputs: bool, outputs: bool, stack: str, stable: bool,
    ) -> None:  # fmt: skip
        self.node = node
        self.used = used  # of each argument the node
        self.name = f"%{node.name}"
        self.level = level
        self.stack = stack
        self.register = register
        self.arguments = arguments
        self._registers = [(argument.register, argument.checked) for argument in arguments]
        self._writes = writes
        self.versioned = False  # whether anybody will ask if its value was written to
        self._inputs = inputs
        self._outputs = outputs
        self._stable = stable  # its value is the same in most runs
        self._plain_texts: dict[Names, _core.CallTexts] = {}
        self._texts: dict[tuple, _core.CallTexts] = {}

    # ---- what the program calls; nothing of it reaches the model ----

    def before(self, run: Run, values: tuple[Any, ...]) -> NodeCall | PlainCall | None:
        """The node is about to run on the values of its arguments."""
        try:
            if self._writes or run.has_modes:
                return self._before_any(run, values)
            # The common case, in as few steps as can be: tensors that records of this pass hold.
            held, numbers = run.held, []
            for (register, checked), value in zip(self._registers, values):  # noqa: B905
                known = held.get(register)
                if known is None or (type(value) is not _TENSOR and type(value) is not _PARAMETER):
                    return self._before_any(run, values)
                if checked and run.is_stale(register, value):
                    return self._before_any(run, values)
                numbers += known
            return run.begin_event(
                self.name, "node", run.number, self.level, run.parent, False, run.graph, self.stack
            ), numbers
        except Exception as error:
            run.failed(error)
            return None

    def after(self, run: Run, call: NodeCall | PlainCall | None, result: Any) -> None:
        """The node has run."""
        if call is None:
            return
        try:
            if (
                type(call) is tuple
                and (type(result) is _TENSOR or type(result) is _PARAMETER)
                and self._outputs
                and result.is_cpu
                and result.layout is torch.strided
                and not (result.is_conj() or result.is_neg() or result.is_quantized)
            ):
                event, numbers = call
                number = next(run.values)
                numbers += (number, number)
                run.held[self.register] = (number, number)
                if self.versioned:
                    run.versions[self.register] = version_of(result)
                texts = self._plain_texts.get(run.names) or self._make_plain_texts(run.names)
                try:
                    failure = run.end_event_with(event, result, number, texts, numbers, self._stable)
                    if failure is not None:
                        run.not_captured(failure)
                    return
                except RuntimeError:
                    if not is_of_transform(result):
                        raise
                    del numbers[-2:]  # the long way counts what has no values
            if type(call) is tuple:
                call = NodeCall(*call)
            with torch._C.DisableTorchFunction():
                self._after_any(run, call, result)
        except Exception as error:
            run.failed(error)

    # ---- whatever the arguments and results are ----

    def _before_any(self, run: Run, values: tuple[Any, ...]) -> NodeCall:
        with torch._C.DisableTorchFunction():
            call = NodeCall(run.begin_node(self.name, self.level, self.stack), [])
            for argument, value in zip(self.arguments, values, strict=True):
                known = run.held.get(argument.register)
                if known is None or (argument.checked and run.is_stale(argument.register, value)):
                    known = self._take(run, call, argument, value)
                call.numbers += known
            plain = _PLAIN.issuperset(map(type, values))
            if not plain or self._writes:
                writer = ValueWriter(values=iter(values))
                text = writer.call(self.node.args, self.node.kwargs)
                call.uses = writer.tensors
                if not plain:
                    call.arguments = text
                if self._writes:
                    call.versions = [version_of(tensor) for _, tensor in writer.tensors]
            return call

    def _take(self, run: Run, call: NodeCall, argument: Argument, value: Any) -> Numbers:
        """An argument that no record of this pass holds: recorded as it comes in, if inputs are wanted."""
        numbers: list[int] = []
        for path, tensor in tensors_of(value):
            number = next(run.values)
            if self._inputs:
                run.capture(call.event, self.name, tensor, "in", argument.path + path, number)
            numbers += (number, number if self._inputs else 0)
        known = tuple(numbers)
        run.hold(argument.register, known, value)
        return known

    def _after_any(self, run: Run, call: NodeCall, result: Any) -> None:
        uses = call.uses or []
        written = self._written(call, uses)
        places = [("in", path, is_written) for (path, _), is_written in zip(uses, written, strict=True)]
        if call.uses is None:
            places = [("in", argument.path, False) for argument in self.arguments]
        writer = ValueWriter(len(places))
        results = writer.text(result)
        numbers: list[int] = []
        for path, tensor in writer.tensors:
            same = next((at for at, (_, used) in enumerate(uses) if used is tensor), None)
            numbers += self._give(run, call, tensor, "out", path, same)
            places.append(("out", path, False))
        run.hold(self.register, tuple(numbers) if self._outputs or not numbers else None, result)
        for at, (path, tensor) in enumerate(uses):
            if not written[at]:
                continue
            given = next((n for n, (_, out) in enumerate(writer.tensors) if out is tensor), None)
            if given is None:
                after = self._give(run, call, tensor, "after", path, at)
                numbers += after
                places.append(("after", path, False))
            else:
                after = tuple(numbers[2 * given : 2 * given + 2])
            run.written(self._registers_of(path), after if after[1] else None, tensor)
        arguments = call.arguments if call.arguments is not None else self._plain_arguments()
        texts = self._texts_of(run, arguments, results, tuple(places))
        run.core.end_event(call.event, texts, call.numbers + numbers)

    def _give(self, run: Run, call: NodeCall, tensor: torch.Tensor, role: str, path: str, same: int | None) -> Numbers:
        number = next(run.values)
        if self._outputs:
            run.capture(call.event, self.name, tensor, role, path, number, stable=self._stable)
        return (number if same is None else call.numbers[2 * same], number if self._outputs else 0)

    def _written(self, call: NodeCall, uses: list[tuple[str, torch.Tensor]]) -> list[bool]:
        if call.versions is None:
            return [False] * len(uses)
        quiet = quietly_written(self.node)
        return [
            names_as_written(self.node, path)
            if version is None or path.split("/")[1] in quiet
            else version != version_of(tensor)
            for (path, tensor), version in zip(uses, call.versions, strict=True)
        ]

    def _registers_of(self, path: str) -> list[int]:
        """Of the argument in which this path lies."""
        return [
            argument.register
            for argument in self.arguments
            if path == argument.path or path.startswith(argument.path + "/")
        ]

    # ---- texts ----

    def _plain_arguments(self) -> str:
        stand_in = torch.empty(0)
        return ValueWriter(values=_repeat(stand_in)).call(self.node.args, self.node.kwargs)

    def _make_plain_texts(self, names: Names) -> _core.CallTexts:
        """When every argument is a tensor, and so is the result."""
        places = [("in", argument.path, False) for argument in self.arguments]
        texts = _core.CallTexts(
            self._plain_arguments(), f"%{len(places)}", names.notes_of(self.node), [*places, ("out", "", False)]
        )
        if len(self._plain_texts) >= _MOST_TEXTS:
            self._plain_texts.clear()
        self._plain_texts[names] = texts
        return texts

    def _texts_of(self, run: Run, arguments: str, results: str, places: tuple) -> _core.CallTexts:
        key = (run.names, arguments, results, places)
        texts = self._texts.get(key)
        if texts is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            texts = _core.CallTexts(arguments, results, run.names.notes_of(self.node), list(places))
            self._texts[key] = texts
        return texts


def _repeat(value: Any) -> Iterator[Any]:
    while True:
        yield value
