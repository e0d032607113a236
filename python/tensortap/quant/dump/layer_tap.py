"""One dumped layer: what happens when it is called, and when its gradients come."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from tensortap import _core
from tensortap.modules import gradients
from tensortap.modules.unseen import ModuleDescription
from tensortap.quant.dump.config import TensorPlan
from tensortap.quant.dump.findings import Findings
from tensortap.quant.dump.quantized import Groups, module_weight
from tensortap.session.passes import in_backward
from tensortap.tensors.nested import tensors_in


class Dump(Protocol):
    """What a tap asks of the dump that it belongs to."""

    findings: Findings
    current_step: int
    microbatch: int
    guarded: _core.Guard  # runs our own code; no exception of it reaches the model

    @property
    def under_way(self) -> list[UnderWay]:
        """The calls of layers on this thread, the innermost last."""

    def begin(self, call: LayerCall) -> None:
        """A call whose tensors will come."""

    def take(
        self, call: LayerCall, name: str, tensor: torch.Tensor | None, groups: Groups | None = None, times: int = 1
    ) -> None:
        """A tensor of a call."""

    def end(self, call: LayerCall) -> None:
        """The call has returned, or raised; gradients may still come."""

    def keep_until_step(self, handle: RemovableHandle | None) -> None:
        """A hook that would outlive its graph goes when the step ends."""

    def _warn(self, note: str, *, aloud: bool = True) -> None:
        """Says something about the dump, once."""


@dataclass(eq=False)
class LayerCall:
    """A call of a layer in a step that is dumped."""

    tap: LayerTap
    due: dict[str, TensorPlan]
    step: int
    microbatch: int
    within: int  # the how-manieth call of the layer in its microbatch, from 1
    event: _core.Event | None = None  # where it goes into a run
    content: Any = None  # of its input, when only a recomputation will have its gradients
    reached: bool = False  # the backward has come to its output
    repeated: bool = False
    times: dict[str, int] = field(default_factory=dict)  # how often each gradient came


@dataclass(eq=False)
class UnderWay:
    """A call between its two hooks."""

    call: LayerCall
    again: bool  # it repeats a call: only its gradients are new
    inputs: list[tuple[str, gradients.Edge, torch.Tensor]] = field(default_factory=list)
    mark: int = 0


class LayerTap:
    """A layer that a config selects."""

    def __init__(
        self, dump: Dump, module: nn.Module, names: list[str], plans: dict[str, TensorPlan], where: ModuleDescription
    ) -> None:
        self._dump = dump
        self._module = weakref.ref(module)
        self.names = names
        self.plans = plans
        self.description = where
        self.called = False
        self.was_due: dict[str, TensorPlan] = {}  # the tensors that were to come in any call
        self._due: tuple[int, dict[str, TensorPlan]] = (-1, {})
        self._calls: list[LayerCall] = []  # of this step
        self._weight: tuple[int, weakref.ref[torch.Tensor], int] | None = None  # dumped last: step, which, version

    @property
    def module(self) -> nn.Module | None:
        return self._module()

    def due(self, step: int) -> dict[str, TensorPlan]:
        """What is dumped in this step, by tensor."""
        if self._due[0] != step:
            plans = {name: plan for name, plan in self.plans.items() if plan.schedule.includes(step)}
            self._due, self._calls = (step, plans), []
        return self._due[1]

    # ---- what the hooks call, through the guard ----

    def before(self, args: tuple, kwargs: dict[str, Any]) -> None:
        self.called = True
        if self.due(self._dump.current_step):
            self._before(args, kwargs)

    def after(self, output: Any) -> None:
        if self._dump.under_way:
            self._after(output)

    def _before(self, args: tuple, kwargs: dict[str, Any]) -> None:
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            # Reading a tensor would break the capture, and there are no values yet.
            self._dump._warn(
                "called while a CUDA graph was captured, and not dumped: tap.record() does that", aloud=False
            )
            return
        activation = _first_tensor((*args, *kwargs.values()))
        again = in_backward()
        call = self._repeated(activation) if again else self._begin()
        if call is None:
            return
        under_way = UnderWay(call, again)
        self._dump.under_way.append(under_way)
        weight = self.weight()
        if not again:
            if activation is not None:
                self._dump.take(call, "activation", activation)
            if "weight" in call.due:
                self._take_weight(call)
            if not torch.is_grad_enabled() and activation is not None and self._wants_backward(call):
                call.content = _content(activation)
        if torch.is_grad_enabled():
            # Now: an in-place operation inside gives a tensor another place in the graph.
            for name, what, tensor in (("dgrad", "input", activation), ("wgrad", "weight", weight)):
                if name not in call.due or tensor is None:
                    continue
                if not tensor.requires_grad:
                    self._dump.findings.excuse(self.names[0], name, f"its {what} needs no gradient")
                elif name == "dgrad" or not _is_cast_kept(tensor):
                    under_way.inputs.append((name, gradients.edge_of(tensor), tensor))
            under_way.mark = gradients.sequence_mark()

    def _begin(self) -> LayerCall:
        dump = self._dump
        within = 1 + sum(call.microbatch == dump.microbatch for call in self._calls)
        call = LayerCall(self, self.due(dump.current_step), dump.current_step, dump.microbatch, within)
        self.was_due |= call.due
        dump.begin(call)
        self._calls.append(call)
        return call

    def _repeated(self, activation: torch.Tensor | None) -> LayerCall | None:
        """The call that a recomputation repeats; None when it gives nothing new.

        A call that had a graph of its own gets its gradients there.
        """
        waiting = [call for call in self._calls if call.content is not None and not call.repeated]
        if len(waiting) > 1:  # of several microbatches, or of a layer that is called several times
            content = _content(activation)
            waiting = [call for call in waiting if call.content == content]
        if not waiting:
            return None
        waiting[0].repeated = True
        return waiting[0]

    def _after(self, output: Any) -> None:
        under_way = self._ended()
        if under_way is None:
            return
        call, result = under_way.call, _first_tensor(output)
        if not under_way.again:
            if result is not None:
                self._dump.take(call, "output", result)
            self._dump.end(call)
        if result is not None and result.requires_grad and torch.is_grad_enabled():
            self._watch(under_way, result)

    def _ended(self) -> UnderWay | None:
        """The call of this layer that is over. Those above it were left by an exception that passes by the hooks."""
        stack = self._dump.under_way
        if not any(each.call.tap is self for each in stack):
            return None
        while True:
            under_way = stack.pop()
            if under_way.call.tap is self:
                return under_way

    # ---- the weight ----

    def weight(self) -> torch.Tensor | None:
        """The layer's weight. Of one that is computed (parametrizations) nobody is asked: that might change it."""
        module = self.module
        return weight_of(module) if module is not None else None

    def _take_weight(self, call: LayerCall) -> None:
        """Once in a step, and again when it is another one or has changed."""
        module = self.module
        assert module is not None
        groups = module_weight(module)
        weight = self.weight() if not groups else held_by(module).get(groups[""].members[0])
        if weight is None:
            return
        version = -1 if weight.is_inference() else weight._version
        known = self._weight
        if known is not None and known[1]() is weight and (known[0], known[2]) == (call.step, version):
            return
        self._weight = (call.step, weakref.ref(weight), version)
        self._dump.take(call, "weight", None if groups else weight, groups)

    # ---- gradients ----

    def _wants_backward(self, call: LayerCall) -> bool:
        return any(name in call.due for name in ("gradient", "wgrad", "dgrad"))

    def _watch(self, under_way: UnderWay, output: torch.Tensor) -> None:
        call = under_way.call
        if self._wants_backward(call):
            self._dump.keep_until_step(gradients.watch_tensor(output, self._reached(call)))
        if under_way.inputs:
            inputs = [(edge, tensor, self._gradient(call, name)) for name, edge, tensor in under_way.inputs]
            for handle in gradients.watch_inputs(inputs, [output], under_way.mark).handles:
                self._dump.keep_until_step(handle)
        weight = self.weight()
        if "wgrad" in call.due and weight is not None and weight.requires_grad and _is_cast_kept(weight):
            self._watch_kept_cast(call, weight)

    def _reached(self, call: LayerCall) -> gradients.Sink:
        take = self._gradient(call, "gradient")

        def sink(gradient: torch.Tensor) -> None:
            call.reached = True
            take(gradient)

        return sink

    def _watch_kept_cast(self, call: LayerCall, weight: torch.Tensor) -> None:
        """Autocast casts a weight once for many calls, so that no edge of the graph is one call's own.

        The weight itself is given what one backward has brought: the calls' which that backward has reached.
        """
        take = self._gradient(call, "wgrad")

        def sink(gradient: torch.Tensor) -> None:
            if call.reached:
                call.reached = False
                take(gradient)

        self._dump.keep_until_step(gradients.watch_tensor(weight, sink))

    def _gradient(self, call: LayerCall, name: str) -> gradients.Sink:
        def record(gradient: torch.Tensor) -> None:
            # A second backward through the same graph brings another one.
            call.times[name] = times = call.times.get(name, 0) + 1
            self._dump.take(call, name, gradient, times=times)

        return lambda gradient: self._dump.guarded(record, gradient) if name in call.due else None


def held_by(module: nn.Module) -> dict[str, Any]:
    """What a module holds itself, by name."""
    return {**module.__dict__, **module._buffers, **module._parameters}


def weight_of(module: nn.Module) -> torch.Tensor | None:
    """A module's own weight, if it has one of two dimensions or more: those of norms have one."""
    weight = held_by(module).get("weight")
    return weight if isinstance(weight, torch.Tensor) and weight.dim() >= 2 else None


def _first_tensor(value: Any) -> torch.Tensor | None:
    return next((tensor for _, tensor in tensors_in(value, {})), None)


def _content(tensor: torch.Tensor | None) -> Any:
    """What identifies a call's input."""
    if tensor is None:
        return None
    with torch.no_grad():
        return _core.fingerprint(tensor.detach().cpu()).hash


def _is_cast_kept(weight: torch.Tensor) -> bool:
    """Whether autocast may use one cast of the weight for several calls."""
    if not torch.is_autocast_cache_enabled() or weight.dtype is not torch.float32:
        return False
    return torch.is_autocast_enabled(weight.device.type)
