"""What these commands have in common: their words, exit codes, errors, and how an answer is printed."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tensortap.programs.recorded_program import ProgramNotRecorded
from tensortap.session.loading import load_module, look_beside

FINE, FINDING, ERROR = 0, 1, 2
_BY_SIGNAL = 128
# Python would end at once, and leave programs that it runs and temporary folders behind.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def parser() -> argparse.ArgumentParser:
    """Of the words that the command hands over: those that every command has."""
    made = argparse.ArgumentParser(allow_abbrev=False)
    made.add_argument("command")
    made.add_argument("--json", action="store_true")
    made.add_argument("--color", default="auto")
    made.add_argument("--import", dest="imports", action="append", default=[])
    return made


def answered(command: str, run: Callable[[], int], imports: Sequence[str] = ()) -> int:
    """The exit code of a command: what `run` gives, or that of an error, which is printed."""
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:  # else it is ignored, as nohup does
            signal.signal(number, _end)
    if isinstance(sys.stdout, io.TextIOWrapper):  # as the command in C++ writes, whatever the locale and names of files
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        for name in imports:
            _import(name)
        return run()
    except KeyboardInterrupt:
        return _BY_SIGNAL + signal.SIGINT
    except ProgramNotRecorded as error:
        _fail(command, error.what, error.hint)
    except (OSError, ValueError, LookupError) as error:
        # A KeyError as text stands in quotes; a message of the library ends in what to do.
        what, _, hint = (str(error.args[0]) if len(error.args) == 1 else str(error)).partition("; ")
        _fail(command, what, hint or f"see ttap {command} --help")
    except Exception:  # a mistake of ours is no finding
        traceback.print_exc()
        _fail(command, "this is a bug in ttap", "please report it with the lines above")


def print_answer(answer: str | dict[str, Any], color: str, headings: tuple[str, ...] = ()) -> None:
    """A text, with the headings of its findings in color on a terminal; anything else as JSON."""
    text = _colored(answer, color, headings) if isinstance(answer, str) else json.dumps(answer, indent=1)
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `ttap blame RUN | head` ends quietly, and with the exit code of its answer
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _import(name: str) -> None:
    """A library that registers operators. Raises ValueError with the reason why it cannot be had."""
    look_beside(name)
    try:
        load_module(name)
    except Exception as error:  # the user's code may raise anything
        raise ValueError(f"--import {name}: {type(error).__name__}: {error}") from error


def _colored(text: str, color: str, headings: tuple[str, ...]) -> str:
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    if not (color == "always" or (color == "auto" and sys.stdout.isatty() and not plain)):
        return text
    lines = []
    for line in text.split("\n"):
        heading = next((each for each in headings if line.startswith(each)), "")
        lines.append(f"\x1b[31m{heading}\x1b[0m{line[len(heading) :]}" if heading else line)
    return "\n".join(lines)


def _end(number: int, frame: object) -> NoReturn:
    sys.exit(_BY_SIGNAL + number)


def _fail(command: str, what: str, hint: str) -> NoReturn:
    print(f"ttap {command}: error: {what}\n  what to do: {hint}", file=sys.stderr)
    sys.exit(ERROR)
