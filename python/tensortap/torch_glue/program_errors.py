"""Which exceptions are the program's, although they were raised while our code ran."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from types import CodeType, FrameType
from typing import Any

# Whose exceptions our own code can meet: also those that functions written in C raise, in the frame that calls them.
_RAISED_BY_OURS = {*sys.stdlib_module_names, "tensortap", "torch", "numpy"}


def is_of_program(error: BaseException) -> bool:
    """Whether a signal handler of the program raised it, or another thread sent it here.

    Python runs a signal handler wherever the main thread is, be it in our code. It gives the handler the frame that it
    interrupts. An exception sent by another thread (`PyThreadState_SetAsyncExc`) begins in our own code and is of a
    class that neither we nor PyTorch know.
    """
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    if threading.current_thread() is threading.main_thread():
        if any(_was_given(inner, outer) for outer, inner in itertools.pairwise(frames)):
            return True
        handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
        if any(frame.f_code in handlers for frame in frames):
            return True
    own = not frames or frames[-1].f_globals.get("__name__", "").partition(".")[0] == "tensortap"
    return own and type(error).__module__.partition(".")[0] not in _RAISED_BY_OURS


def raise_if_of_program(error: BaseException) -> None:
    """For whoever catches what our own code may raise: what is the program's goes on."""
    if is_of_program(error):
        raise error


def _code_of(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)  # of a functools.partial
    handler = getattr(handler, "__func__", handler)  # of a method
    called = handler if hasattr(handler, "__code__") else vars(type(handler)).get("__call__")
    code = getattr(called, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _was_given(inner: FrameType, outer: FrameType) -> bool:
    """Whether a call's argument is the frame that it was called from."""
    code = inner.f_code
    count = code.co_argcount + bool(code.co_flags & 0x04)  # and *args
    given = [inner.f_locals.get(name) for name in code.co_varnames[:count]]
    return any(value is outer or (type(value) is tuple and any(one is outer for one in value)) for value in given)
