"""When a pass begins and ends, and to which pass a module call belongs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from tensortap.module_source import Call
    from tensortap.number_set import NumberSet
    from tensortap.writer import Writer

SKIPPED = -1  # the number of a step that `steps` leaves out

_CALL: CodeType = nn.Module._call_impl.__code__


def in_backward() -> bool:
    """Whether this thread is inside the autograd engine: a module that runs here is recomputed."""
    return torch._C._current_graph_task_id() != -1


def outermost_call(known: Callable[[nn.Module], bool]) -> nn.Module | None:
    """The first known module on this thread's stack of calls."""
    frame, found = sys._getframe(1), None
    while frame is not None:
        if frame.f_code is _CALL and known(module := frame.f_locals["self"]):
            found = module
        frame = frame.f_back  # type: ignore[assignment]
    return found


def calls_under_way(module: nn.Module) -> int:
    """How many calls of the module are on this thread's stack."""
    frame: Any = sys._getframe(1)
    count = 0
    while frame is not None:
        count += frame.f_code is _CALL and frame.f_locals["self"] is module
        frame = frame.f_back
    return count


@dataclass
class Scope:
    """A call of a root that is under way."""

    module: nn.Module
    number: int | None  # of the thread's pass before it
    owns: bool  # its end is the pass's end
    error: BaseException | None  # that was being handled when it began


class ThreadState(threading.local):
    """What a recording knows of one thread."""

    def __init__(self) -> None:
        self.number: int | None = None  # the pass of this thread's calls
        self.scopes: list[Scope] = []
        self.parents: list[Call] = []  # of the modules being called
        self.held: int | None = None  # a pass whose forward is over and whose gradients may come
        self.unended: nn.Module | None = None  # the thread's pass lasts as long as this module's call


class PassTracker:
    """The passes of one recording.

    With step `auto` the outermost call of a module, per thread, is a pass. With `manual` it is what lies between
    begin_step() and end_step(); calls of other threads meanwhile belong to it too.
    """

    def __init__(self, writer: Callable[[], Writer], *, manual: bool, steps: NumberSet | None) -> None:
        self._writer = writer
        self._manual = manual
        self._steps = steps
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """As at the start; for a forked child."""
        self.thread = ThreadState()
        self.count = 0  # steps so far, also those left out
        self.outside = 0  # calls outside any step
        self._open: dict[int, int] = {}  # passes and how many gradients are awaited for each
        self._steps_open: list[int] = []  # begun by begin_step() and not ended, on whatever thread

    # ---- passes ----

    def _begin(self) -> int:
        with self._lock:
            index = self.count
            self.count += 1
        core = self._writer().core
        if self._steps is not None and index not in self._steps:
            core.skip_pass()
            return SKIPPED
        number = core.open_pass()
        self._open[number] = 0
        return number

    def _end(self, number: int, *, aborted: bool) -> None:
        if number != SKIPPED and self._open.pop(number, None) is not None:
            self._writer().core.close_pass(number, aborted)

    def await_gradients(self, number: int) -> None:
        """The pass stays open after its forward, until the next one begins."""
        if number in self._open:
            self._open[number] += 1

    def is_open(self, number: int) -> bool:
        return number in self._open

    def end_all(self) -> None:
        """At the end of the recording: what is still under way is aborted; what only waits for gradients is whole."""
        thread = self.thread
        self._drop_stale(thread)
        if thread.unended is None or not calls_under_way(thread.unended):
            self._end_earlier(thread)
        for number, awaited in list(self._open.items()):
            under_way = number == thread.number or number in self._steps_open
            self._end(number, aborted=under_way or awaited == 0)

    # ---- manual steps ----

    def begin_step(self) -> int:
        number = self._begin()
        self.thread.parents.clear()
        self.thread.number = number
        self._steps_open.append(number)
        return number

    def end_step(self, number: int, *, aborted: bool) -> None:
        self._steps_open.remove(number)
        if self.thread.number == number:
            self.thread.number = None
        self._end(number, aborted=aborted)

    # ---- the outermost call ----

    def enter(self, module: nn.Module) -> None:
        """A root is about to be called."""
        thread = self.thread
        self._drop_stale(thread, module)
        before, owns = thread.number, False
        if not thread.scopes:
            thread.parents.clear()
            if in_backward():
                thread.number = self._number_in_backward(thread)
            elif thread.number is None or thread.unended is not None:
                self._end_earlier(thread)
                before = None
                thread.number, owns = self._begin(), True
        thread.scopes.append(Scope(module, before, owns, sys.exc_info()[1]))

    def leave(self, module: nn.Module) -> None:
        """The call is over; when the pass is its own, so is the pass."""
        thread = self.thread
        if not any(scope.module is module for scope in thread.scopes):
            return
        while True:
            scope = thread.scopes.pop()
            # Within the handler of an exception that was not there at the beginning, the call has failed.
            failed = scope.module is not module or sys.exc_info()[1] is not scope.error
            self._end_scope(thread, scope, failed=failed)
            if scope.module is module:
                return

    def _end_scope(self, thread: ThreadState, scope: Scope, *, failed: bool) -> None:
        number, thread.number = thread.number, scope.number
        if not scope.owns or number is None:
            return
        if not failed and self._open.get(number, 0) > 0:
            thread.held = number
        else:
            self._end(number, aborted=failed)

    def _drop_stale(self, thread: ThreadState, entering: nn.Module | None = None) -> None:
        # KeyboardInterrupt and the like pass by the hooks at the end of a call.
        while thread.scopes:
            last = thread.scopes[-1].module
            open_scopes = sum(scope.module is last for scope in thread.scopes)
            if calls_under_way(last) - (last is entering) >= open_scopes:
                return
            self._end_scope(thread, thread.scopes.pop(), failed=True)

    def _end_earlier(self, thread: ThreadState) -> None:
        """Ends the thread's pass whose end was left open, if there is one."""
        for number in (thread.held, thread.number if thread.unended is not None else None):
            if number is not None:
                self._end(number, aborted=False)
        thread.held, thread.unended, thread.number = None, None, None

    # ---- calls ----

    def number_of_call(self, module: nn.Module, stray: Callable[[nn.Module], nn.Module | None]) -> int | None:
        """The pass that a call on this thread belongs to; None or SKIPPED: not recorded.

        `stray` is asked when no root is being called: it gives the outermost module on the stack, or None when that
        is `module` itself.
        """
        thread = self.thread
        if thread.unended is not None and not calls_under_way(thread.unended):
            self._end_earlier(thread)
        if thread.number is not None:
            return thread.number
        if in_backward():
            return self._number_in_backward(thread)
        if self._manual:
            if not self._steps_open:
                self.outside += 1
                return None
            return self._steps_open[-1]
        self._end_earlier(thread)
        thread.number = self._begin()
        thread.unended = stray(module) or module
        return thread.number

    def call_is_over(self, module: nn.Module) -> None:
        """After a call that number_of_call() was asked about: it may have been the whole pass."""
        if self.thread.unended is module and not self.thread.scopes:
            if self._open.get(self.thread.number, 0) > 0:  # type: ignore[arg-type]
                self.thread.held, self.thread.number = self.thread.number, None
                self.thread.unended = None
            else:
                self._end_earlier(self.thread)

    def _number_in_backward(self, thread: ThreadState) -> int | None:
        if thread.number is not None:
            return thread.number
        if thread.held is not None:
            return thread.held
        # On a thread of the engine's: the pass is plain when there is one only.
        return next(iter(self._open)) if len(self._open) == 1 else None
