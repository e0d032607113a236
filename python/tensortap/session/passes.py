"""When a pass begins and ends, and to which pass a module call belongs."""

from __future__ import annotations

import contextvars
import itertools
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from tensortap.session.program import program_failed
from tensortap.session.writer import Writer
from tensortap.torch_glue.call_stack import Handled, calls_under_way, handled_now, has_raised

SKIPPED = -1  # the number of a step that `steps` leaves out
_HELD_AT_ONCE = 8  # passes of one thread that wait for gradients


def in_backward() -> bool:
    """Whether this thread is inside the autograd engine: a module that runs here is recomputed."""
    return torch._C._current_graph_task_id() != -1


@dataclass
class Scope:
    """A call of a root that is under way."""

    module: nn.Module
    number: int | None  # of the thread's pass before it
    owns: bool  # its end is the pass's end
    handled: Handled  # when it began


class ThreadState(threading.local):
    """What a recording knows of one thread."""

    def __init__(self, pass_changed: Callable[[int | None], None] | None = None) -> None:
        self._pass_changed = pass_changed
        self.held: int | None = None  # this thread's last pass, whose gradients may come
        self.number = None
        self.scopes: list[Scope] = []
        self.parents: list[Any] = []  # calls of modules that are under way; the source's own
        self.compiled_holders: list[nn.Module] = []  # modules with shared parts that compiled code is calling
        self.unended: nn.Module | None = None  # the thread's pass lasts as long as this module's call
        self.batch: Any = None  # the rows of the pass that this thread begins next; the source's own

    @property
    def number(self) -> int | None:
        """The pass of this thread's calls."""
        return self._number

    @number.setter
    def number(self, number: int | None) -> None:
        self._number = number
        self.announce_pass()

    def announce_pass(self) -> None:
        """Whoever wants to know to which pass this thread's work belongs: the backward, to the one that is held."""
        if self._pass_changed is not None:
            self._pass_changed(self._number if self._number is not None else self.held)


@dataclass
class OpenPass:
    """A pass that has not ended."""

    thread: weakref.ref[threading.Thread]
    awaited: int = 0  # gradients
    came: int = 0
    handles: list[RemovableHandle] = field(default_factory=list)  # of hooks that go with the pass
    held_for: int | None = None  # id of the root: its forward is over, and its gradients may come
    trailing: bool = False  # its forward is over, and what its thread does until the next one belongs to it
    resting: bool = False  # nothing of it is under way, as far as its source knows
    failed: bool = False  # something in it raised: it ends as aborted
    says_tokens: bool = False  # it is known which tokens it computes
    values: Iterator[int] = field(default_factory=lambda: itertools.count(1))  # numbers of its values, for uses


