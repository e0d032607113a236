"""Calls of modules that are TensorTap's own work: global hooks, which see all modules, leave them out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_thread = threading.local()


@contextlib.contextmanager
def own_calls() -> Iterator[None]:
    """The modules that this thread calls meanwhile are no part of the program."""
    before = is_own_call()
    _thread.own = True
    try:
        yield
    finally:
        _thread.own = before


def is_own_call() -> bool:
    """Whether the module that this thread is calling is called by TensorTap."""
    return getattr(_thread, "own", False)
