"""tap.Probe: looks at a tensor where it is made, also inside a CUDA graph, each time the graph is replayed."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar, overload

import torch

from tensortap import _core
from tensortap.literals import NonContiguous, ProbeMode
from tensortap.probe import reader
from tensortap.probe.actions import Action, Compare, Print, RecordAction
from tensortap.probe.device import DeviceSites
from tensortap.probe.passes import ProbeRun
from tensortap.probe.printing import Printer, label_of
from tensortap.probe.results import Comparisons, LastSnapshots, failure_of
from tensortap.probe.sites import DeviceSite, as_tensor, copied, described, dtype_name, live_rows, live_shape, readable
from tensortap.probe.snapshot import Snapshot
from tensortap.torch_glue.cuda_graphs import free_device_memory
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.typed_dicts import ProbeStatus

T = TypeVar("T")
TensorT = TypeVar("TensorT", bound=torch.Tensor)

_NEVER_CAPTURED = "probe {!r}: a CPU tensor is never part of a CUDA graph: pass mode='always' to probe it"
_AT_ONCE = 128  # replays read of one place before the next one has its turn


class Handle(Protocol):
    """Of a hook on a tensor."""

    def remove(self) -> None:
        """Takes the hook off."""


class Probe:
    """Looks at a tensor and gives it back unchanged: `y = probe(y)`.

    By default it does something only while a CUDA graph is captured: then what it does becomes part of the graph, and
    happens in every replay. It can be called several times in one capture; a second graph needs a probe of its own.

    Parameters
    ----------
    name
        What it is called in what it prints and records.
    actions
        Any of `Print`, `RecordAction` and `Compare`, one of each kind. With none enabled a probe does nothing at all.
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
        actions: Iterable[Action] = (),
        *,
        mode: ProbeMode = "capture",
        non_contiguous: NonContiguous = "error",
        rows: int | torch.Tensor | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"a probe's name is {name!r}: it must be a text")
        if mode not in ("capture", "always"):
            raise ValueError(f"mode is {mode!r}: it is one of capture, always")
        if non_contiguous not in ("error", "copy"):
            raise ValueError(f"non_contiguous is {non_contiguous!r}: it is one of error, copy")
        enabled = [action for action in actions if action.enabled]
        self.name: str = name
        self.mode: ProbeMode = mode
        self.non_contiguous: NonContiguous = non_contiguous
        self.rows: int | torch.Tensor | None = rows
        self._print = _one(enabled, Print)
        self._record = _one(enabled, RecordAction)
        self._compare = _one(enabled, Compare)
        if len(enabled) != sum(action is not None for action in (self._print, self._record, self._compare)):
            raise ValueError(f"probe {name!r}: actions are Print, RecordAction and Compare, one of each kind")
        self._on = bool(enabled)
        self._closed = False
        self._lock = threading.RLock()  # of all that is read; calls inside a capture do not need it
        self._devices: DeviceSites | None = None  # made with the first
        self._eager_calls = 0
        self._kept: dict[int | None, LastSnapshots] = {}
        self._compared_on_cpu: Comparisons | None = None
        self._seen_on_cpu = 0
        self._printer = Printer(self._print)
        self._problems: list[str] = []
        self._final: tuple[ProbeStatus, list[Comparisons]] | None = None
        self._run: ProbeRun | None = None
        if self._record is not None and self._record.to is not None:
            self._run = ProbeRun.acquire(self._record.to)
            reader.opened(self, keep=True)

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
        seen, _ = self._checked(tensor)
        if not tensor.is_cuda:
            if self.mode == "capture":
                raise ValueError(_NEVER_CAPTURED.format(self.name))
            return
        self._check_expected(tensor, 0)
        self._on_devices().prepare(tensor, seen)

    @overload
    def attach_grad(self, tensor: TensorT, *, return_handle: Literal[False] = False) -> TensorT: ...
    @overload
    def attach_grad(self, tensor: TensorT, *, return_handle: Literal[True]) -> tuple[TensorT, Handle]: ...
    def attach_grad(self, tensor: TensorT, *, return_handle: bool = False) -> TensorT | tuple[TensorT, Handle]:
        """Probes the gradient of the tensor when the backward produces it. Returns the tensor.

        Parameters
        ----------
        tensor
            One that requires a gradient: an activation or a parameter.
        return_handle
            Return (tensor, handle): `handle.remove()` takes the hook off.
        """
        handle: Handle = _NoHandle()
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
        with self._lock:
            failed = failure_of(self.name, self._compare, self._comparisons())
        if failed is not None:
            raise failed

    def status(self) -> ProbeStatus:
        """Counts: of places in a graph (`sites`), of replays or calls, of comparisons.

        `published` by the device, `read` by the host; `overwritten` before anybody read them; `skipped`: replays that
        were under way when the probe was closed; `not_printed` for the same reason as overwritten; `comparisons` and
        how many were `failures`; `problems`: calls outside a graph that could not be looked at.
        """
        with self._lock:
            if self._final is not None:
                return self._final[0].copy()
            sites = self._sites()
            reads = self._record is not None or self._print is not None
            places = self._comparisons()
            lost = 0 if self._run is not None else sum(kept.lost for kept in self._kept.values())
            return {
                "sites": sum(not site.eager for site in sites),
                "published": sum(site.core.published for site in sites) + self._seen_on_cpu,
                "read": sum(site.taken for site in sites) + self._seen_on_cpu,
                "overwritten": (sum(site.core.overwritten for site in sites) if reads else 0) + lost,
                "skipped": sum(site.core.skipped for site in sites),
                "not_printed": self._printer.not_printed,
                "comparisons": sum(place.comparisons for place in places),
                "failures": sum(place.failures for place in places),
                "problems": len(self._problems),
            }

    def flush(self) -> None:
        """Prints and writes what has arrived so far."""
        if self._closed:
            return
        # A ring's length, not more: a device that keeps on publishing must not keep us here.
        for _ in range(2 + (self._record.capacity if self._record is not None else 0) // _AT_ONCE):
            if not self._drain():
                return

    def close(self) -> None:
        """Ends it: graphs may be replayed as before, and record nothing any more.

        What has arrived can still be asked for; `torch.cuda.synchronize()` first to have all. Closing twice is no
        error.
        """
        with self._lock:
            if self._closed:
                return
            sites = self._sites()
            for site in sites:
                site.core.close()  # first: nothing arrives behind the last look
            while self._drain():
                pass
            self._closed = True
            self._final = (self.status(), self._comparisons())
            devices, self._devices = self._devices, None
            run, self._run = self._run, None
        reader.closed(self)
        if run is not None:
            run.close_slots(devices.capture if devices is not None else 0, sites)
            problem = run.release()
            if problem is not None:
                self._problems.append(problem)
        sites.clear()
        if devices is not None:
            devices.clear()
            free_device_memory()
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
        with no_modes(), torch.no_grad():
            seen, rows = self._checked(tensor)
            invocation = len(self._on_devices().captured) if capturing and tensor.is_cuda else 0
            self._check_expected(tensor, invocation)
            if not tensor.is_cuda:
                if self.mode == "capture":
                    raise ValueError(_NEVER_CAPTURED.format(self.name))
                self._look_on_cpu(seen)
            elif capturing:
                self._put_into_graph(tensor, seen, rows)
            else:
                try:
                    self._put_on_stream(seen, rows)
                except Exception as error:
                    self._problems.append(str(error))  # said when it is closed: the model goes on

    def _checked(self, tensor: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        seen = readable(tensor, self.name, copies=self.non_contiguous == "copy")
        if tensor.is_cuda and (reason := _core.probe_device_reason()):
            raise RuntimeError(f"probe {self.name!r}: a CUDA tensor cannot be probed here: {reason}")
        return live_rows(seen, self.rows, self.name)

    def _check_expected(self, tensor: torch.Tensor, invocation: int) -> None:
        if self._compare is None:
            return
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
        devices = self._on_devices()
        site = devices.put_into_graph(tensor, seen, rows)
        if self._run is not None:
            self._run.add_slot(devices.capture, site, self.name)
        self._start_reading()

    def _put_on_stream(self, seen: torch.Tensor, rows: torch.Tensor | None) -> None:
        number, self._eager_calls = self._eager_calls, self._eager_calls + 1
        self._on_devices().put_on_stream(seen, rows, number)
        self._start_reading()

    def _on_devices(self) -> DeviceSites:
        if self._devices is None:
            self._devices = DeviceSites(
                self.name, self._print, self._record, self._compare, lambda: reader.opened(self)
            )
        return self._devices

    def _sites(self) -> list[DeviceSite]:
        return self._devices.all() if self._devices is not None else []

    def _look_on_cpu(self, seen: torch.Tensor) -> None:
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
            if self._print is not None and self._printer.wants(number):
                self._printer.say(snapshot, copied(seen.reshape(-1)[: self._print.max_items]).view(torch.uint8))
            self._keep(snapshot, None)

    # ---- reading ----

    def _start_reading(self) -> None:
        if self._print is not None or self._run is not None:
            reader.read(self)

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
            for site in self._sites():
                for _ in range(_AT_ONCE):
                    arrived = site.next()
                    if arrived is None:
                        break
                    self._take(site, *arrived)
                    taken += 1
            return taken > 0

    def _take(
        self, site: DeviceSite, index: int, call: Any, fingerprint: Any, looked_at: int, taken: torch.Tensor
    ) -> None:
        self._printer.miss(label_of(self.name, site.invocation), site.passed_over(index))
        full = self._record is not None and self._record.level == "full"
        shape = live_shape(call, looked_at)
        snapshot = Snapshot(
            self.name, call.number if site.eager else index, site.invocation or 0, shape, call.dtype, call.device,
            as_tensor(taken, shape, call.dtype) if full else None, fingerprint, site.eager,
        )  # fmt: skip
        if self._printer.wants(snapshot.replay_index):
            self._printer.say(snapshot, taken)
        self._keep(snapshot, site)

    def _keep(self, snapshot: Snapshot, site: DeviceSite | None) -> None:
        if self._record is None:
            return
        place = None if snapshot.eager else snapshot.invocation
        if place not in self._kept:
            self._kept[place] = LastSnapshots(self._record.capacity)
        self._kept[place].add(snapshot)
        if self._run is None:
            return
        if snapshot.eager or site is None:
            self._run.write(self.name, snapshot)
        else:
            assert self._devices is not None
            self._run.deliver(self._devices.capture, site, snapshot)

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
        places = [self._compared_on_cpu] if self._compared_on_cpu is not None else []
        for site in self._sites():
            expected = self._compare.expected(site.invocation or 0)
            counts = site.core.comparisons(dtype_name(expected.dtype))
            places.append(Comparisons(site.invocation or 0, tuple(expected.shape), *counts))
        return places


def drain_records(probe: Probe, consumer: Callable[[Snapshot], object], *, synchronize: bool = True) -> int:
    """Hands every snapshot of a probe to a function, then forgets them. When the function raises, all are kept.

    Parameters
    ----------
    probe
        One with a `RecordAction`.
    consumer
        Called with each snapshot, in the order of `Probe.records()`.
    synchronize
        Wait for the GPU first, so that every replay that was started has arrived.

    Returns
    -------
    int
        How many there were.
    """
    if synchronize and torch.cuda.is_initialized():
        for device in {site.device for site in probe._sites()}:
            torch.cuda.synchronize(device)
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


def _is_capturing() -> bool:
    """Whether the current stream is being captured. What has not been initialized is not, and stays so."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
