"""How often `tap.blame` ranks a wrong kernel first, and how often it blames a sound model."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensortap as tap
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))
from architectures import ARCHITECTURES, Architecture, architecture
from table import aligned
from wrong_kernels import FAULTS, Fault, planted


@dataclass
class Outcome:
    """One model, recorded with a wrong kernel or a sound one."""

    architecture: str
    dtype: str
    fault: str  # empty: a sound model
    outcome: str  # first, found, missed; of a sound model quiet or alarm
    calls: int
    judged: int
    seconds: float  # of the blame
    says: str = ""


def recorded(
    of: Architecture, dtype: str, seed: int, fault: Fault | None, at: int | None
) -> tuple[tap.Trace, bool, int]:
    """A forward and a backward, whether the fault changed anything, and how often its kernel was called."""
    model, inputs = of.model(seed, dtype), of.sample(seed + 1, dtype)
    with planted(fault, at) as seen, tap.trace(model, level="full") as trace:
        made = model(**inputs)
        first = made.logits if hasattr(made, "logits") else made[0]
        first.float().square().mean().backward()
    return trace, seen.changed, seen.calls


def faulty(of: Architecture, dtype: str, seed: int, fault: Fault) -> Outcome | None:
    """None where the model does not call the kernel, or where it would have done the same."""
    _, _, calls = recorded(of, dtype, seed, fault, None)
    if not calls:
        return None
    at = calls // 2
    trace, changed, _ = recorded(of, dtype, seed, fault, at)
    if not changed:
        return None
    of_op = [i for i, event in enumerate(trace.events) if event.name.endswith(fault.recorded)]
    began = time.monotonic()
    blamed = tap.blame(trace)
    seconds = time.monotonic() - began
    places = [one.event for one in blamed.findings]
    if len(of_op) != calls:
        return None  # other operators call the kernel, too: which call it was is not known
    first = places[:1] == [of_op[at]]
    outcome = "first" if first else "found" if of_op[at] in places else "missed"
    says = "" if first else f"{blamed.first.place} {blamed.first.error.bounds:.3g}" if blamed.first else "nothing"
    return Outcome(of.name, dtype, fault.name, outcome, len(trace.events), blamed.judged, seconds, says)


def sound(of: Architecture, dtype: str, seed: int) -> Outcome:
    trace, _, _ = recorded(of, dtype, seed, None, None)
    began = time.monotonic()
    blamed = tap.blame(trace)
    seconds = time.monotonic() - began
    says = "; ".join(f"{one.place} {one.error.bounds:.3g} {one.setting}" for one in blamed.findings[:3])
    outcome = "alarm" if blamed.findings else "quiet"
    return Outcome(of.name, dtype, "", outcome, len(trace.events), blamed.judged, seconds, says)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", type=lambda text: text.split(","), default=[a.name for a in ARCHITECTURES])
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=["f32", "bf16"])
    parser.add_argument("--faults", default="", help="only those with this in their name")
    parser.add_argument("--only", choices=["faults", "sound"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def outcomes(options: argparse.Namespace) -> list[Outcome]:
    made: list[Outcome] = []
    for name in options.architectures:
        for dtype in options.dtypes:
            of = architecture(name)
            if options.only != "faults":
                made.append(sound(of, dtype, options.seed))
            for fault in FAULTS:
                if options.only == "sound" or options.faults not in fault.name or dtype not in fault.dtypes:
                    continue
                if (found := faulty(of, dtype, options.seed, fault)) is not None:
                    made.append(found)
            for each in made:
                if each.says and (each.architecture, each.dtype) == (name, dtype):
                    print(f"{each.outcome:7} {name} {dtype} {each.fault or 'sound'}: {each.says}", flush=True)
    return made


def table(made: list[Outcome]) -> list[dict[str, Any]]:
    rows = []
    for dtype in sorted({one.dtype for one in made}):
        of = [one for one in made if one.dtype == dtype]
        count = Counter(one.outcome for one in of)
        rows.append(
            {
                "dtype": dtype,
                "faults": count["first"] + count["found"] + count["missed"],
                "first": count["first"],
                "found": count["found"],
                "missed": count["missed"],
                "sound models": count["quiet"] + count["alarm"],
                "alarms": count["alarm"],
                "calls judged": sum(one.judged for one in of),
            }
        )
    return rows


def main() -> int:
    warnings.simplefilter("ignore")
    options = arguments()
    torch.set_num_threads(options.threads)
    made = outcomes(options)
    print(aligned(table(made)))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in made], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
