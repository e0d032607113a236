"""What `ttap twice` does; the command has checked its options."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tensortap.programs.recorded_program import ProgramNotRecorded, run_recorded
from tensortap.reading import FormatError
from tensortap.repeating.report import SameBits
from tensortap.repeating.running import Repeats
from tensortap.replaying.batches.batch_invariance import batch_invariance
from tensortap.replaying.batches.report import BatchInvariance
from tensortap.replaying.blame.command import Progress

_FINE, _FINDING, _ERROR, _INTERRUPTED = 0, 1, 2, 130
_OF_BATCHES = ("--ops", "--level", "full", "--stacks")


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    options = _options(words)
    try:
        if options.output is not None:
            return _answer(options, Path(options.output))
        with tempfile.TemporaryDirectory(prefix="ttap-twice-") as folder:
            return _answer(options, Path(folder))
    except BrokenPipeError:  # `ttap twice -- … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FINE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except ProgramNotRecorded as error:
        _fail(error.what, error.hint)
    except (ValueError, LookupError, OSError, FormatError) as error:
        _fail(str(error.args[0]) if len(error.args) == 1 else str(error), "see ttap twice --help")


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--ttap", default=None)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--output", default=None)
    parser.add_argument("--steps", default=None)
    parser.add_argument("--ranks", default=None)
    parser.add_argument("--filter", action="append", default=[])
    parser.add_argument("--why", action="store_true")
    parser.add_argument("--batch-invariance", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--color", default="auto")
    at = list(words).index("--")
    options = parser.parse_args(words[:at])
    options.program = list(words[at + 1 :])
    return options


def _answer(options: argparse.Namespace, folder: Path) -> int:
    given = [(name, getattr(options, name)) for name in ("steps", "ranks")]
    of_run = [f"--{name}={value}" for name, value in given if value is not None]
    of_run += [f"--filter={pattern}" for pattern in options.filter]
    if options.batch_invariance:
        return _batch_invariance(options, folder, of_run)
    repeats = Repeats(options.program, folder, of_run, options.ttap, _say)
    found = repeats.until_other_bits(options.times)
    found.kept = options.output is not None
    if options.why and not found.ok:
        repeats.why(found)
    _print(found, options)
    sys.stdout.flush()
    return _FINE if found.ok else _FINDING


def _batch_invariance(options: argparse.Namespace, folder: Path, of_run: list[str]) -> int:
    ran = run_recorded(options.program, folder / "1", [*_OF_BATCHES, *of_run], ttap=options.ttap)
    progress = Progress("replaying")
    found = batch_invariance(ran.path, options.batch_invariance, progress=progress.show)
    progress.wipe()
    found.kept = options.output is not None
    _print(found, options)
    sys.stdout.flush()
    return _FINE if found.ok else _FINDING


def _say(what: str) -> None:
    """Only on a terminal, between what the program prints."""
    if sys.stderr.isatty():
        print(f"ttap twice: {what}", file=sys.stderr, flush=True)


def _print(found: SameBits | BatchInvariance, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(found.to_json(), indent=1))
        return
    text = str(found)
    wanted = options.color == "always"
    wanted = wanted or (options.color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    if wanted:
        for word in ("differs:", "called otherwise:", "depends on the batch:"):
            text = "\n".join(
                f"\x1b[31m{word}\x1b[0m{line[len(word) :]}" if line.startswith(word) else line
                for line in text.split("\n")
            )
    print(text)


def _fail(what: str, hint: str) -> NoReturn:
    print(f"ttap twice: error: {what}\n  what to do: {hint}", file=sys.stderr)
    sys.exit(_ERROR)
