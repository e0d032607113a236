"""Probes that record into a run directory: every replay of a graph is a pass."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections import deque
from pathlib import Path
from typing import Any

from tensortap import _core
from tensortap.probe.reader import close_probes
from tensortap.probe.sites import dtype_name
from tensortap.probe.snapshot import Snapshot
from tensortap.recording import Recording
from tensortap.session.coverage import Coverage
from tensortap.session.options import LEVELS, options_of
from tensortap.session.writer import Writer

_lock = threading.Lock()
_runs: dict[object, ProbeRun] = {}


class ProbeRun:
    """A run that probes write to; one for all probes with the same `to`.

    What was captured in one graph belongs together: a pass is written when every call of every probe in that graph
    has delivered the replay, in the order in which they were captured.
    """

    def __init__(self, where: object, source: _Source | None, writer: Writer) -> None:
        self._where, self._source, self._writer = where, source, writer
        self._users = 0
        self._inside = threading.Lock()
        self._slots: dict[int, dict[object, deque[Snapshot]]] = {}  # by capture, in the order of the calls
        self._names: dict[object, str] = {}
        self._closed: set[object] = set()
        self._problems: list[str] = []

    @classmethod
    def acquire(cls, to: Any) -> ProbeRun:
        """The run of a directory or an open recording. Raises OSError when it cannot be made."""
        opened = isinstance(to, Recording)
        where = to if opened else Path(to).expanduser().absolute()
        with _lock:
            run = _runs.get(where)
            if run is None:
                if opened:
                    if not to.recording:
                        raise ValueError("RecordAction(to=): the recording is closed, or records nothing")
                    run = cls(where, None, to._writer_now())
                else:
                    source = _Source(where)
                    run = cls(where, source, Writer.acquire(source))
                _runs[where] = run
            run._users += 1
            return run

    def release(self) -> str | None:
        """One probe is done; the last one closes the run. What could not be recorded, if anything."""
        with _lock:
            self._users -= 1
            if self._users > 0:
                return self._problem()
            if _runs.get(self._where) is self:
                del _runs[self._where]
        error = self._writer.release(self._source) if self._source is not None else None
        return self._problem() or error

    def add_slot(self, capture: int, slot: object, name: str) -> None:
        """A call of a probe was captured."""
        with self._inside:
            self._slots.setdefault(capture, {})[slot] = deque()
            self._names[slot] = name

    def deliver(self, capture: int, slot: object, snapshot: Snapshot) -> None:
        """What a call left in the next replay."""
        with self._inside:
            self._slots[capture][slot].append(snapshot)
            self._write_whole_passes(capture)

    def close_slots(self, capture: int, slots: list[Any]) -> None:
        """Their probe is closed: what they have delivered is still written, and then nobody waits for them."""
        with self._inside:
            self._closed.update(slot for slot in slots if slot in self._slots.get(capture, {}))
            self._write_whole_passes(capture)

    def write(self, name: str, snapshot: Snapshot) -> None:
        """A call outside a graph: a pass of its own."""
        with self._inside:
            self._write_pass([(name, snapshot)])

    def _write_whole_passes(self, capture: int) -> None:
        group = self._slots.get(capture, {})
        while True:
            for slot in [slot for slot, waiting in group.items() if not waiting and slot in self._closed]:
                del group[slot], self._names[slot]
                self._closed.remove(slot)
            if not group or not all(group.values()):
                return
            self._write_pass([(self._names[slot], waiting.popleft()) for slot, waiting in group.items()])

    def _write_pass(self, tensors: list[tuple[str, Snapshot]]) -> None:
        if self._source is None and not self._where.recording:  # type: ignore[attr-defined]
            self._problems.append("the recording it wrote to was closed before it")
            return
        core = self._writer.core
        number = core.open_pass()
        for name, snapshot in tensors:
            level = LEVELS["fingerprint" if snapshot.tensor is None else "full"]
            event = core.begin_event(name, "probe", number, level)
            device = str(snapshot.device)
            if snapshot.tensor is None:
                shape = list(snapshot.shape)
                error = _core.capture_fingerprint(
                    core, event, snapshot.fingerprint, dtype_name(snapshot.dtype), shape, device
                )
            else:
                error = core.capture(event, snapshot.tensor, "out", "", device)
            if error is not None:
                self._problems.append(error)
            core.end_event(event)
        self._writer.close_pass(number, aborted=False)

    def _problem(self) -> str | None:
        if not self._problems:
            return None
        more = f" (and {len(self._problems) - 1} more)" if len(self._problems) > 1 else ""
        return self._problems[0] + more


class _Source:
    """What the writer of a directory wants to know of a recording into it."""

    def __init__(self, directory: Path) -> None:
        self.options = dataclasses.replace(options_of(os.fspath(directory), report=False), directory=directory)
        self.run_number: int | None = None
        self.coverage = Coverage().as_dict()

    def close(self) -> None:
        """At the end of the process: the probes close the run themselves."""
        close_probes()

    def _warn(self, note: str) -> None:
        self.coverage["notes"].append(note)

    def _after_fork(self) -> None:
        with _lock:
            for where in [where for where, run in _runs.items() if run._source is self]:
                del _runs[where]