class PassTracker:
    """The passes of one recording.

    With step `auto` the outermost call of a module, per thread, is a pass. With `manual` it is what lies between
    begin_step() and end_step(); calls of other threads meanwhile belong to it too.

    A pass that awaits gradients is held after its forward, until its root is called again on its thread: a loss that is
    a module, called in between, does not end it.

    A whole program has passes that leave no gaps: the first begins before any module is called, with begin_early(), and
    each lasts at least until the next one of its thread. The newest is that of threads without one.
    """

    def __init__(
        self,
        writer: Callable[[], Writer],
        *,
        manual: bool,
        steps: Container[int] | None,
        gradients: bool,
        pass_changed: Callable[[int | None], None] | None = None,
        newest_changed: Callable[[int | None], None] | None = None,
        before_end: Callable[[], None] | None = None,
    ) -> None:
        self._writer = writer
        self._pass_changed = pass_changed  # is given the pass of the thread that calls it; None: it has none
        self._newest_changed = newest_changed  # of a whole program: is given the newest pass, None when there is none
        self._before_end = before_end  # of a pass: the last chance to record something in it
        self._gradients = gradients  # whether any are wanted
        self._manual = manual
        self._steps = steps
        self.reset()

    def reset(self) -> None:
        """As at the start; for a forked child."""
        self._lock = threading.RLock()
        self.thread = ThreadState(self._pass_changed)
        self.count = 0  # steps so far, also those left out
        self.left_out = 0  # by `steps`
        self.outside = 0  # calls outside any step
        self.missing_gradients = 0  # awaited in passes that have ended
        self._open: dict[int, OpenPass] = {}
        self._early: int | None = None  # the first pass, as long as it waits for its first call of a module
        self._newest: int | None = None
        self._over: list[int] = []  # of a whole program: passes that end when the next one begins
        self._steps_open: list[int] = []  # begun by begin_step() and not ended, on whatever thread
        # The step of this thread, or of this task: those of asyncio take turns on one thread.
        self._step: contextvars.ContextVar[int | None] = contextvars.ContextVar("step", default=None)

    # ---- passes ----

    def _begin(self) -> int:
        with self._lock:
            if self._early is None:
                return self._begin_next()
            number, self._early = self._early, None
            if number in self._open:
                self._open[number].thread = weakref.ref(threading.current_thread())
            return number

    def _begin_next(self) -> int:
        core = self._writer().core
        index = self.count
        self.count += 1
        if self._steps is not None and index not in self._steps:
            self.left_out += 1
            core.skip_pass()
            self._set_newest(None)
            return SKIPPED
        number = core.open_pass()
        self._open[number] = OpenPass(weakref.ref(threading.current_thread()))
        self._set_newest(number)
        return number

    def begin_early(self) -> None:
        """The program does something before it calls a module: the pass of the first call begins now."""
        with self._lock:
            if self.count == 0 and not self._manual:
                self._early = self._begin_next()

    def _set_newest(self, number: int | None) -> None:
        self._newest = number
        if self._newest_changed is not None:
            self._newest_changed(number)

    def _end(self, number: int, *, aborted: bool) -> None:
        ended = self._open.pop(number, None)  # not there when it was skipped
        if ended is None:
            return
        self.missing_gradients += max(0, ended.awaited - ended.came)  # a graph that is kept may run backward twice
        for handle in ended.handles:
            handle.remove()
        if self.thread.held == number:
            self.thread.held = None
            self.thread.announce_pass()
        with self._lock:
            if self._newest == number:
                self._set_newest(max(self._open, default=None))
        if self._before_end is not None:
            self._before_end()
        self._writer().close_pass(number, aborted=aborted or ended.failed)

    def await_gradients(self, number: int, count: int, handles: list[RemovableHandle]) -> None:
        """The pass has gradients to come; its end removes the handles."""
        if number in self._open:
            self._open[number].awaited += count
            self._open[number].handles += handles

    def gradient_came(self, number: int) -> None:
        if number in self._open:
            self._open[number].came += 1

    def is_open(self, number: int) -> bool:
        return number in self._open

    def opened(self, number: int) -> OpenPass | None:
        """What is known of a pass that has not ended."""
        return self._open.get(number)

    def end_all(self) -> None:
        """At the end of the recording: what is still under way is aborted; what only waits for gradients is whole."""
        self.drop_stale_scopes()
        self.close_finished_pass()
        for number, opened in list(self._open.items()):
            # Nothing of an early pass is under way, unless the program ends by an exception.
            is_whole = number == self._early and not program_failed()
            waits = opened.held_for is not None or opened.trailing or opened.resting or number in self._over
            self._end(number, aborted=not (is_whole or waits))

    def close_finished_pass(self) -> None:
        """Ends this thread's pass if the call that it lasts for is over and no hook has seen the end."""
        thread = self.thread
        if thread.unended is not None and not calls_under_way(thread.unended):
            self._end_unended(thread)

    # ---- passes that wait for gradients ----

    def _hold_or_end(self, number: int, root: nn.Module) -> None:
        opened = self._open.get(number)
        if opened is None:
            return
        # With checkpoints nothing may be awaited yet: there is no graph before the backward.
        if not opened.failed and (opened.awaited > 0 or (self._gradients and torch.is_grad_enabled())):
            opened.held_for = id(root)
        elif self._newest_changed is not None:
            opened.trailing = True
        else:
            self._end(number, aborted=False)
            return
        self.thread.held = number
        self.thread.announce_pass()

    def _end_held(self, root: nn.Module) -> None:
        """Before a root's next pass: ends its last one, those of threads that are gone, and the oldest of too many."""
        held = [
            (number, opened)
            for number, opened in list(self._open.items())
            if opened.held_for is not None or opened.trailing or opened.resting
        ]
        mine = threading.current_thread()
        for number, opened in held:
            thread = opened.thread()
            is_last = thread is mine and (opened.held_for == id(root) or opened.trailing)
            if is_last or thread is None or not thread.is_alive():
                self._end_now_or_later(number, opened)
        still = [
            number for number, opened in held if number in self._open and opened.held_for and opened.thread() is mine
        ]
        for number in still[:-_HELD_AT_ONCE]:
            self._end_now_or_later(number, self._open[number])

    def _end_now_or_later(self, number: int, opened: OpenPass) -> None:
        if self._newest_changed is None:
            self._end(number, aborted=False)
            return
        # Another thread may be in the middle of something that belongs to it: with the next pass that is over, too.
        opened.held_for, opened.trailing, opened.resting = None, False, False
        self._over.append(number)
        if self.thread.held == number:
            self.thread.held = None
            self.thread.announce_pass()

    def _begin_after_held(self, root: nn.Module) -> int:
        if self._newest_changed is None:
            self._end_held(root)
            return self._begin()
        number = self._begin()  # first, so that there is always one for the threads that have none
        over, self._over = self._over, []
        self._end_held(root)
        for each in over:
            self._end(each, aborted=False)
        return number

    # ---- manual steps ----

    def begin_step(self) -> int:
        number = self._begin()
        self.thread.parents.clear()
        self.thread.compiled_holders.clear()
        self._steps_open.append(number)
        self._step.set(number)
        self.thread.number = number
        return number

    def _follow_task(self) -> None:
        """The thread may have gone on with another task, whose step is another."""
        thread, step = self.thread, self._step.get()
        if step is not None and step != thread.number and step in self._steps_open and not thread.scopes:
            thread.number = step

    def end_step(self, number: int, *, aborted: bool) -> None:
        if number in self._steps_open:  # it is not in a child that was forked inside the step
            self._steps_open.remove(number)
        if self._step.get() == number:
            self._step.set(None)
        if self.thread.number == number:
            self.thread.number = None
        self._end(number, aborted=aborted)

    # ---- the outermost call ----

    def enter(self, module: nn.Module) -> bool:
        """A root is about to be called; whether that is a pass of its own."""
        thread = self.thread
        self.drop_stale_scopes(module)
        self._follow_task()
        is_outermost = not thread.scopes
        if is_outermost:
            thread.parents.clear()
            thread.compiled_holders.clear()
            if thread.unended is not None:
                self._end_unended(thread)
            elif thread.number is not None and thread.number not in self._steps_open:
                # An interrupt came between the end of a call and the end of its pass.
                stale, thread.number = thread.number, None
                self._end(stale, aborted=True)
        # The scope first: whatever interrupts what follows, the next call finds that this one is over.
        scope = Scope(module, thread.number, False, handled_now())
        thread.scopes.append(scope)
        # In the backward a root is recomputed: each call goes where the module's last one went.
        if is_outermost and thread.number is None and not in_backward():
            scope.owns = True
            thread.number = self._begin_after_held(module)
        return scope.owns

    def leave(self, module: nn.Module) -> None:
        """The call is over; when the pass is its own, so is the pass."""
        thread = self.thread
        if not any(scope.module is module for scope in thread.scopes):
            return
        while True:
            scope = thread.scopes.pop()
            failed = scope.module is not module or has_raised(scope.handled)
            self._end_scope(thread, scope, failed=failed)
            if scope.module is module:
                return

    def _end_scope(self, thread: ThreadState, scope: Scope, *, failed: bool) -> None:
        number, thread.number = thread.number, scope.number
        if not scope.owns or number is None:
            return
        if failed and (opened := self._open.get(number)) is not None:
            opened.failed = True
        self._hold_or_end(number, scope.module)

    def drop_stale_scopes(self, entering: nn.Module | None = None) -> None:
        """Leaves roots whose end no hook has seen: KeyboardInterrupt and the like pass by them."""
        thread = self.thread
        while thread.scopes:
            last = thread.scopes[-1].module
            open_scopes = sum(scope.module is last for scope in thread.scopes)
            if calls_under_way(last) - (last is entering) >= open_scopes:
                return
            self._end_scope(thread, thread.scopes.pop(), failed=True)

    def _end_unended(self, thread: ThreadState) -> None:
        """Ends the thread's pass whose end no hook has seen."""
        root, number = thread.unended, thread.number
        thread.unended, thread.number = None, None
        if root is not None and number is not None:
            self._hold_or_end(number, root)

    # ---- calls ----

    def number_here(self) -> int | None:
        """The pass that what this thread does now belongs to; None: to none."""
        self.close_finished_pass()
        self._follow_task()
        if self.thread.number is not None:
            return self.thread.number
        if self._steps_open:
            return self._steps_open[-1]
        return self._newest if self._newest_changed is not None and self.thread.held is None else self.thread.held

    def number_of_call(
        self, module: nn.Module, earlier: Iterable[int], stray: Callable[[nn.Module], nn.Module | None]
    ) -> int | None:
        """The pass that a call on this thread belongs to; None or SKIPPED: not recorded.

        `earlier` are the passes of the module's earlier calls, to one of which a recomputation belongs. `stray` is
        asked when no root is being called: it gives the outermost module on the stack, or None when that is `module`
        itself.
        """
        thread = self.thread
        self.close_finished_pass()
        self._follow_task()
        if thread.number is not None:
            return thread.number
        if in_backward():
            return self._number_in_backward(earlier)
        if self._manual:
            if not self._steps_open:
                self.outside += 1
                return None
            return self._steps_open[-1]
        root = stray(module) or module
        thread.number, thread.unended = self._begin_after_held(root), root
        return thread.number

    def _number_in_backward(self, earlier: Iterable[int]) -> int | None:
        """The last of this thread's own passes; on a thread of the engine's, the only one there is."""
        candidates = [number for number in earlier if number in self._open]
        mine = threading.current_thread()
        own = [number for number in candidates if self._open[number].thread() is mine]
        return own[-1] if own else candidates[0] if len(candidates) == 1 else None

    def call_is_over(self, module: nn.Module) -> None:
        """After a call that number_of_call() was asked about: it may have been the whole pass."""
        if self.thread.unended is module and not self.thread.scopes:
            self._end_unended(self.thread)
