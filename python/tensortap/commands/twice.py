"""What `ttap twice` does."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tensortap.commands.answering import FINDING, FINE, answered, parser, print_answer
from tensortap.commands.progress import Progress, teller
from tensortap.programs.recorded_program import run_recorded
from tensortap.repeating.report import SameBits
from tensortap.repeating.running import Repeats
from tensortap.replaying.batches.batch_invariance import batch_invariance
from tensortap.replaying.batches.report import BatchInvariance

_OF_BATCHES = ("--ops", "--level", "full", "--stacks")
_HEADINGS = ("differs:", "called otherwise:", "depends on the batch:")


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    of_twice = parser()
    of_twice.add_argument("--ttap", default=None)
    of_twice.add_argument("--times", type=int, default=2)
    of_twice.add_argument("--output", default=None)
    of_twice.add_argument("--steps", default=None)
    of_twice.add_argument("--ranks", default=None)
    of_twice.add_argument("--filter", action="append", default=[])
    of_twice.add_argument("--why", action="store_true")
    of_twice.add_argument("--batch-invariance", type=int, default=0)
    at = list(words).index("--")
    options = of_twice.parse_args(words[:at])
    return answered("twice", lambda: _run(options, list(words[at + 1 :])), options.imports)


def _run(options: argparse.Namespace, program: list[str]) -> int:
    given = [(name, getattr(options, name)) for name in ("steps", "ranks")]
    of_run = [f"--{name}={value}" for name, value in given if value is not None]
    of_run += [f"--filter={pattern}" for pattern in options.filter]
    found: SameBits | BatchInvariance
    with contextlib.ExitStack() as stack:
        folder = options.output or stack.enter_context(tempfile.TemporaryDirectory(prefix="ttap-twice-"))
        if options.batch_invariance:
            found = _of_batch(options, program, Path(folder), of_run)
        else:
            found = _repeated(options, program, Path(folder), of_run)
    found.kept = options.output is not None
    print_answer(found.to_json() if options.json else str(found), options.color, _HEADINGS)
    return FINE if found.ok else FINDING


def _repeated(options: argparse.Namespace, program: list[str], folder: Path, of_run: list[str]) -> SameBits:
    repeats = Repeats(program, folder, of_run, options.ttap, teller("twice"))
    found = repeats.until_other_bits(options.times)
    if options.why and not found.ok:
        repeats.why(found)
    return found


def _of_batch(options: argparse.Namespace, program: list[str], folder: Path, of_run: list[str]) -> BatchInvariance:
    teller("twice")("running it")
    ran = run_recorded(program, folder / "1", [*_OF_BATCHES, *of_run], ttap=options.ttap)
    with Progress("replaying") as progress:
        return batch_invariance(ran.path, options.batch_invariance, progress=progress.show)
