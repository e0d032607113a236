"""What `ttap blame` does."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tensortap.commands.answering import FINDING, FINE, answered, parser, print_answer
from tensortap.commands.progress import Progress
from tensortap.replaying.blame.blaming import blame
from tensortap.replaying.sensitivity.shares import sensitivity


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    of_blame = parser()
    of_blame.add_argument("run")
    of_blame.add_argument("--pass", dest="passes", default="")
    of_blame.add_argument("--rank", dest="ranks", default="")
    of_blame.add_argument("--device", default="cpu")
    of_blame.add_argument("--top", type=int, default=10)
    of_blame.add_argument("--all", action="store_true")
    of_blame.add_argument("--sensitivity", action="store_true")
    of_blame.add_argument("--output", default="")
    options = of_blame.parse_args(words)
    return answered("blame", lambda: _sensitivity(options) if options.sensitivity else _blame(options), options.imports)


def _blame(options: argparse.Namespace) -> int:
    with Progress("replaying") as progress:
        found = blame(
            options.run,
            passes=options.passes,
            ranks=options.ranks,
            top=options.top,
            device=options.device,
            all=options.all,
            progress=progress.show,
        )
    if found.judged == 0:
        reasons = found.reasons.most_common(1)
        raise ValueError(f"no operator could be judged: {reasons[0][0] if reasons else 'none makes a number'}")
    print_answer(found.to_json() if options.json else str(found), options.color, ("blamed:",))
    return FINE if found.ok else FINDING


def _sensitivity(options: argparse.Namespace) -> int:
    with Progress("replaying") as progress:
        found = sensitivity(
            options.run,
            output=options.output,
            passes=options.passes,
            ranks=options.ranks,
            top=options.top,
            device=options.device,
            progress=progress.show,
        )
    print_answer(found.to_json() if options.json else str(found), options.color)
    return FINE
