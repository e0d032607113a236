"""What `ttap replay` does."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tensortap.commands.answering import FINDING, FINE, answered, parser, print_answer
from tensortap.replaying.blame.one_call import replay_key
from tensortap.replaying.find_module import load_model
from tensortap.tensors.dtypes import TORCH_DTYPES


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    of_replay = parser()
    of_replay.add_argument("run")
    of_replay.add_argument("key")
    of_replay.add_argument("--pass", dest="passes", default="")
    of_replay.add_argument("--rank", dest="ranks", default="")
    of_replay.add_argument("--device", default="cpu")
    of_replay.add_argument("--dtype", default="")
    of_replay.add_argument("--model", default="")
    options = of_replay.parse_args(words)
    return answered("replay", lambda: _replay(options), options.imports)


def _replay(options: argparse.Namespace) -> int:
    precision = TORCH_DTYPES[options.dtype] if options.dtype else None
    model = load_model(options.model) if options.model else None
    found = replay_key(options.run, options.key, options.passes, options.ranks, options.device, precision, model)
    print_answer(found.to_json() if options.json else str(found), options.color)
    return FINE if found.ok else FINDING
