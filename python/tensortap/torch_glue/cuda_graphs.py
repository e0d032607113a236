"""When CUDA graphs are captured and replayed: both write to tensors without an operator that says so."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any

import torch

from tensortap import _core
from tensortap.torch_glue.gpu import has_gpu
from tensortap.torch_glue.op_extension import recording_suppressed
from tensortap.torch_glue.patching import ImportWatch, Patch
from tensortap.torch_glue.program_errors import raise_if_of_program


class Listener:
    """Who has something in graphs; by itself only whoever must not free memory while one is captured."""

    captured = 0  # graphs so far

    def before_capture(self) -> None:
        """A graph is about to be captured on the current stream."""

    def before_capture_ends(self) -> None:
        """The last chance to put something into the graph that is captured on the current stream."""

    def before_replay(self) -> None:
        """A graph is about to be replayed: what its tensors hold will be something else."""

    def let_go_of_tensors(self) -> None:
        """PyTorch is about to look whether anybody else holds tensors in the memory of a graph."""


_lock = threading.RLock()
_listeners: list[Listener] = []
_patches: list[Patch | ImportWatch] = []
_under_way = 0
_captured: set[int] = set()  # graphs of which the beginning was seen, and not the end


def under_way() -> bool:
    """Whether any graph is being captured, on whatever stream."""
    return _under_way > 0


def graph_now(core: _core.Recorder) -> int:
    """The recorder's taps in the graph that is captured on the current stream, for begin_event(); 0 when none is."""
    if not under_way() or not torch.cuda.is_current_stream_capturing():
        return 0
    device = torch.cuda.current_device()
    return core.captured_graph(device, torch._C._cuda_getCurrentRawStream(device))


class CudaGraphs:
    """Notifies a listener of captures and replays, until it is removed."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        with _lock:
            _listeners.append(listener)
            if not _patches and has_gpu():
                graph = torch.cuda.CUDAGraph
                _patches.append(Patch(graph, "capture_begin", _begins))
                _patches.append(Patch(graph, "capture_end", _ends))
                _patches.append(Patch(graph, "replay", _replays))
                trees = {"torch._inductor.cudagraph_trees": _patch_trees}  # of torch.compile(mode="reduce-overhead")
                _patches.append(ImportWatch(trees))

    def remove(self) -> None:
        """Notifies it no longer. A capture that is under way ends as it would have without us."""
        if self._listener.captured > 0:
            wait_for_devices()  # replays are part of what was recorded
        with _lock:
            if self._listener in _listeners:
                _listeners.remove(self._listener)
            if not _listeners and _under_way == 0:
                while _patches:
                    patch = _patches.pop()
                    patch.undo() if isinstance(patch, Patch) else patch.remove()


def _notify(what: str) -> None:
    for listener in list(_listeners):
        try:
            getattr(listener, what)()
        except Exception as error:  # nothing of ours reaches the program
            raise_if_of_program(error)


def _count(by: int) -> None:
    global _under_way
    with _lock:
        _under_way += by
    _core.capturing(by)


def _begins(begin: Any) -> Any:
    @functools.wraps(begin)
    def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
        _notify("before_capture")
        free_device_memory()
        _count(1)
        try:
            with recording_suppressed():  # work of PyTorch's own, such as the state of random generators
                result = begin(graph, *args, **kwargs)
        except BaseException:
            _count(-1)
            raise
        _captured.add(id(graph))
        return result

    return capture_begin


def _ends(end: Any) -> Any:
    @functools.wraps(end)
    def capture_end(graph: Any) -> Any:
        began = id(graph) in _captured
        _captured.discard(id(graph))
        if began:
            _notify("before_capture_ends")
        try:
            return end(graph)
        finally:
            if began:
                _count(-1)

    return capture_end


def _replays(replay: Any) -> Any:
    @functools.wraps(replay)
    def replayed(graph: Any) -> Any:
        _notify("before_replay")
        with recording_suppressed():
            return replay(graph)

    return replayed


def _patch_trees(module: Any) -> None:
    _patches.append(Patch(module, "check_memory_pool", _checks_pool))


def _checks_pool(check: Any) -> Any:
    @functools.wraps(check)
    def check_memory_pool(*args: Any, **kwargs: Any) -> Any:
        _notify("let_go_of_tensors")
        return check(*args, **kwargs)

    return check_memory_pool


def free_device_memory() -> None:
    """Gives back what is not used any more, unless that could end somebody's capture.

    A capture that is not ours is known only on its own thread, so other threads leave it alone: those that clean up
    after objects that were forgotten.
    """
    if threading.current_thread() is not threading.main_thread() or not torch.cuda.is_initialized():
        return
    if not torch.cuda.is_current_stream_capturing():
        _core.free_device_memory()


def wait_for_devices() -> None:
    """Everything that was asked of them so far is over; where one has failed, nothing comes any more.

    Not while a graph is captured, which waiting would end; nor of devices that this process does not use, where asking
    would make it use them.
    """
    if not torch.cuda.is_initialized() or _under_way > 0 or torch.cuda.is_current_stream_capturing():
        return
    for device in range(torch.cuda.device_count()):
        if torch._C._cuda_hasPrimaryContext(device):
            with contextlib.suppress(RuntimeError):
                torch.cuda.synchronize(device)


class OfTrace(Listener):
    """What an operator source in memory wants to know."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def before_capture(self) -> None:
        self._source.forget_values()

    def before_capture_ends(self) -> None:
        self.captured += 1
        self._source.end_capture()

    def before_replay(self) -> None:
        self._source.forget_values()

    def let_go_of_tensors(self) -> None:
        self._source.launch_waiting()


class OfRecording(Listener):
    """What a recording wants to know; its operators' tap, if there is one, has fingerprints that wait."""

    def __init__(self, core: Any, ops: Any | None) -> None:
        self._core = core
        self._ops = ops

    def _op_source(self) -> Any | None:
        return self._ops.source if self._ops is not None else None

    def before_capture(self) -> None:
        if (source := self._op_source()) is not None:
            source.forget_values()

    def before_capture_ends(self) -> None:
        self.captured += 1
        if (source := self._op_source()) is not None:
            source.end_capture()
        self._core.end_capture(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))

    def before_replay(self) -> None:
        if (source := self._op_source()) is not None:
            source.forget_values()

    def let_go_of_tensors(self) -> None:
        if (source := self._op_source()) is not None:
            source.launch_waiting()
