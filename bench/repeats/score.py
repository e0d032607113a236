"""How often `ttap twice` names where a program begins to differ, and what it says of programs that do not.

python bench/repeats/score.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import differing
    import repeating

FOLDER = Path(__file__).parent


def answer(file: str, name: str, state: Path) -> dict[str, Any]:
    """What the command says of a program; `state` is how the second run knows that it is the second."""
    command = ["ttap", "twice", "--json", "--", sys.executable, str(FOLDER / file), name]
    environment = {**os.environ, "REPEATS_STATE": str(state), "PYTHONHASHSEED": "random"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{name}: {ran.stderr}")
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def is_right(program: differing.Program, first: dict[str, Any] | None) -> bool:
    return first is not None and first["op"] == program.op and first["kind"] in program.kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs in whose name this is found")
    options = parser.parse_args()
    named, tried, alarms, sound, kinds = 0, 0, 0, 0, set()
    with tempfile.TemporaryDirectory(prefix="ttap-repeats-") as scratch:
        for program in differing.PROGRAMS:
            if options.only not in program.name or (program.needs == "gpu" and not torch.cuda.is_available()):
                continue
            first = answer("differing.py", program.name, Path(scratch, program.name))["first"]
            right = is_right(program, first)
            tried, named, kinds = tried + 1, named + right, kinds | set(program.kinds)
            says = "nothing" if first is None else f"{first['kind']}: {first['op']}"
            print(f"{'named' if right else 'WRONG':6} {program.name:36} {says}", flush=True)
        for name in repeating.PROGRAMS:
            if options.only not in name:
                continue
            found = answer("repeating.py", name, Path(scratch, name))
            sound, alarms = sound + 1, alarms + (not found["ok"])
            print(f"{'same' if found['ok'] else 'ALARM':6} {name:36}", flush=True)
    print(
        f"{named} of {tried} that differ are named, of {len(kinds)} kinds; "
        f"{alarms} of {sound} that repeat are called different"
    )
    return 0 if named == tried and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
