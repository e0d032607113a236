"""One recorded module: what happens when it is called."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from tensortap import _core
from tensortap.modules import gradients
from tensortap.modules.attention_cache import cached_rows
from tensortap.modules.call_note import texts_of_call
from tensortap.modules.parameters import Parameters
from tensortap.modules.unseen import ModuleDescription
from tensortap.ops.op_tap import OpTap
from tensortap.quant.group import Group
from tensortap.session.coverage import Coverage
from tensortap.session.options import LEVELS
from tensortap.session.passes import SKIPPED, PassTracker, in_backward
from tensortap.session.tensor_capture import TensorCapture, TensorPlace
from tensortap.tensors.nested import tensors_in
from tensortap.torch_glue.call_stack import NOTHING_HANDLED, Handled, caller_of, handled_now, has_raised

_FULL = LEVELS["full"]


class Source(Protocol):
    """What a tap asks of the source that it belongs to."""

    tracker: PassTracker
    coverage: Coverage
    capture: TensorCapture
    ops: OpTap | None
    roles: frozenset[str]
    wants_gradients: bool
    uses_before: bool  # whether the beginning of a call is of use
    keeps_calls: bool  # whether calls are kept so that they can be made again
    guarded: _core.Guard  # runs our own code; no exception of it reaches the model

    @property
    def core(self) -> _core.Recorder:
        """The recorder of this process."""

    def outermost(self, module: nn.Module) -> nn.Module | None:
        """The outermost of the recorded modules that is being called."""

    def root_being_called(self) -> Root | None:
        """The model whose call is under way on this thread."""

    def optimizer_steps(self) -> int:
        """How many steps of optimizers there were so far."""

    def graph_now(self) -> int:
        """The recorder's taps in the CUDA graph that is captured on the current stream; 0 when none is."""


@dataclass(eq=False)
class Root:
    """A model that is recorded."""

    module: weakref.ref[nn.Module]
    name: str
    prefix: str
    names: list[str] = field(default_factory=list)  # of all its modules
    taps: list[Tap] = field(default_factory=list)
    attention: list[Tap] = field(default_factory=list)  # calls of a function, in some of its modules
    says_tokens: bool = False  # a pass of it has said which tokens it computes
    scripted: list[ModuleDescription] = field(default_factory=list)  # modules that take no hooks
    passes: int = 0  # in which it was called
    last_pass: int | None = None
    inherited: bool = False  # it was called before this process was forked, and need not be called here

    def kept(self) -> list[Tap]:
        """Those whose tensors are recorded."""
        return [tap for tap in self.taps if tap.keeps_tensors]


@dataclass
class Place:
    """A module's name below one root, and what of it is kept."""

    root: Root
    name: str
    level: int


@dataclass
class Call:
    """A call that is under way."""

    tap: Tap
    event: _core.Event | None  # None: not recorded
    number: int = SKIPPED
    again: bool = False
    certain: bool = True  # for a call done again: it is known which call it repeats
    inputs: list[tuple[str, gradients.Edge, torch.Tensor]] = field(default_factory=list)  # whose gradients are wanted
    mark: int = 0
    handled: Handled = NOTHING_HANDLED  # when it began
    texts: _core.CallTexts | None = None  # its arguments, where they are kept

    def role(self, role: str) -> str:
        """The role of one of its tensors. Recomputed tensors stand beside the first ones.

        Gradients that only the recomputation has are those of the call, where it is known which.
        """
        if not self.again:
            return role
        if role == "out":
            return "recompute"
        return f"recompute_{role}" if role == "in" or not self.certain else role


@dataclass
class Count:
    """How often a module was called in a pass."""

    calls: int = 0
    again: int = 0


