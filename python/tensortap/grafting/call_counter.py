"""Counts passes and calls as a recorder does, and writes nothing."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import torch


class CountedEvent:
    """A call of a module: what the recorder's event says of it."""

    def __init__(self, name: str, call: int, pass_number: int, level: int) -> None:
        self.number = 0
        self.name = name
        self.call = call
        self.pass_number = pass_number
        self.level = level
        self._versions: dict[int, int] = {}  # of the arguments, by the ids of tensors that live as long as the call

    def was_written(self, tensor: torch.Tensor, role: str) -> bool:
        """Whether a result is an argument that the call has written to; arguments are noted for it."""
        if tensor.is_inference():
            return False
        if role == "in":
            self._versions[id(tensor)] = tensor._version
            return False
        return self._versions.get(id(tensor), tensor._version) != tensor._version


class CallCounter:
    """In the place of the recorder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes = 0
        self._calls: dict[int, Counter[tuple[str, bool]]] = {}  # of the passes that are open

    def open_pass(self) -> int:
        """The number of the pass that begins."""
        with self._lock:
            self._calls[self._passes] = Counter()
            self._passes += 1
            return self._passes - 1

    def close_pass(self, number: int, aborted: bool = False) -> None:
        """The pass is over."""
        with self._lock:
            self._calls.pop(number, None)

    def begin_event(
        self,
        name: str,
        kind: str,
        pass_number: int,
        level: int,
        parent: object = None,
        again: bool = False,
        graph: int = 0,
    ) -> CountedEvent:
        """A call begins. Calls done again are counted apart: the first of them repeats the first."""
        return CountedEvent(name, self.count(name, pass_number, again=again), pass_number, level)

    def end_event(self, event: object, texts: object = None) -> None:
        """The call is over."""

    def count(self, name: str, number: int, *, again: bool = False) -> int:
        """Which call of this name in the pass it is, from 1."""
        with self._lock:
            counts = self._calls.setdefault(number, Counter())
            counts[name, again] += 1
            return counts[name, again]

    def captured_graph(self, device: int, stream: int) -> int:
        """There is nothing of ours in a graph."""
        return 0


class NoWriter:
    """In the place of the writer of a recording."""

    def __init__(self) -> None:
        self.core: Any = CallCounter()

    def close_pass(self, number: int, *, aborted: bool) -> None:
        """The pass is over."""
        self.core.close_pass(number)
