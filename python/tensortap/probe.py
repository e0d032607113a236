"""tap.Probe: looks at a tensor where it is made, also inside a CUDA graph, each time the graph is replayed."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from tensortap.probe_actions import Compare, Print, Record, Snapshot

if TYPE_CHECKING:
    import torch

    from tensortap.probe_passes import ProbeRun
    from tensortap.probe_results import Comparisons, LastSnapshots
    from tensortap.probe_sites import DeviceSite

    T = TypeVar("T")

_SMALL_RING = 64  # entries, where they hold no tensors


class Probe:
    """Looks at a tensor and gives it back unchanged: `y = probe(y)`.

    By default it does something only while a CUDA graph is captured: then what it does becomes part of the graph, and
    happens in every replay. It can be called several times in one capture; a second graph needs a probe of its own.

    Parameters
    ----------
    name
        What it is called in what it prints and records.
    actions
        Any of `Print`, `Record` and `Compare`, one of each kind. With none enabled a probe does nothing at all.
    mode
        `capture`: calls outside a capture do nothing. `always`: they are looked at as well, on the CPU too.
    non_contiguous
        `error`, or `copy`: such a tensor is looked at in the order of its indices. It costs nothing more.
    rows
        How many rows (of the first axis) are alive: a number, or a tensor on the same device that holds it when the
        graph is replayed.
    """

    def __init__(
        self,
        name: str,
        actions: Iterable[Print | Record | Compare] = (),
        *,
        mode: str = "capture",
        non_contiguous: str = "error",
        rows: int | torch.Tensor | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"a probe's name is {name!r}: it must be a text")
        if mode not in ("capture", "always"):
            raise ValueError(f"mode is {mode!r}: it is one of capture, always")
        if non_contiguous not in ("error", "copy"):
            raise ValueError(f"non_contiguous is {non_contiguous!r}: it is one of error, copy")
        enabled = [action for action in actions if action.enabled]
        self.name, self.mode, self.non_contiguous, self.rows = name, mode, non_contiguous, rows
        self._print = _one(enabled, Print)
        self._record = _one(enabled, Record)
        self._compare = _one(enabled, Compare)
        if len(enabled) != sum(action is not None for action in (self._print, self._record, self._compare)):
            raise ValueError(f"probe {name!r}: actions are Print, Record and Compare, one of each kind")
        self._on = bool(enabled)
        self._closed = False
        self._lock = threading.RLock()  # of all that is read; calls inside a capture do not need it
        self._sites: list[DeviceSite] = []  # the calls inside the graph
        self._eager_sites: dict[tuple[object, ...], DeviceSite] = {}
        self._prepared: tuple[DeviceSite, tuple[object, ...]] | None = None
        self._expected: dict[tuple[int, int], Any] = {}  # on devices, by device and invocation
        self._capture = 0
        self._eager_calls = 0
        self._kept: dict[int | None, LastSnapshots] = {}
        self._compared_on_cpu: Comparisons | None = None
        self._seen_on_cpu = 0
        self._not_printed = 0
        self._problems: list[str] = []
        self._final: tuple[dict[str, int], list[Comparisons]] | None = None
        self._run: ProbeRun | None = None
        if self._record is not None and self._record.to is not None:
            from tensortap.probe_passes import ProbeRun

            self._run = ProbeRun.acquire(self._record.to)

    # ---- for the model ----

    def __call__(self, tensor: T) -> T:
        """Looks at the tensor and returns it, the same object.

        Raises
        ------
        ValueError, TypeError, RuntimeError
            Only while a graph is captured, or in mode `always`: a tensor that cannot be probed or compared, a second
            capture, no GPU where one is needed.
        """
        if not self._on or self._closed:
            return tensor
        capturing = _is_capturing()
        if capturing or self.mode == "always":
            self._look(tensor, capturing)
        return tensor

    def prepare(self, tensor: torch.Tensor) -> None:
        """Checks the tensor and allocates what the first call in a capture needs; that call must have its shape."""
        if not self._on or self._closed:
            return
        from tensortap.probe_sites import described, room_for

        seen, _ = self._checked(tensor)
        if not tensor.is_cuda:
            if self.mode == "capture":
                raise ValueError(
                    f"probe {self.name!r}: a CPU tensor is never part of a CUDA graph: pass mode='always' to probe it"
                )
            return
        self._check_expected(tensor, 0)
        self._prepared = (self._new_site(seen, room_for(tensor, exact=True), 0), (tensor.device, described(tensor)))

    def attach_grad(self, tensor: torch.Tensor, *, return_handle: bool = False) -> Any:
        """Probes the gradient of the tensor when the backward produces it. Returns the tensor.

        Parameters
        ----------
        tensor
            One that requires a gradient: an activation or a parameter.
        return_handle
            Return (tensor, handle): `handle.remove()` takes the hook off.
        """
        handle: Any = _NoHandle()
        if self._on and not self._closed:
            if not tensor.requires_grad:
                raise ValueError(f"probe {self.name!r}: attach_grad on a tensor that requires no gradient")

            def hook(gradient: torch.Tensor) -> None:
                self(gradient)

            handle = tensor.register_hook(hook)
        return (tensor, handle) if return_handle else tensor

    # ---- for whoever wants to know ----

    def records(self) -> list[Snapshot]:
        """The last replays that have arrived, in their order. Call `torch.cuda.synchronize()` first to have all."""
        self.flush()
        with self._lock:
            found = [each for kept in self._kept.values() for each in kept.show()]
        return sorted(found, key=lambda each: (not each.eager, each.replay_index, each.invocation))

    def clear_records(self) -> None:
        """Forgets what has arrived."""
        self.flush()
        self._forget(None)

    def assert_ok(self) -> None:
        """Raises `CompareFailed` when a comparison has failed. `torch.cuda.synchronize()` first to have all."""
        self.flush()
        if self._compare is None:
            return
        from tensortap.probe_results import failure_of

        with self._lock:
            failed = failure_of(self.name, self._compare, self._comparisons())
        if failed is not None:
            raise failed

    def status(self) -> dict[str, int]:
        """Counts: of places in a graph (`sites`), of replays or calls, of comparisons.

        `published` by the device, `read` by the host; `overwritten` before anybody read them; `skipped`: replayed after
        the probe was closed; `not_printed` for the same reason as overwritten; `comparisons` and how many were
        `failures`; `problems`: calls outside a graph that could not be looked at.
        """
        with self._lock:
            if self._final is not None:
                return dict(self._final[0])
            sites = [*self._sites, *self._eager_sites.values()]
            reads = self._record is not None or self._print is not None
            places = self._comparisons()
            lost = 0 if self._run is not None else sum(kept.lost for kept in self._kept.values())
            return {
                "sites": len(self._sites),
                "published": sum(site.core.published for site in sites) + self._seen_on_cpu,
                "read": sum(site.taken for site in sites) + self._seen_on_cpu,
                "overwritten": (sum(site.core.overwritten for site in sites) if reads else 0) + lost,
                "skipped": sum(site.core.skipped for site in sites),
                "not_printed": self._not_printed,
                "comparisons": sum(place.comparisons for place in places),
                "failures": sum(place.failures for place in places),
                "problems": len(self._problems),
            }

    def flush(self) -> None:
        """Prints and writes what has arrived so far."""
        if not self._closed:
            while self._drain():
                pass

    def close(self) -> None:
        """Ends it: graphs may be replayed as before, and record nothing any more.

        What has arrived can still be asked for; `torch.cuda.synchronize()` first to have all. Closing twice is no
        error.
        """
        from tensortap import probe_reader

        with self._lock:
            if self._closed:
                return
            sites = [*self._sites, *self._eager_sites.values()]
            for site in sites:
                site.core.close()  # first: nothing arrives behind the last look
            while self._drain():
                pass
            self._closed = True
            self._final = (self.status(), self._comparisons())
            slots, self._sites, self._prepared = self._sites, [], None
            self._eager_sites.clear()
            self._expected.clear()
            run, self._run = self._run, None
        probe_reader.closed(self)
        if run is not None:
            run.remove_slots(self._capture, slots)
            problem = run.release()
            if problem is not None:
                self._problems.append(problem)
        slots.clear()
        if sites:
            from tensortap import _core

            sites.clear()
            _core.free_probe_memory()
        if self._problems:
            warnings.warn(f"tensortap: probe {self.name!r}: {self._problems[0]}", stacklevel=2)

    def __enter__(self) -> Probe:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "on" if self._on else "off"
        return f"<Probe {self.name!r}, mode {self.mode}, {state}>"

    # ---- looking ----

    def _look(self, tensor: Any, capturing: bool) -> None:
        import torch

        from tensortap.snapshot import no_modes

        with no_modes(), torch.no_grad():
            seen, rows = self._checked(tensor)
            invocation = len(self._sites) if capturing and tensor.is_cuda else 0
            self._check_expected(tensor, invocation)
            if not tensor.is_cuda:
                self._look_on_cpu(seen)
            elif capturing:
                self._put_into_graph(tensor, seen, rows)
            else:
                try:
                    self._put_on_stream(seen, rows)
                except Exception as error:
                    self._problems.append(str(error))  # said when it is closed: the model goes on

    def _checked(self, tensor: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        from tensortap import _core
        from tensortap.probe_sites import live_rows, readable

        seen = readable(tensor, self.name, copies=self.non_contiguous == "copy")
        if tensor.is_cuda and (reason := _core.probe_device_reason()):
            raise RuntimeError(f"probe {self.name!r}: a CUDA tensor cannot be probed here: {reason}")
        return live_rows(seen, self.rows, self.name)

    def _check_expected(self, tensor: torch.Tensor, invocation: int) -> None:
        if self._compare is None:
            return
        from tensortap.probe_sites import described

        try:
            expected = self._compare.expected(invocation)
        except KeyError as error:
            raise ValueError(f"probe {self.name!r}: {error.args[0]}") from error
        if expected.shape != tensor.shape or expected.dtype != tensor.dtype:
            raise ValueError(
                f"probe {self.name!r}: the tensor is {described(tensor)}, the expected one {described(expected)}: "
                "they must have the same dtype and shape"
            )

    def _put_into_graph(self, tensor: torch.Tensor, seen: torch.Tensor, rows: torch.Tensor | None) -> None:
        import torch

        from tensortap import _core
        from tensortap.probe_sites import described, room_for

        stream = torch._C._cuda_getCurrentRawStream(seen.device.index)
        capture = _core.probe_capture_number(stream)
        if self._capture not in (0, capture):
            raise RuntimeError(
                f"probe {self.name!r} is part of a graph already: make a second Probe for the second graph"
            )
        invocation = len(self._sites)
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[1] != (tensor.device, described(tensor)):
            self._prepared = prepared
            raise ValueError(
                f"probe {self.name!r}: the tensor is {described(tensor)} on {tensor.device}, and the probe was "
                f"prepared for {prepared[1][1]} on {prepared[1][0]}: prepare it for this one"
            )
        site = prepared[0] if prepared is not None else self._new_site(seen, room_for(seen, exact=True), invocation)
        site.enqueue(seen, 0, stream, **self._how(seen, rows, invocation))
        self._capture = capture
        site.pass_group = capture
        if self._run is not None:
            self._run.add_slot(capture, site, self.name)
        self._sites.append(site)
        self._start_reading()

    def _put_on_stream(self, seen: torch.Tensor, rows: torch.Tensor | None) -> None:
        import torch

        from tensortap.probe_sites import room_for

        stream = torch._C._cuda_getCurrentRawStream(seen.device.index)
        room = room_for(seen, exact=False)
        key = (seen.device, stream, room)
        site = self._eager_sites.get(key)
        if site is None:
            site = self._new_site(seen, room, None)
        number, self._eager_calls = self._eager_calls, self._eager_calls + 1
        site.enqueue(seen, number, stream, **self._how(seen, rows, 0))
        if key not in self._eager_sites:
            with self._lock:
                self._eager_sites[key] = site
        self._start_reading()

    def _new_site(self, tensor: torch.Tensor, room: int, invocation: int | None) -> DeviceSite:
        from tensortap import _core, probe_reader
        from tensortap.probe_sites import DeviceSite

        keeps_bytes = self._record is not None and self._record.level == "full"
        capacity = self._record.capacity if self._record is not None else 1
        core = _core.ProbeSite(
            device=tensor.device.index,
            bytes=room,
            element_bytes=tensor.element_size() if invocation is not None else 16,
            keep_bytes=keeps_bytes,
            head_elements=self._print.max_items if self._print is not None and not keeps_bytes else 0,
            capacity=capacity if keeps_bytes else max(capacity, _SMALL_RING),
            wait_when_full=self._run is not None,
            compares=self._compare is not None,
        )
        probe_reader.opened(self)
        return DeviceSite(core, invocation)

    def _how(self, tensor: torch.Tensor, rows: torch.Tensor | None, invocation: int) -> dict[str, Any]:
        """What the work on the device needs besides the tensor."""
        import torch

        from tensortap import _core

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

    def _look_on_cpu(self, seen: torch.Tensor) -> None:
        from tensortap import _core
        from tensortap.probe_results import Comparisons
        from tensortap.probe_sites import copied, first_values

        with self._lock:
            number, self._eager_calls = self._eager_calls, self._eager_calls + 1
            self._seen_on_cpu += 1
            full = self._record is not None and self._record.level == "full"
            snapshot = Snapshot(
                self.name, number, 0, tuple(seen.shape), seen.dtype, seen.device,
                copied(seen) if full else None, _core.fingerprint(seen), True,
            )  # fmt: skip
            if self._compare is not None:
                compare = self._compare
                expected = compare.expected(0)
                if expected.dim() > 0:
                    expected = expected.narrow(0, 0, seen.shape[0])
                if self._compared_on_cpu is None:
                    self._compared_on_cpu = Comparisons(0, tuple(seen.shape))
                found = _core.compare(seen, expected, compare.rtol, compare.atol, compare.equal_nan)
                self._compared_on_cpu.count(found, number, seen.numel())
            if self._wants_print(number):
                import torch

                assert self._print is not None
                head = copied(seen.reshape(-1)[: self._print.max_items]).view(torch.uint8)
                self._say(snapshot, first_values(head, seen.dtype, self._print.max_items))
            self._keep(snapshot, None)

    # ---- reading ----

    def _start_reading(self) -> None:
        if self._print is not None or self._run is not None:
            from tensortap import probe_reader

            probe_reader.read(self)

    def _poll(self) -> bool:
        """For the thread that reads: whether anything had arrived. Raises nothing."""
        try:
            return self._drain()
        except Exception as error:
            self._problems.append(str(error))
            return False

    def _drain(self) -> bool:
        with self._lock:
            if self._closed or not (self._record is not None or self._print is not None):
                return False
            taken = 0
            for site in [*self._sites, *self._eager_sites.values()]:
                # A device that keeps on publishing must not keep us here.
                for _ in range(2 * _SMALL_RING):
                    arrived = site.next()
                    if arrived is None:
                        break
                    self._take(site, *arrived)
                    taken += 1
            return taken > 0

    def _take(self, site: DeviceSite, index: int, call: Any, fingerprint: Any, looked_at: int, taken: Any) -> None:
        from tensortap.probe_sites import as_tensor, first_values, live_shape

        missed = site.passed_over(index)
        if self._print is not None and (lost := sum(number % self._print.every == 0 for number in missed)):
            self._not_printed += lost
            self._write(f"{self._label(site.invocation)}: {lost} not printed: replays came faster than they were read")
        full = self._record is not None and self._record.level == "full"
        shape = live_shape(call, looked_at)
        snapshot = Snapshot(
            self.name, call.number if site.eager else index, site.invocation or 0, shape, call.dtype, call.device,
            as_tensor(taken, shape, call.dtype) if full else None, fingerprint, site.eager,
        )  # fmt: skip
        if self._wants_print(snapshot.replay_index):
            assert self._print is not None
            self._say(snapshot, first_values(taken, call.dtype, self._print.max_items))
        self._keep(snapshot, site)

    def _keep(self, snapshot: Snapshot, site: DeviceSite | None) -> None:
        if self._record is None:
            return
        from tensortap.probe_results import LastSnapshots

        place = None if snapshot.eager else snapshot.invocation
        if place not in self._kept:
            self._kept[place] = LastSnapshots(self._record.capacity)
        self._kept[place].add(snapshot)
        if self._run is None:
            return
        if snapshot.eager or site is None:
            self._run.write(self.name, snapshot)
        else:
            self._run.deliver(site.pass_group, site, snapshot)

    def _forget(self, snapshots: list[Snapshot] | None) -> None:
        with self._lock:
            which = None if snapshots is None else {id(each) for each in snapshots}
            for kept in self._kept.values():
                kept.forget(which)

    def _comparisons(self) -> list[Comparisons]:
        if self._final is not None:
            return self._final[1]
        if self._compare is None:
            return []
        from tensortap.probe_results import Comparisons
        from tensortap.probe_sites import dtype_name

        places = [self._compared_on_cpu] if self._compared_on_cpu is not None else []
        for site in [*self._sites, *self._eager_sites.values()]:
            call = next(iter(site.calls.values()), None)
            expected = self._compare.expected(site.invocation or 0)
            counts = site.core.comparisons(dtype_name(expected.dtype))
            shape = call.shape if call is not None else tuple(expected.shape)
            places.append(Comparisons(site.invocation or 0, shape, *counts))
        return places

    # ---- printing ----

    def _wants_print(self, number: int) -> bool:
        return self._print is not None and number % self._print.every == 0

    def _label(self, invocation: int | None) -> str:
        return f"{self.name}::call{invocation + 1}" if invocation else self.name

    def _say(self, snapshot: Snapshot, values: list[Any]) -> None:
        from tensortap.probe_sites import snapshot_line

        self._write(snapshot_line(self._label(snapshot.invocation), snapshot, values))

    def _write(self, line: str) -> None:
        assert self._print is not None
        file = self._print.file if self._print.file is not None else sys.stderr
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, none, or a pipe that nobody reads
            file.write(line + "\n")
            file.flush()


def drain_records(probe: Probe, consumer: Callable[[Snapshot], object], *, synchronize: bool = True) -> int:
    """Hands every snapshot of a probe to a function, then forgets them. When the function raises, all are kept.

    Parameters
    ----------
    probe
        One with a `Record`.
    consumer
        Called with each snapshot, in the order of `Probe.records()`.
    synchronize
        Wait for the GPU first, so that every replay that was started has arrived.

    Returns
    -------
    int
        How many there were.
    """
    if synchronize and _has_cuda():
        import torch

        torch.cuda.synchronize()
    snapshots = probe.records()
    for snapshot in snapshots:
        consumer(snapshot)
    probe._forget(snapshots)
    return len(snapshots)


class _NoHandle:
    """In place of the handle of a hook that was not needed."""

    def remove(self) -> None:
        pass


def _one(actions: list[Any], kind: type[Any]) -> Any:
    return next((action for action in actions if isinstance(action, kind)), None)


def _has_cuda() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def _is_capturing() -> bool:
    """Whether the current stream is being captured. What has not been initialized is not, and stays so."""
    return _has_cuda() and sys.modules["torch"].cuda.is_current_stream_capturing()
