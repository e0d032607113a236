"""The thread that reads what probes inside graphs have left, for those that print or write to a run."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

from tensortap.torch_glue import op_extension

_SHORTEST, _LONGEST = 0.001, 0.02  # seconds between two looks


class Reader(Protocol):
    """A probe, as far as this thread knows it."""

    def _poll(self) -> bool:
        """Reads what has arrived; whether there was anything. Raises nothing."""

    def close(self) -> None:
        """Ends it."""


_lock = threading.Lock()
_read: list[Reader] = []  # kept alive until they are closed: they have something to say
_kept: list[Reader] = []  # for the same reason, though nobody reads for them
_open: weakref.WeakSet[Reader] = weakref.WeakSet()
_thread: threading.Thread | None = None
_wake = threading.Event()
_registered = False


def opened(probe: Reader, *, keep: bool = False) -> None:
    """The probe has something to end when the process ends: work on a device, or a run, until when it is kept alive."""
    global _registered
    with _lock:
        _open.add(probe)
        if keep:
            _kept.append(probe)
        if not _registered:
            _registered = True
            atexit.register(close_probes)


def read(probe: Reader) -> None:
    """From now on what it leaves is read as it arrives."""
    global _thread
    with _lock:
        if probe not in _read:
            _read.append(probe)
        if _thread is None:
            _thread = threading.Thread(target=_run, name="tensortap-probes", daemon=True)
            _thread.start()
    _wake.set()


def closed(probe: Reader) -> None:
    """Nothing of it is to be read any more."""
    with _lock:
        _open.discard(probe)
        for probes in (_read, _kept):
            if probe in probes:
                probes.remove(probe)


def close_probes() -> None:
    """All that are open: the process ends."""
    for probe in [*_open, *_read]:
        probe.close()


def _run() -> None:
    global _thread
    is_suppressed = False
    pause = _SHORTEST
    while True:
        if not is_suppressed and (ops := op_extension.loaded()) is not None:
            ops.suppress_recording(1)  # what this thread does is not the program's
            is_suppressed = True
        with _lock:
            probes = list(_read)
            if not probes:
                _thread = None
                return
        busy = [probe._poll() for probe in probes]
        pause = _SHORTEST if any(busy) else min(pause * 1.5, _LONGEST)
        probes.clear()  # the last reference may be somebody else's
        _wake.wait(pause)
        _wake.clear()


def _forget_in_child() -> None:
    global _lock, _thread
    _lock = threading.Lock()
    _thread = None
    _read.clear()
    _kept.clear()
    _open.clear()


os.register_at_fork(after_in_child=_forget_in_child)
