"""A program that is run and recorded from Python, as `ttap run` does."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensortap import _core
from tensortap.programs.installed_command import LAUNCH_FOLDER, find_command

_STDERR = 2  # the file, whatever sys.stderr is


class ProgramNotRecorded(Exception):
    """The program was not started, or recorded nothing.

    Attributes
    ----------
    what, hint
        What happened, and what to do about it.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what, self.hint = what, hint


@dataclass(frozen=True)
class RecordedProgram:
    """A program that ran once.

    Attributes
    ----------
    command
        The program and its arguments.
    path
        Where its recording lies.
    status
        Its exit code; of one that a signal killed, the signal's number, negative.
    """

    command: tuple[str, ...]
    path: Path
    status: int

    @property
    def ending(self) -> str:
        """How it ended, in words: `exit code 3`, `killed by signal 9`."""
        return _ending(self.status)


def run_recorded(
    command: Sequence[str],
    out: str | os.PathLike[str],
    options: Sequence[str] = (),
    *,
    ttap: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> RecordedProgram:
    """Run a program once with `ttap run OPTIONS -o OUT -- COMMAND`, and say where its recording lies.

    What the program prints goes to our stderr, so that stdout is left for what is found; its stdin is empty, since who
    runs a program several times cannot give it the same input again.

    Parameters
    ----------
    command
        The program and its arguments.
    out
        Where the recording goes. No run lies there yet.
    options
        Of `ttap run`: `["--ops", "--level", "fingerprint"]`.
    ttap
        The command; by default the one that belongs to this package.
    environment
        Variables besides ours.

    Raises
    ------
    ValueError
        When there is no program, or a run lies in `out`.
    ProgramNotRecorded
        When the program was not started, or recorded nothing.
    """
    if not command:
        raise ValueError("there is no program to run; name it after --")
    path = Path(out)
    if _holds_run(path):
        raise ValueError(f"a run lies in {path} already; name another folder")
    words = [str(_command(ttap)), "run", *options, "--quiet", "-o", str(path), "--", *command]
    status = _wait(words, {"TTAP_LAUNCH_DIR": str(LAUNCH_FOLDER), **os.environ, **(environment or {})})
    shown = shlex.join(command)
    if _holds_run(path):
        return RecordedProgram(tuple(command), path, status)
    if status in (126, 127):
        raise ProgramNotRecorded(f"cannot run {shown}", "check the name of the program and its interpreter")
    raise ProgramNotRecorded(
        f"nothing was recorded of {shown} ({_ending(status)})",
        "see that it runs by itself, calls PyTorch, and that ttap run records it: ttap doctor",
    )


def _command(given: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    found = given or find_command()
    if found is None:
        raise ProgramNotRecorded("the command ttap is not installed beside this package", "install tensortap again")
    return found


def _wait(words: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=_STDERR, env=environment)
    except OSError as error:
        raise ProgramNotRecorded(f"cannot run {words[0]}: {error.strerror}", "install tensortap again") from error
    try:
        return process.wait()
    except BaseException as error:
        if not (isinstance(error, KeyboardInterrupt) and _terminal_told_all()):
            process.terminate()  # which `ttap run` passes on
        _wait_for_end(process)
        raise


def _terminal_told_all() -> bool:
    """Whether Ctrl-C was typed at our terminal, which tells the program, too."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Until it has ended; whoever interrupts that does not want to wait for it."""
    try:
        process.wait()
    except BaseException:
        process.terminate()
        raise


def _holds_run(path: Path) -> bool:
    return path.is_dir() and bool(_core.runs_in(os.fspath(path)))


def _ending(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"killed by signal {-status}"
