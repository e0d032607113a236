"""In place of a GPU: graphs of CPU tensors that pass for CUDA ones, and sites that look at them in each replay."""

import time
from collections import deque

import torch
from tensortap import _core


class OnGpu(torch.Tensor):
    """A CPU tensor that says it is on a GPU."""

    is_cuda = True
    device = torch.device("cuda", 0)


def on_gpu(tensor):
    return tensor.as_subclass(OnGpu)


class Graph:
    """What probes put on the stream while the function runs; a replay does it, the model's own work left out."""

    capturing = None
    captures = 0

    def __init__(self, function):
        self.work = []
        Graph.captures += 1
        Graph.capturing = self
        try:
            function()
        finally:
            Graph.capturing = None

    def replay(self):
        for work in self.work:
            work()


class Site:
    """As _core.ProbeSite."""

    def __init__(self, *, capacity, keep_bytes, head_elements, wait_when_full, **_):
        self._capacity, self._waits = capacity, wait_when_full
        self._keeps, self._head = keep_bytes, head_elements
        self._ring = deque()
        self._open = True
        self._failures, self._first, self._compared = 0, None, 0
        self.published = self.overwritten = self.skipped = 0

    def enqueue(self, tensor, stream, rows=None, rows_are_64_bit=True, expected=None, **tolerance):
        plain = tensor.as_subclass(torch.Tensor)

        def work():
            live = plain if rows is None else plain[: max(0, int(rows))]
            if expected is not None:
                self._compare(_core.compare(live, expected[: len(live)] if live.dim() else expected, **tolerance), live)
            taken = live if self._keeps else live.reshape(-1)[: self._head]
            self._publish((_core.fingerprint(live), live.nbytes, taken.clone().reshape(-1).view(torch.uint8)))

        (Graph.capturing.work.append if Graph.capturing is not None else lambda run: run())(work)

    def _compare(self, found, live):
        if found["differing"]:
            self._first = self._first or {**found, "replay": self._compared, "elements": live.numel()}
            self._failures += 1
        self._compared += 1

    def _publish(self, entry):
        while self._open and self._waits and len(self._ring) == self._capacity:
            time.sleep(1e-4)
        if not self._open:
            self.skipped += 1
            return
        if len(self._ring) == self._capacity:
            self._ring.popleft()
            self.overwritten += 1
        self._ring.append((self.published, *entry))
        self.published += 1

    def next(self):
        return self._ring.popleft() if self._ring else None

    def comparisons(self, dtype):
        return self._compared, self._failures, self._first

    def close(self):
        self._open = False


def install(monkeypatch):
    """For one test."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: Graph.capturing is not None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 1, raising=False)
    monkeypatch.setattr(_core, "ProbeSite", Site)
    monkeypatch.setattr(_core, "ProbeExpected", lambda tensor, device: tensor)
    monkeypatch.setattr(_core, "probe_device_reason", lambda: "")
    monkeypatch.setattr(_core, "probe_capture_number", lambda stream: Graph.captures if Graph.capturing else 0)
