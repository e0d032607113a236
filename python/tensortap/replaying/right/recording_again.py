"""How to record what a replay needs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tensortap.reading import Rank

_OF_OPERATORS = 'ops=True, level="full"'


def how_to_record(rank: Rank, number: int) -> str:
    """The command that records this pass of this rank with operators and bytes; where none is known, the call."""
    about = rank.metadata
    program = about.get("program")
    if isinstance(program, dict) and program.get("source") == "ops":
        return 'in the program: tap.trace(level="full")'
    command = about.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return f"in the program: tap.record(…, {_OF_OPERATORS})"
    words = ["ttap", "run", "--ops", "--level", "full", "--stacks", "--steps", str(number)]
    launch = about.get("launch")
    if isinstance(launch, dict) and isinstance(launch.get("ranks"), int) and launch["ranks"] > 1:
        words += ["--ranks", str(rank.number)]
    return shlex.join([*words, "-o", f"{_run_of(rank.path)}-full", "--", *command])


def _run_of(rank: Path) -> str:
    """The run's directory, as seen from here."""
    run = os.path.relpath(rank.parent)
    return str(rank.parent) if run.startswith("..") else run
