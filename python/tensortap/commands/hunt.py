"""What `ttap hunt` does."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from tensortap.commands.answering import FINDING, FINE, answered, parser, print_answer
from tensortap.commands.progress import teller
from tensortap.hunting.hunt import hunt

_AGAINST = "--against"


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    of_hunt = parser()
    of_hunt.add_argument("--ttap", default=None)
    of_hunt.add_argument("--output", default=None)
    of_hunt.add_argument("--suspects", type=int, default=3)
    of_hunt.add_argument("--run-option", action="append", default=[])
    of_hunt.add_argument("--confirm", action="store_true")
    of_hunt.add_argument("--device", default="cpu")
    at = list(words).index("--")
    options = of_hunt.parse_args(words[:at])
    program, against = _programs(list(words[at + 1 :]))
    return answered("hunt", lambda: _run(options, program, against), options.imports)


def _programs(words: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands before and behind the first `--against`; `--against --` is understood, too."""
    if _AGAINST not in words:
        return words, None
    at = words.index(_AGAINST)
    against = words[at + 1 :]
    return words[:at], against[1:] if against[:1] == ["--"] else against


def _run(options: argparse.Namespace, program: list[str], against: list[str] | None) -> int:
    if not program or against == []:
        raise ValueError("a program is missing; write ttap hunt -- python good.py --against python bad.py")
    found = hunt(
        program,
        against,
        options.output or time.strftime("ttap-hunt-%Y%m%d-%H%M%S"),
        options=options.run_option,
        suspects=options.suspects,
        confirm=options.confirm,
        device=options.device,
        ttap=options.ttap,
        progress=teller("hunt"),
    )
    print_answer(found.to_json() if options.json else str(found), options.color, ("hunted:",))
    return FINE if found.same else FINDING
