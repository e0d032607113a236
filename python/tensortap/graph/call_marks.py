"""Knows when a module call on the stack is over, though no hook is called.

A frame keeps whatever is put among its `f_locals` for as long as it lives. So a mark in the frame of a call tells calls
of the same module apart, and goes when the call returns; after an exception, when nobody holds the traceback any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tensortap.torch_glue.call_stack import calls


class _Mark:
    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._thread = threading.get_ident()

    def __del__(self) -> None:
        # Collected on another thread it is too late: whoever marks the thread's next call finds out.
        if threading.get_ident() == self._thread:
            self._over()


class Calls:
    """The module calls on this thread's stack."""

    def __init__(self) -> None:
        under_way = list(calls())
        self.innermost = under_way[0][0] if under_way else None
        self.outermost, self._frame = under_way[-1] if under_way else (None, None)

    def mark(self, key: str, over: Callable[[], None]) -> bool:
        """Marks the outermost call: `over` is called when it is. False when it had that mark already."""
        assert self._frame is not None
        places = self._frame.f_locals
        if key in places:
            return False
        places[key] = _Mark(over)
        return True
