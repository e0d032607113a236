"""How often `ttap hunt` names the operator that makes one program differ from another, and what its second run keeps.

python bench/hunt/score.py                 23 faults and 3 sound pairs, a line for each, and the totals
python bench/hunt/score.py --only rope --keep DIR
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensortap as tap

PROGRAM = Path(__file__).parent / "program.py"
# Of a layer of the port too, whose name is h.5.
_LAYER = r"(layers|h)\.5"


@dataclass(frozen=True)
class Case:
    """A pair of programs: what B is called with, which call is at fault, and which verdicts are right."""

    kind: str
    name: str
    b: tuple[str, ...]
    culprit: str  # found in the name of the call of B
    verdicts: tuple[str, ...]
    a: tuple[str, ...] = ()


def _kernel(name: str, at: int, culprit: str, *more: str) -> Case:
    return Case("backend", name, ("--kernel", name, "--at", str(at), *more), culprit, ("b is wrong",), more)


def _edit(name: str, culprit: str) -> Case:
    return Case("commit", name, ("--edit", name), f"{_LAYER}.*{culprit}", ("other arguments",))


def _port(name: str, culprit: str) -> Case:
    return Case("port", name, ("--port", name), f"{_LAYER}.*{culprit}", ("other arguments",))


_SDPA = "_scaled_dot_product_flash_attention_for_cpu"
CASES = [
    _kernel("narrow sums in addmm", 38, "aten::addmm"),
    _kernel("last columns of addmm off", 40, "aten::addmm"),
    _kernel("TF32 in addmm", 39, "aten::addmm"),
    _kernel("other epsilon", 10, "native_layer_norm"),
    _kernel("attention, other scale", 5, _SDPA),
    _kernel("attention, last token unseen", 5, _SDPA),
    _kernel("attention, last features off", 5, _SDPA),
    _kernel("embedding, last features off", 1, "embedding"),
    _kernel("backward: layer norm without mean", 20, "native_layer_norm_backward", "--train"),
    Case("backend", "a gelu becomes silu", ("--backend",), "silu", ("other arguments",)),
    _edit("eps", "native_layer_norm"),
    _edit("scale", "scaled_dot_product"),
    _edit("mask", "scaled_dot_product"),
    _edit("act", "silu"),
    _edit("gelu", "gelu"),
    _edit("residual", "aten::mul"),
    Case("commit", "half", ("--edit", "half"), f"{_LAYER}.*_to_copy", ("only in b",)),
    _port("eps", "layer_norm"),
    _port("scale", "scaled_dot_product"),
    _port("act", "silu"),
    _port("gelu", "gelu"),
    Case("port", "rope", ("--port", "rope"), f"{_LAYER}.*aten::pow", ("other arguments", "only in b")),
    _port("weights", "addmm"),
]
SOUND = [("the same program", ()), ("the port", ("--port", "")), ("with gradients", ("--train",))]


@dataclass
class Result:
    kind: str
    name: str
    named: str
    verdict: str
    right: bool
    shown: bool  # its script, run alone, shows the error
    share: float  # of the bytes of a full recording that the second run keeps


def hunted(case: Case, folder: Path) -> Result:
    program = [sys.executable, str(PROGRAM)]
    found = tap.hunt([*program, *case.a], [*program, *case.b], folder)
    first = found.first
    if first is None:
        return Result(case.kind, case.name, found.sentence, "", False, False, 0.0)
    named = first.places[1].call if first.places[1] is not None else ""
    right = re.search(case.culprit, named) is not None and first.verdict in case.verdicts
    shown = bool(first.script) and subprocess.run([sys.executable, first.script], capture_output=True).returncode == 1
    full = folder / "full"
    subprocess.run(
        ["ttap", "run", "--ops", "--level", "full", "--quiet", "-o", str(full), "--", *program, *case.b], check=True
    )
    share = size_of(folder / "b.suspects") / size_of(full)
    return Result(case.kind, case.name, first.key, first.verdict, right, shown, share)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def sound(b: Sequence[str], folder: Path) -> str:
    """What a hunt says of two programs that compute the same; empty where it blames nothing."""
    a = ["--train"] if "--train" in b else []
    program = [sys.executable, str(PROGRAM)]
    found = tap.hunt([*program, *a], [*program, *b], folder)
    return "" if found.same or found.first is None else found.sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="faults in whose kind and name this is found")
    parser.add_argument("--keep", type=Path, help="a folder for the recordings, which stay")
    parser.add_argument("--json", type=Path, help="a file for every result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ttap-hunts-") as scratch:
        folder = options.keep or Path(scratch)
        results = []
        for number, case in enumerate(CASES):
            if options.only not in f"{case.kind} {case.name}":
                continue
            one = hunted(case, folder / f"{number}")
            results.append(one)
            good = "right" if one.right else "WRONG"
            shown = "shown" if one.shown else "not shown"
            print(
                f"{one.kind:8} {one.name:36} {good} {shown:9} {one.share:6.2%}  {one.verdict}: {one.named}", flush=True
            )
        alarms = []
        for name, words in SOUND:
            if options.only not in f"sound {name}":
                continue
            says = sound(words, folder / f"sound {name}")
            alarms += [says] if says else []
            print(f"sound    {name:36} {says or 'quiet'}", flush=True)
    if results:
        right, shown = sum(one.right for one in results), sum(one.shown for one in results)
        most = max(one.share for one in results)
        print(f"{right} of {len(results)} right, {shown} shown by their script, at most {most:.2%} of the bytes kept")
    print(f"{len(alarms)} alarms in sound pairs")
    if options.json is not None:
        options.json.write_text(json.dumps([vars(one) for one in results], indent=1))


main()
