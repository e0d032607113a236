"""What every recording of a run has in common: options, a writer, passes, coverage, and an end."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame

from tensortap import _core
from tensortap.session.coverage import Coverage, report_lines
from tensortap.session.options import Options
from tensortap.session.passes import SKIPPED, PassTracker
from tensortap.session.writer import Writer
from tensortap.torch_glue.cuda_graphs import free_device_memory
from tensortap.torch_glue.program_errors import is_of_program, raise_if_of_program

if TYPE_CHECKING:
    from typing_extensions import Self


class SessionClosed(Exception):
    """The recording was closed by another thread while a hook of this one was under way."""


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def sessions_under_way() -> list[Session]:
    """Those that record in this process, also where none of them has written anything yet."""
    return [session for session in list(_sessions) if session.recording]


class Session:
    """A recording into a directory, whatever its source. Closing it is the source's part, then `_release()`."""

    tracker: PassTracker
    # What is to be done when gradients come after their pass has ended.
    against_late_gradients = "put forward and backward into one `with rec.step():` (step='manual')"

    def __init__(self, options: Options, suppress_recording: Callable[[int], None] | None = None) -> None:
        self.options = options
        _sessions.add(self)
        # Runs our own code inside the program's: unseen by other tools' modes and by Dynamo, and no exception of it
        # reaches the model. Every hook is called through it.
        self.guarded = _core.Guard(
            self._is_to_be_raised,
            set_eval_frame,
            torch._C.DisableTorchFunction,
            suppress_recording,
            torch.is_grad_enabled,
            torch._C._set_grad_enabled,
        )
        self._closed = options.directory is None
        self._writer: Writer | None = None
        self._making_writer = threading.RLock()
        self._rank_directory: Path | None = None
        self.run_number: int | None = None
        self._cannot_write: str | None = None
        self._warned: set[str] = set()
        self._coverage: Coverage | None = None

    @property
    def recording(self) -> bool:
        """Whether anything is being recorded: False without a directory, on a rank left out, and after close()."""
        return self.guarded.open

    @property
    def _closed(self) -> bool:
        return not self.guarded.open

    @_closed.setter
    def _closed(self, closed: bool) -> None:
        self.guarded.open = not closed

    def _is_to_be_raised(self, error: Exception) -> bool:
        """Of what was raised in a hook: the program's own exceptions, and if `strict` ours too. Those are counted."""
        if isinstance(error, SessionClosed):
            return False
        if is_of_program(error) or self.options.core.strict:
            return True
        assert self._coverage is not None
        self._coverage.failed(f"{type(error).__name__}: {error}")
        return False

    @property
    def directory(self) -> Path | None:
        """Where it records: the directory that was given, whose newest run is this one."""
        return self.options.directory

    @property
    def rank_directory(self) -> Path | None:
        """This process's directory in it."""
        return self._rank_directory

    @property
    def coverage(self) -> dict[str, Any]:
        """What was not seen so far, as coverage.json will hold it; empty when nothing is recorded at all."""
        return self._coverage.as_dict() if self._coverage is not None else {}

    @contextlib.contextmanager
    def step(self) -> Iterator[int | None]:
        """One pass: `with rec.step(): engine.step()`. Marked aborted when the block raises.

        With step `manual` only what happens inside such blocks is recorded; with `auto` this makes one pass of several
        outermost forwards.

        Yields
        ------
        int or None
            The number of the pass; None when this step is not recorded.
        """
        if self._closed:
            yield None
            return
        number = self.tracker.begin_step()
        try:
            yield None if number == SKIPPED else number
        except BaseException:
            self.tracker.end_step(number, aborted=True)
            raise
        self.tracker.end_step(number, aborted=False)

    def close(self) -> None:
        """Ends the recording. Closing twice is no error."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- the writer ----

    def _flush_writer(self) -> None:
        """What could not be written is counted; only `strict` raises it."""
        assert self._writer is not None
        error = self._writer.core.flush()
        if error is not None and self.options.core.strict:
            raise RuntimeError(error)

    def _writer_now(self) -> Writer:
        """This process's writer; a forked child makes its own when it first records something."""
        if self._writer is None:
            with self._making_writer:
                self._make_writer()
        writer = self._writer
        if writer is None:  # closed by another thread
            raise SessionClosed
        return writer

    def _make_writer(self) -> None:
        if self._writer is not None:
            return
        if self._closed:
            raise SessionClosed
        if self._cannot_write is not None:
            raise RuntimeError(self._cannot_write)
        try:
            writer = Writer.acquire(self)
        except OSError as error:
            raise_if_of_program(error)
            self._cannot_write = str(error)  # trying again in every call would cost, and say nothing new
            raise
        self._rank_directory = writer.rank_directory
        self.run_number = writer.core.run_number
        self._writer = writer
        self._writer_made(writer)

    def _writer_made(self, writer: Writer) -> None:
        """For the source: there is a writer now, in a forked child a new one."""

    def _say_what_was_left_out(self) -> None:
        """Steps were asked for of which none came."""
        tracker = self.tracker
        if tracker.left_out and tracker.left_out == tracker.count:
            self._warn(
                f"none of the program's steps was to be recorded: steps={self.options.steps}, and the program had "
                f"{tracker.count}, counted from 0",
                aloud=False,
            )

    def _release(self) -> None:
        writer, self._writer = self._writer, None
        coverage = self.coverage
        error, lines = None, []
        if writer is not None:
            error = writer.release(self)
            free_device_memory()
            totals = writer.core.report()
            lines = report_lines(writer.run_directory, totals, coverage, error, self.against_late_gradients)
            dropped = [cause.replace("_", " ") for cause, count in totals["drops"].items() if count]
            error = error or (f"not everything was recorded: {', '.join(dropped)}" if dropped else None)
        elif coverage["notes"]:  # nothing could be recorded, or nothing was selected
            lines = ["tensortap: nothing was recorded", *(f"  {note}" for note in coverage["notes"])]
        if lines and self.options.report and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # closed, or a pipe that nobody reads
                print("\n".join(lines), file=sys.stderr)
        if self.options.core.strict and error is not None:
            raise RuntimeError(error)

    def _after_fork(self) -> None:
        """In a forked child: the writer is the parent's."""
        self._writer = None
        self._making_writer = threading.RLock()
        self._rank_directory = None
        self.tracker.reset()
        if self._coverage is not None:
            self._coverage = type(self._coverage)()

    def _warn(self, note: str, *, aloud: bool = True) -> None:
        """A note of the coverage, once; also a warning."""
        if note in self._warned:
            return
        self._warned.add(note)
        assert self._coverage is not None
        self._coverage.notes.append(note)
        if aloud:
            warnings.warn(f"tensortap: {note}", stacklevel=5)
