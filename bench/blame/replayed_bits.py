"""How many recorded calls of operators give the recorded bits again, and why the others are not made again."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tensortap as tap
import torch
from score import recorded
from table import aligned

sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))
from architectures import ARCHITECTURES, Architecture, architecture


@dataclass
class Replays:
    """The calls of one model, forward and backward."""

    architecture: str
    dtype: str
    calls: int = 0
    same: int = 0
    other: Counter[str] = field(default_factory=Counter)  # by operator: made again, with other bits
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    nothing: int = 0  # made again, and there was no tensor to compare

    @property
    def share(self) -> float:
        """Of the calls that were made again and compared, those with the recorded bits."""
        compared = self.same + self.other.total()
        return self.same / compared if compared else 1.0


def replays(of: Architecture, dtype: str, seed: int, device: str) -> Replays:
    trace, _, _ = recorded(of, dtype, seed, None, None)
    found = Replays(of.name, dtype)
    for event in trace.events:
        if event.kind != "op":
            continue
        found.calls += 1
        again = tap.replay(event, device=device)
        if isinstance(again, tap.NotReplayable):
            found.refused[f"{again.op}: {again.reason}"] += 1
        elif again.same_bits is None:
            found.nothing += 1
        elif again.same_bits:
            found.same += 1
        else:
            found.other[again.op] += 1
    return found


def main() -> int:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", type=lambda text: text.split(","), default=[a.name for a in ARCHITECTURES])
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=["f32", "bf16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    made = []
    for name in options.architectures:
        for dtype in options.dtypes:
            one = replays(architecture(name), dtype, options.seed, options.device)
            made.append(one)
            for what, count in [*one.other.items(), *one.refused.items()]:
                print(f"{name} {dtype}: {count} x {what}", flush=True)
    rows = [
        {
            "model": f"{one.architecture} {one.dtype}",
            "calls": one.calls,
            "same bits": one.same,
            "other bits": one.other.total(),
            "share": f"{one.share:.2%}",
            "not made again": one.refused.total(),
            "no tensor": one.nothing,
        }
        for one in made
    ]
    print(aligned(rows))
    same, other = sum(one.same for one in made), sum(one.other.total() for one in made)
    print(f"{same} of {same + other} calls give the recorded bits ({same / max(1, same + other):.2%})")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in made], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
