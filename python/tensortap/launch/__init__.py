"""Recording a program that does not know of it: what `ttap run` starts inside every Python process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from tensortap.launch.grafts import begin_grafts, end_grafts
from tensortap.session.program import watch_for_failure, when_program_records
from tensortap.torch_glue.hook_warning import ignore_warning_of_global_hooks

if TYPE_CHECKING:
    from tensortap.recording import Recording

_lock = threading.RLock()  # a filter that is imported meanwhile may record by itself
_first_call: Any = None  # the handle of the hook that waits for it
_recording: Recording | None = None
_stepped_aside = False
_missed: list[None] = []  # one for each call on another thread while the recording began


def await_first_call() -> None:
    """Records every module that is called outermost. Called when torch.nn.Module has been made.

    PyTorch is half imported then, so the recording begins with the first call of a module.
    """
    global _first_call
    if _stepped_aside:
        return
    from torch.nn.modules.module import register_module_forward_pre_hook  # which is there now

    _first_call = register_module_forward_pre_hook(_at_first_call)
    ignore_warning_of_global_hooks()


def begin_with_torch() -> None:
    """Begins what does not wait for a call of a module: grafts and operators. Called when PyTorch has been imported."""
    begin_grafts()
    if os.environ.get("TTAP_OPS") == "1":
        _begin_with_operators()


def _begin_with_operators() -> None:
    """Records operators too, from now on."""
    if _begin() is not None:
        watch_for_failure()
        atexit.register(step_aside)  # also where nothing has been recorded: operators are observed no longer


def _at_first_call(module: Any, args: Any) -> None:
    import torch  # whole by now

    if torch.compiler.is_compiling():
        return
    # Never waits: who begins the recording may wait for an import of this thread's.
    if not _lock.acquire(blocking=False):
        if _recording is None:
            _missed.append(None)
        return
    try:
        recording = _begin()
    finally:
        _lock.release()
    if recording is not None:
        recording.first_call(module, args)


def begin() -> Recording | None:
    """The recording of the whole program; it begins now where it has waited for the first call of a module."""
    if _lock.acquire(blocking=False):  # never waits, as above
        try:
            _begin()
        finally:
            _lock.release()
    return _recording


def _begin() -> Recording | None:
    """The recording, if it began now."""
    global _first_call
    with _lock:
        if _first_call is None:
            return None
        hook, _first_call = _first_call, None
        try:
            return _made()
        finally:
            hook.remove()  # not before: until then it counts the calls of other threads


def _made() -> Recording | None:
    global _recording
    if not os.environ.get("TTAP_DIR"):
        return None
    from tensortap.recording import Recording  # imports all of PyTorch
    from tensortap.session.options import options_of  # imports all of PyTorch

    try:
        options = options_of()
        if _stepped_aside:
            return None
        _recording = Recording(None, options, whole_program=True)
        _recording.notes_at_end = end_grafts
        if _missed:
            _recording._warn(
                f"{len(_missed)} calls of modules were not recorded: another thread was beginning the recording",
                aloud=False,
            )
    except (Exception, SystemExit) as error:  # a filter's file may call sys.exit()
        print(f"ttap run: process {os.getpid()} is not recorded: {error}", file=sys.stderr)
    return _recording


def step_aside() -> None:
    """The program records by itself: it knows better what."""
    global _first_call, _recording, _stepped_aside
    with _lock:
        _stepped_aside = True
        if _first_call is not None:
            _first_call.remove()
            _first_call = None
        recording, _recording = _recording, None
    if recording is not None:
        recording.notes_at_end = None  # grafts go on
        recording.close()


when_program_records(step_aside)
