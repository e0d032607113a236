"""What `ttap hunt` does; the command has checked its options."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tensortap.hunting.hunt import hunt
from tensortap.programs.recorded_program import ProgramNotRecorded
from tensortap.replaying.blame.command import answered, print_answer

_FINE, _FINDING = 0, 1
_AGAINST = "--against"


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    at = list(words).index("--")
    options = _parser().parse_args(words[:at])
    program, against = _programs(list(words[at + 1 :]))
    return answered("hunt", lambda: _run(options, program, against))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--ttap", default=None)
    parser.add_argument("--output", default=None)
    parser.add_argument("--suspects", type=int, default=3)
    parser.add_argument("--run-option", action="append", default=[])
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--color", default="auto")
    return parser


def _programs(words: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands before and behind the first `--against`; `--against --` is understood, too."""
    if _AGAINST not in words:
        return words, None
    at = words.index(_AGAINST)
    against = words[at + 1 :]
    return words[:at], against[1:] if against[:1] == ["--"] else against


def _run(options: argparse.Namespace, program: list[str], against: list[str] | None) -> int:
    if not program or against == []:
        raise ValueError("a program is missing: ttap hunt -- python good.py --against python bad.py")
    try:
        found = hunt(
            program,
            against,
            options.output or time.strftime("ttap-hunt-%Y%m%d-%H%M%S"),
            options=options.run_option,
            suspects=options.suspects,
            confirm=options.confirm,
            device=options.device,
            ttap=options.ttap,
            progress=_say,
        )
    except ProgramNotRecorded as error:
        raise ValueError(f"{error.what}; {error.hint}") from error
    print_answer(found.to_json() if options.json else str(found), options.color)
    return _FINE if found.same else _FINDING


def _say(what: str) -> None:
    """Only on a terminal, between what the programs print."""
    if sys.stderr.isatty():
        print(f"ttap hunt: {what}", file=sys.stderr, flush=True)
