"""The program that `ttap run` records as a whole: how it ended, and who records it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_hook: Any = None  # sees the exception that ends the program
_failed = False
_yield_to_program: Callable[[], None] | None = None


def watch_for_failure() -> None:
    """From now on program_failed() knows of an exception that ends the program."""
    global _hook
    before = sys.excepthook

    def note_and_show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _failed
        try:
            sys._getframe(1)  # the program shows an error, and goes on
        except ValueError:
            _failed = True
        before(kind, error, trace)

    sys.excepthook = _hook = note_and_show


def program_failed() -> bool:
    """At the end of a program that is recorded as a whole: whether an exception ends it."""
    if sys.excepthook is _hook:
        return _failed
    return getattr(sys, "last_value", None) is not None  # the program has a hook of its own


def when_program_records(close: Callable[[], None]) -> None:
    """`close` ends the recording of the whole program; it is called when the program records by itself."""
    global _yield_to_program
    _yield_to_program = close


def program_records() -> None:
    """The program records by itself and knows better what: the recording of the whole program ends."""
    if _yield_to_program is not None:
        _yield_to_program()
