"""The recorder behind the recordings: one per process and directory, shared by all recordings into it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import threading
import weakref
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tensortap import _core
from tensortap.session import metadata
from tensortap.session.coverage import merged
from tensortap.session.growth import Growth
from tensortap.tensors.placements import Placements
from tensortap.torch_glue.program_errors import raise_if_of_program

if TYPE_CHECKING:
    from tensortap.session.options import Options

_lock = threading.RLock()  # a signal handler may begin or end a recording while this thread does
# By directory; the first is the one in use. Changed only by calls that no signal handler can interrupt.
_writers: dict[Path, list[Writer]] = {}


class Source(Protocol):
    """A recording as its writer sees it."""

    options: Options

    run_number: int | None  # of the run in its directory, once it has begun

    @property
    def recording(self) -> bool:
        """Whether anything is being recorded."""

    @property
    def coverage(self) -> dict[str, Any]:
        """What was not seen so far."""

    def close(self) -> None:
        """Ends the recording."""

    def _warn(self, note: str) -> None:
        """Says something about the recording, once."""

    def _after_fork(self) -> None:
        """In a forked child: the writer is the parent's."""


class Writer:
    """A recorder, and the recordings that use it. Closed by the last of them."""

    def __init__(self, directory: Path, recording: Source) -> None:
        options = recording.options
        core = options.core
        core.directory = os.fspath(directory)
        if recording.run_number is not None:  # in a forked child: that of its parent
            core.run = recording.run_number
        core.rank = metadata.rank()
        core.rank_count = metadata.world_size()
        core.world_size = metadata.world_size() if options.of_graphs and core.format == "npy" else None
        core.metadata_json = _json(metadata.of_program(options.described))
        self.directory = directory
        self._settings = _settings(options)
        self._core_options = core
        self._made: list[_core.Recorder] = []
        self._recordings: list[Source] = []
        self._closer: threading.Thread | None = None  # the last recording is over, and this thread closes the recorder
        self._is_closed = threading.Event()
        self._models: list[dict[str, Any]] = []
        self._optimizers: list[dict[str, Any]] = []
        self._growth = Growth(aloud=options.warn_of_growth and core.rank == 0 and core.quota_bytes == 0)
        self._finished: list[dict[str, Any]] = []  # the coverage of recordings that were closed before the last

    def _open(self) -> None:
        """Makes the recorder, once, whatever signal handler begins a recording meanwhile."""
        if not self._made:
            try:
                # In one call of Python's own code: no handler can find a recorder that is made and not kept.
                self._made.extend(map(_core.Recorder.create, [self._core_options]))
            except ValueError:
                if not self._made:
                    raise
        self.core = self._made[0]
        self.rank_directory = Path(self.core.rank_directory)
        # The first run of a directory lies in the directory itself.
        self.run_directory = self.directory if self.core.run_number == 1 else self.rank_directory.parent
        if not hasattr(self, "placements"):
            self.placements = Placements(_read_json(self.rank_directory / "placements.json"))  # of earlier passes

    @classmethod
    def acquire(cls, recording: Source) -> Writer:
        """The writer of the recording's directory, made if it is the first."""
        directory = recording.options.directory
        assert directory is not None
        while True:
            with _lock:
                known = _writers.setdefault(directory, [])
                if not known:
                    known.append(cls(directory, recording))
                writer = known[0]
                writer._recordings.append(recording)  # first: nobody closes it from now on
                if writer._closer is None:
                    return writer._joined(recording)
                writer._recordings.remove(recording)
            # Two recorders cannot have one directory. A signal handler that interrupts who closes it does not wait.
            if writer._closer is threading.current_thread():
                writer._close()
            else:
                writer._is_closed.wait()

    def _joined(self, recording: Source) -> Writer:
        try:
            self._open()
        except BaseException:
            self._recordings.remove(recording)
            if not self._recordings:
                self._forget()
            raise
        _close_at_exit()
        if self._settings != _settings(recording.options):
            recording._warn(
                f"another recording writes to {self.directory} too, and its staging, quota, format and the like hold"
            )
        return self

    def release(self, recording: Source) -> str | None:
        """The recording is done. The last one closes the recorder; then its first error, if there is one."""
        with _lock:
            if recording not in self._recordings:
                return None
            self._recordings.remove(recording)
            self._finished.append(recording.coverage)
            self._closer = threading.current_thread()
            if self._recordings:  # also one that a signal handler has just begun
                self._closer = None
                return None
        return self._close()

    def _close(self) -> str | None:
        try:
            self.core.set_source_json(_json(merged(self._finished)))
        finally:
            error = self.core.close(aborted=True)  # a pass that is still open was cut short
            self._forget()
            self._is_closed.set()
        return error or self._write_placements()

    def _forget(self) -> None:
        with contextlib.suppress(ValueError, KeyError):  # it was forgotten already
            _writers[self.directory].remove(self)

    def close_pass(self, number: int, *, aborted: bool) -> None:
        """A pass has ended."""
        self.core.close_pass(number, aborted)
        self._growth.look(self.core, self.run_directory)
        self._write_placements()  # when it fails, the next pass tries again

    def _write_placements(self) -> str | None:
        """Keeps how DTensors are spread in placements.json, if there is anything new; the error, if it fails."""
        try:
            self.placements.write(lambda spreads: self._write_beside("placements.json", spreads))
        except OSError as error:
            raise_if_of_program(error)
            return f"placements.json could not be written: {error}"
        return None

    def add_model(self, model: dict[str, Any]) -> None:
        """Keeps a model's structure beside the passes, in model.json."""
        if model not in self._models:  # recorded again and again, it stands there once
            self._models.append(model)
            self._write_models()

    def add_optimizer(self, optimizer: dict[str, Any]) -> None:
        """Keeps an optimizer's settings there too."""
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
            self._write_models()

    def _write_models(self) -> None:
        optimizers = {"optimizers": self._optimizers} if self._optimizers else {}
        self._write_beside("model.json", {"models": self._models, **optimizers})

    def _write_beside(self, name: str, value: object) -> None:
        """A file beside the passes: whole, or as it was."""
        path = self.rank_directory / name
        partial = path.with_suffix(f".{secrets.token_hex(8)}.partial")  # another thread may write it too
        try:
            with partial.open("x") as file:
                file.write(_json(value, indent=1) + "\n")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any]:
    """What the file holds; nothing when it is not there or not ours."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(value: object, indent: int | None = None) -> str:
    """As text that is valid whatever names it holds."""
    return json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "replace").decode()


def _settings(options: Options) -> tuple[object, ...]:
    """What all recordings into one directory have in common."""
    core = options.core
    return (core.staging_bytes, core.device_staging_bytes, core.quota_bytes, core.drop_when_full, core.write,
            core.deduplicate, core.sync, core.format)  # fmt: skip


def _close_all() -> None:
    for recording in recordings():
        recording.close()


def _all_writers() -> list[Writer]:
    return [writer for known in list(_writers.values()) for writer in known]


def recordings() -> list[Source]:
    """Those under way in this process."""
    return [recording for writer in _all_writers() for recording in writer._recordings]


_registered_in = 0


def _close_at_exit() -> None:
    """At the end of the process, also of one that multiprocessing forked, which runs no atexit functions."""
    global _registered_in
    if _registered_in == os.getpid():
        return
    if _registered_in == 0:
        atexit.register(_close_all)
    _registered_in = os.getpid()
    util.Finalize(None, _close_all, exitpriority=100)


def tell_of_forks(recording: Source) -> None:
    """One that has no writer yet, and that another thread may just be making one for."""
    _without_writer.add(recording)


def _forget_in_child() -> None:
    # The recorder's threads stayed with the parent; each process makes its own directory when it records something.
    global _lock
    _lock = threading.RLock()
    for recording in {*recordings(), *_without_writer}:
        if recording.recording:
            recording._after_fork()
    _abandoned.extend(_all_writers())
    _writers.clear()


_without_writer: weakref.WeakSet[Source] = weakref.WeakSet()
_abandoned: list[Writer] = []  # never closed here: they are the parent's
os.register_at_fork(after_in_child=_forget_in_child)
