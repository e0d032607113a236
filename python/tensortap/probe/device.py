"""A probe's places on devices: inside the graph that was captured, and on streams outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensortap import _core
from tensortap.probe.actions import Compare, Print, RecordAction
from tensortap.probe.sites import DeviceSite, described, room_for
from tensortap.torch_glue.cuda_graphs import CudaGraphs, Listener

_SMALL_RING = 64  # entries, where they hold no tensors


class DeviceSites:
    """Where one probe has put work on devices. `opened` is called before the first of it."""

    def __init__(
        self,
        name: str,
        printing: Print | None,
        record: RecordAction | None,
        compare: Compare | None,
        opened: Callable[[], None],
    ) -> None:
        self._name, self._print, self._record, self._compare = name, printing, record, compare
        self._opened = opened
        self.captured: list[DeviceSite] = []  # the calls inside the graph
        self.capture = 0  # its number
        self._eager: dict[tuple[object, ...], DeviceSite] = {}
        self._prepared: tuple[DeviceSite, tuple[object, ...]] | None = None
        self._expected: dict[tuple[object, ...], Any] = {}
        self._graphs: CudaGraphs | None = None  # from the first site on

    def all(self) -> list[DeviceSite]:
        return [*self.captured, *list(self._eager.values())]

    def clear(self) -> None:
        """Lets go of all; a graph keeps what is its own."""
        self.captured, self._prepared = [], None
        self._eager.clear()
        self._expected.clear()
        if self._graphs is not None:
            self._graphs.remove()
            self._graphs = None

    def prepare(self, tensor: torch.Tensor, seen: torch.Tensor) -> None:
        """Allocates what the first call in a capture needs."""
        self._prepared = (self._new_site(seen, room_for(seen, exact=True), 0), (tensor.device, described(tensor)))

    def put_into_graph(self, tensor: torch.Tensor, seen: torch.Tensor, rows: torch.Tensor | None) -> DeviceSite:
        """Into the graph that is captured on the current stream."""
        stream = torch._C._cuda_getCurrentRawStream(seen.device.index)
        capture = _core.probe_capture_number(stream)
        if self.capture not in (0, capture):
            raise RuntimeError(
                f"probe {self._name!r} is part of a graph already: make a second Probe for the second graph"
            )
        invocation = len(self.captured)
        prepared = self._prepared
        if prepared is not None and prepared[1] != (tensor.device, described(tensor)):
            raise ValueError(
                f"probe {self._name!r}: the tensor is {described(tensor)} on {tensor.device}, and the probe was "
                f"prepared for {prepared[1][1]} on {prepared[1][0]}: prepare it for this one"
            )
        self._prepared = None
        site = prepared[0] if prepared is not None else self._new_site(seen, room_for(seen, exact=True), invocation)
        site.enqueue(seen, 0, stream, **self._how(seen, rows, invocation))
        self.capture = capture
        self.captured.append(site)
        return site

    def put_on_stream(self, seen: torch.Tensor, rows: torch.Tensor | None, number: int) -> None:
        """Onto the current stream, at once."""
        stream = torch._C._cuda_getCurrentRawStream(seen.device.index)
        room = room_for(seen, exact=False)
        key = (seen.device, stream, room)
        site = self._eager.get(key)
        if site is None:
            site = self._new_site(seen, room, None)
        site.enqueue(seen, number, stream, **self._how(seen, rows, 0))
        self._eager[key] = site

    def _new_site(self, tensor: torch.Tensor, room: int, invocation: int | None) -> DeviceSite:
        self._opened()
        if self._graphs is None:
            self._graphs = CudaGraphs(Listener())
        keeps_bytes = self._record is not None and self._record.level == "full"
        waits = self._record is not None and self._record.to is not None
        capacity = self._record.capacity if self._record is not None else 1
        if not keeps_bytes:
            capacity = max(capacity, _SMALL_RING)
        core = _core.ProbeSite(
            device=tensor.device.index,
            bytes=room,
            element_bytes=tensor.element_size() if invocation is not None else 16,
            keep_bytes=keeps_bytes,
            head_elements=self._print.max_items if self._print is not None and not keeps_bytes else 0,
            capacity=capacity,
            wait_when_full=waits,
            compares=self._compare is not None,
        )
        # What waits for the host is never overwritten, and what nobody reads need not be known.
        reads = self._record is not None or self._print is not None
        remembered = (1 << 62 if waits else 4 * capacity + 1024) if reads else 0
        return DeviceSite(core, tensor.device, invocation, remembered)

    def _how(self, tensor: torch.Tensor, rows: torch.Tensor | None, invocation: int) -> dict[str, Any]:
        """What the work on the device needs besides the tensor."""
        how: dict[str, Any] = {"rows": rows}
        if rows is not None:
            how["rows_are_64_bit"] = rows.dtype is torch.int64
        if self._compare is not None:
            key = (tensor.device.index, invocation if self._compare.differs_by_call else 0)
            if (key, tensor.shape) not in self._expected:
                expected = self._compare.expected(invocation)
                if expected.dim() > 0:
                    expected = expected.narrow(0, 0, tensor.shape[0])  # rows that the host has left out
                self._expected[key, tensor.shape] = _core.ProbeExpected(expected, tensor.device.index)
            how.update(
                expected=self._expected[key, tensor.shape],
                rtol=self._compare.rtol,
                atol=self._compare.atol,
                equal_nan=self._compare.equal_nan,
            )
        return how
