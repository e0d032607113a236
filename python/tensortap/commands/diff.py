"""What `ttap diff --replay` adds to the answer that the command gave."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tensortap.commands.answering import answered, parser, print_answer
from tensortap.replaying.calling import device_of
from tensortap.replaying.right.who_is_right import who_is_right_in


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code, which is that of the diff unless this fails."""
    of_diff = parser()
    of_diff.add_argument("report", help="where the diff's JSON is")
    of_diff.add_argument("--exit-code", type=int, required=True)
    of_diff.add_argument("--device", default="cpu")
    options = of_diff.parse_args(words)
    return answered("diff", lambda: _run(options), options.imports)


def _run(options: argparse.Namespace) -> int:
    document = json.loads(Path(options.report).read_text())
    found = who_is_right_in(document, 3, device_of(options.device))
    print_answer({**document, "replayed": found.to_json()} if options.json else f"\n{found}", options.color)
    return int(options.exit_code)
