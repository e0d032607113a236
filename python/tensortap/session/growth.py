"""A word in time: how fast a recording grows."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

from tensortap import _core
from tensortap.session.coverage import bytes_text

MUCH = 100 << 20  # bytes of a pass from which on it is said
_PASSES = 1000  # for which the estimate is


class Growth:
    """Says once, on stderr, that the passes of a recording are large; when there is more than one."""

    def __init__(self, *, aloud: bool) -> None:
        self._waits = aloud
        self._ended = 0

    def look(self, recorder: _core.Recorder, run: Path) -> None:
        """A pass of the run has ended."""
        if not self._waits:
            return
        self._ended += 1
        # The writer is behind: the size of the first pass is known some time after its end.
        if self._ended < 2 or (first := recorder.report()["first_pass_bytes"]) == 0:
            return
        self._waits = False
        if first < MUCH:
            return
        with contextlib.suppress(OSError, ValueError):  # a closed stderr, or a disk that is gone
            free = shutil.disk_usage(run).free
            print(
                f"tensortap: the recording grows by {bytes_text(first)} a pass, {bytes_text(first * _PASSES)} in "
                f"{_PASSES:,} passes; {bytes_text(free)} are free in {run}: keep less with "
                "level='sketch', steps or filter, or set a quota (ttap run: --level, --steps, --filter, --quota)",
                file=sys.stderr,
                flush=True,
            )
