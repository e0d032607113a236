"""What `ttap blame --sensitivity` does; the command has checked its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tensortap.replaying.blame.command import Progress, answered, print_answer
from tensortap.replaying.sensitivity.shares import sensitivity


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("run")
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--output", default="")
    parser.add_argument("--pass", dest="passes", default="")
    parser.add_argument("--rank", dest="ranks", default="")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--color", default="auto")
    options = parser.parse_args(words)
    return answered("blame", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    progress = Progress("replaying")
    found = sensitivity(
        options.run,
        output=options.output,
        passes=options.passes,
        ranks=options.ranks,
        top=options.top,
        device=options.device,
        progress=progress.show,
    )
    progress.wipe()
    print_answer(found.to_json() if options.json else str(found), options.color)
    return 0