class Tap:
    """A selected module."""

    def __init__(
        self, source: Source, module: nn.Module, description: ModuleDescription, *, keeps_tensors: bool = True
    ) -> None:
        self.source = source
        self.keeps_tensors = keeps_tensors  # else its calls are only boundaries for the operators inside
        self.module = weakref.ref(module)
        self.description = description
        self.names: list[str] = []
        self.names_by_caller: dict[int, str] = {}  # of a module that several others hold, by their ids
        self.places: list[Place] = []
        self.called_below: list[Root | None] = []  # None: by no root that is known
        self.seen_compiled = False  # whether compiled code has reported a call
        # The call that ended last: its event, its pass and the role of its results. A Call would keep tensors alive.
        self.last: tuple[_core.Event, int, str] | None = None
        self.counts: dict[int, Count] = {}  # by number of the passes that are open
        self.parameters = Parameters()

    def place(self) -> Place:
        """Under the root that is being called; a module may be known to several."""
        if len(self.places) > 1:
            root = self.source.root_being_called()
            for place in self.places:
                if place.root is root:
                    return place
        return self.places[0]

    def name_here(self) -> str:
        """The name of the call that is under way."""
        if self.names_by_caller:
            holders = self.source.tracker.thread.compiled_holders
            caller = holders[-1] if holders else caller_of(self.module())  # type: ignore[arg-type]
            if (name := self.names_by_caller.get(id(caller))) is not None:
                return name
        return self.place().name

    def _begin(self) -> Call:
        source, tracker = self.source, self.source.tracker
        number = tracker.number_of_call(self.module(), self.counts, source.outermost)  # type: ignore[arg-type]
        if number is None or number == SKIPPED:
            return Call(self, None)
        if number not in self.counts:
            self.counts = {known: count for known, count in self.counts.items() if tracker.is_open(known)}
            self.counts[number] = Count()
        count = self.counts[number]
        again = count.calls > 0 and in_backward()
        if again:
            if count.again == count.calls:  # that many were there to be repeated: this one repeats another pass's
                source.coverage.late_recomputations += 1
                return Call(self, None)
            count.again += 1
        else:
            count.calls += 1
        place = self.place()
        parent = next((call.event for call in reversed(tracker.thread.parents) if call.event is not None), None)
        kind = "recompute" if again else "module"
        event = source.core.begin_event(self.name_here(), kind, number, place.level, parent, again, source.graph_now())
        return Call(self, event, number, again, certain=count.calls == 1)

    # ---- what the hooks call, through the guard ----

    def before(self, args: tuple, kwargs: dict[str, Any]) -> None:
        call = self._enter()
        call.handled = handled_now()
        if self.source.ops is not None:
            self.source.ops.module_event(call.event)
        if call.event is not None and self.keeps_tensors and self.source.roles & {"in", "grad_in"}:
            inputs = {str(position): value for position, value in enumerate(args)} | kwargs
            tensors = list(tensors_in(inputs, self.source.coverage.opaque))
            self._record_inputs(call, tensors)
            if self.source.keeps_calls and call.event.level == _FULL and not call.again:
                call.texts = texts_of_call(self.module(), args, kwargs, tensors)

    def before_compiled(self, inputs: list[tuple[str, torch.Tensor]]) -> None:
        """As before(), of a call inside compiled code; no boundary for operators, whose order is another there."""
        if self.source.uses_before:
            call = self._enter()
            if call.event is not None and self.keeps_tensors:
                self._record_inputs(call, inputs)

    def _enter(self) -> Call:
        call = self._begin()
        self.source.tracker.thread.parents.append(call)
        if call.event is not None and self.keeps_tensors and "param" in self.source.roles and not call.again:
            for path, item in self.parameters.changed(self.module(), self.source.optimizer_steps()):
                self._record(call, item, "param", path)
        return call

    def _record_inputs(self, call: Call, tensors: list[tuple[str, torch.Tensor]]) -> None:
        roles = self.source.roles
        if "in" in roles:
            for path, tensor in tensors:
                self._record(call, tensor, call.role("in"), path)
        if "grad_in" in roles and torch.is_grad_enabled():
            # Now: an in-place operation inside gives the tensor another place in the graph.
            call.inputs = [
                (path, gradients.edge_of(tensor), tensor) for path, tensor in tensors if tensor.requires_grad
            ]
            call.mark = gradients.sequence_mark()

    def record_weights(self, number: int) -> None:
        """The module's own parameters, as though it were called in this pass."""
        items = list(self.parameters.changed(self.module(), self.source.optimizer_steps()))
        if not items:
            return
        place = self.place()
        event = self.source.core.begin_event(place.name, "module", number, place.level, None, False, 0)
        for path, item in items:
            self.source.capture.record(item, TensorPlace(event, number, self.names, "param", path))

    def after(self, output: Any) -> None:
        call = self._call_of_before() if self.source.uses_before else self._begin()
        raised = output is None and has_raised(call.handled)
        try:
            if call.event is None or raised:
                return
            tensors = list(tensors_in(output, self.source.coverage.opaque)) if self.keeps_tensors else []
            self._record_results(call, tensors)
            if self.source.wants_gradients and torch.is_grad_enabled():
                self._watch_gradients(call, [item for item in tensors if item[1].requires_grad])
        finally:
            if not raised and (self.source.ops is not None or self.source.keeps_calls):
                self._end(call)
            self.source.tracker.call_is_over(self.module())  # type: ignore[arg-type]

    def after_compiled(self, results: list[tuple[str, torch.Tensor]]) -> None:
        """As after(), of a call inside compiled code. Its gradients are not seen."""
        self.seen_compiled = True
        call = self._call_of_before() if self.source.uses_before else self._begin()
        if call.event is not None:
            self._record_results(call, results if self.keeps_tensors else [])
            if self.source.keeps_calls:
                self._end(call)
        self.source.tracker.call_is_over(self.module())  # type: ignore[arg-type]

    def add_results(self, tensors: list[tuple[str, torch.Tensor]]) -> None:
        """What an engine computes of the last call's results outside of the module."""
        if self.last is None or not self.keeps_tensors or "out" not in self.source.roles:
            return
        event, number, role = self.last
        if self.source.ops is None and self.source.tracker.is_open(number):
            for path, tensor in tensors:
                self.source.capture.record(tensor, TensorPlace(event, number, self.names, role, path))

    def cached(self) -> Iterable[tuple[str, torch.Tensor]]:
        """What now stands in the cache of an engine for the tokens of the call."""
        return cached_rows(self.module())

    def _record_results(self, call: Call, tensors: list[tuple[str, torch.Tensor]]) -> None:
        self.last = (call.event, call.number, call.role("out")) if call.event is not None else None
        root = self.source.root_being_called()
        if not any(known is root for known in self.called_below):
            self.called_below.append(root)
        if not tensors and self.keeps_tensors:
            silent = self.source.coverage.without_tensors
            silent[self.names[0]] = silent.get(self.names[0], 0) + 1
        if "cache" in self.source.roles and self.keeps_tensors and not call.again:
            for path, tensor in self.cached():
                self._record(call, tensor, "cache", path)
        if "out" in self.source.roles:
            for path, tensor in tensors:
                self._record(call, tensor, call.role("out"), path)

    def _record(self, call: Call, tensor: torch.Tensor | Group, role: str, path: str) -> None:
        self.source.capture.record(tensor, TensorPlace(call.event, call.number, self.names, role, path))

    def _end(self, call: Call) -> None:
        if call.event is not None:
            self.source.core.end_event(call.event, call.texts)

    def _call_of_before(self) -> Call:
        parents = self.source.tracker.thread.parents
        if not any(call.tap is self for call in parents):
            return self._begin()  # the hooks were put on while it was being called
        while True:  # calls above it were left by an exception that passes by the hooks
            call = parents.pop()
            if call.tap is self:
                return call

    def _watch_gradients(self, call: Call, outputs: list[tuple[str, torch.Tensor]]) -> None:
        source, handles, watched = self.source, [], 0
        if "grad_out" in source.roles:
            for path, tensor in outputs:
                handles.append(gradients.watch_tensor(tensor, self._sink(call, "grad_out", path)))
                watched += 1
        if call.inputs and outputs:
            inputs = [(edge, tensor, self._sink(call, "grad_in", path)) for path, edge, tensor in call.inputs]
            found = gradients.watch_inputs(inputs, [tensor for _, tensor in outputs], call.mark)
            handles += found.handles
            watched += found.watched
            call.inputs = []
        # A tensor that lives on keeps its hooks: they go with the pass.
        source.tracker.await_gradients(call.number, watched, [handle for handle in handles if handle is not None])

    def _sink(self, call: Call, role: str, path: str) -> gradients.Sink:
        source, times = self.source, 0

        def record(gradient: torch.Tensor) -> None:
            nonlocal times
            times += 1
            if not source.tracker.is_open(call.number):
                source.coverage.late_gradients += 1
                return
            if times == 1:
                source.tracker.gradient_came(call.number)
            # A second backward through the same graph is another gradient of the same tensor.
            name = call.role(role)
            self._record(call, gradient, name if times == 1 else f"{name}_{times}", path)

        return lambda gradient: source.guarded(record, gradient)
