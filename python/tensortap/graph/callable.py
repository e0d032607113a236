"""A compiled graph as the program calls it: recorded when it should be, plain otherwise."""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Any

import torch
from torch import fx, nn

from tensortap.graph.call_marks import Calls
from tensortap.graph.graph_session import GraphSession
from tensortap.graph.modules import Names, Origin
from tensortap.graph.plan import Plan
from tensortap.graph.run import Run
from tensortap.session.passes import SKIPPED, in_backward
from tensortap.torch_glue.module_map import ModuleMap
from tensortap.torch_glue.module_names import unwrapped

_PASSES_KEPT = 8
_CTX_DEPTH = 32  # frames between a forward graph and the autograd function that runs it


class Graph:
    """One graph of one compilation. `run()` takes its arguments as a list, and empties it."""

    def __init__(
        self,
        session: GraphSession,
        module: fx.GraphModule,
        origin: Origin,
        graph_id: str,
        part: str,
        selected: set[fx.Node],
    ) -> None:
        self._session = session
        self._module = module
        self._origin = origin
        self._names: ModuleMap[tuple[int, Names]] = ModuleMap()
        self._plain_names = Names(origin, None, None)
        self._passes: deque[int] = deque(maxlen=_PASSES_KEPT)  # in which it ran
        self.id = graph_id
        self.part = part
        self.plan = Plan(session, module, part, selected)

    def __call__(self, *arguments: Any) -> Any:
        return self.run(list(arguments))

    def run(self, arguments: list[Any]) -> Any:
        step = self._session.count_run(self.id)
        run = self._begin(step)
        if run is None:
            return self._run_plain(arguments)
        state = self._session.running
        state.depth += 1
        try:
            result = self.plan.program(run, arguments)
        except BaseException as error:
            state.depth -= 1
            self._end(run, step, error)
            raise
        state.depth -= 1
        self._end(run, step, None)
        return result

    def _run_plain(self, arguments: list[Any]) -> Any:
        taken = tuple(arguments)
        arguments.clear()
        return self._module.forward(*taken)

    # ---- the pass it belongs to ----

    def _begin(self, step: int) -> Run | None:
        session = self._session
        if not session.recording or step < session.skip or self.plan.selected == 0:
            return None
        try:
            with torch._C.DisableTorchFunction():
                number, names = self._in_backward() if self.part == "backward" else self._in_forward()
                opened = session.tracker.opened(number) if number is not None else None
                if number is None or opened is None:
                    return None
                opened.resting = False
                if number not in self._passes:
                    self._passes.append(number)
                graph = session.graph_now()
                core = session._writer_now().core
                event = core.begin_event(f"graph_{self.id}", "graph", number, 0, None, False, graph)
                return Run(session, self.plan.registers, self.plan.versioned, number, names, opened.values, event)
        except Exception as error:
            session.failed(error)
            return None

    def _in_forward(self) -> tuple[int | None, Names]:
        session = self._session
        calls = Calls()
        names = self._names_below(calls.outermost, calls.innermost)
        if session.running.depth > 0:
            number = session.tracker.thread.number  # a graph that runs inside another one
        else:
            root: Any = calls.outermost
            if root is None:
                root = self  # a function's graph is a pass of its own
            else:
                session.watch_call(calls, root)
            number = session.tracker.number_of_call(root, self._passes, lambda _: None)
        if number == SKIPPED:
            number = None
        if self.part == "forward" and (context := _autograd_context()) is not None:
            context._ttap_forward = (number, names)
            if number is not None:
                session.tracker.await_gradients(number, 1, [])
        return number, names

    def _in_backward(self) -> tuple[int | None, Names]:
        tracker = self._session.tracker
        node = torch._C._current_autograd_node() if in_backward() else None
        number, names = getattr(node, "_ttap_forward", None) or (None, self._plain_names)
        if number is not None and not tracker.is_open(number):
            self._session.late += 1
            return None, names
        if number is not None:
            tracker.gradient_came(number)
        return number, names

    def _names_below(self, root: nn.Module | None, owner: nn.Module | None) -> Names:
        if root is None or owner is None:
            return self._plain_names
        owner = unwrapped(owner)
        known = self._names.get(owner)
        if known is None or known[0] != id(root):
            known = (id(root), Names(self._origin, root, owner))
            self._names[owner] = known
        return known[1]

    def _end(self, run: Run, step: int, error: BaseException | None) -> None:
        session = self._session
        try:
            notes = {"stage": session.stage, "part": self.part, "step": step, "nodes": self.plan.node_count}
            opened = session.tracker.opened(run.number)
            if error is not None:
                node = self.plan.program.node_at(error.__traceback__)
                notes["failed"] = f"%{node.name}" if node is not None else "?"
                notes["error"] = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
                if opened is not None:
                    opened.failed = True
            run.end(json.dumps(notes))
            if opened is not None and session.running.depth == 0:
                opened.resting = True
            if session.running.depth == 0:
                session.tracker.call_is_over(self)  # type: ignore[arg-type]
        except Exception as own_error:
            session.failed(own_error)


def _autograd_context() -> Any:
    """The context of the autograd function that this forward graph is run by; its backward gets the same object."""
    frame: Any = sys._getframe(2)
    for _ in range(_CTX_DEPTH):
        if frame is None:
            return None
        context = frame.f_locals.get("ctx")
        if isinstance(context, torch.autograd.function.FunctionCtx):
            return context
        frame = frame.f_back
    return None
