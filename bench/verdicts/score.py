"""How often is the right operator named? Plants faults into models, records, compares, and counts.

Each pair is a model and a copy of it with one fault (faults.py), both given the same inputs. The answer is held against
the module that the fault is in:

    exact     the runs differ, and that module is named; "exact, unsure" counts those that are inconclusive
    parent    the runs differ, and its parent, its child or its neighbour is named
    wrong     the runs differ, and something else is named
    pointed   the runs are called the same; where the bits part first is named, and right
    missed    the runs are called the same
    refused   the tool will not compare them

Pairs in which the fault changes no bit of what its module returns are left out.

Sound pairs (sound.py) run one model in two ways that are both right. They count as

    same      identical, or within tolerance
    unsure    inconclusive
    alarm     diverged
    refused   the tool will not compare them
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import torch
from architectures import ARCHITECTURES
from faults import FAULTS
from pairs import Outcome, Task, tool_named, work
from precision import sides
from sound import VARIATIONS
from table import aligned, lost_by_full, tables, told_otherwise


def list_of(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def some_of(known: list[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        unknown = [name for name in list_of(text) if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: known are {', '.join(known)}")
        return list_of(text)

    return names


def dtypes_of(text: str) -> list[str]:
    try:
        for dtype in list_of(text):
            sides(dtype)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return list_of(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tools",
        type=list_of,
        default=["tensortap", "debugmode", "msprobe"],
        help="of tensortap, debugmode, msprobe, strict (tensortap without guesses) and FILE.py:CLASS; default: the "
        "first three",
    )
    parser.add_argument("--msprobe", metavar="PYTHON", help="an interpreter that has mindstudio-probe")
    parser.add_argument("--repeat", type=int, default=1, help="how many times every fault is planted, with other seeds")
    parser.add_argument("--seed", type=int, default=0)
    architectures = [each.name for each in ARCHITECTURES]
    parser.add_argument("--architectures", type=some_of(architectures), default=architectures)
    parser.add_argument(
        "--dtypes",
        type=dtypes_of,
        default=["f32", "bf16"],
        help="of both sides, or of A and B: f32,bf16,f16,fp8,f32/bf16,bf16/fp8; fp8 is bf16 with weights in fp8",
    )
    parser.add_argument("--surfaces", type=list_of, default=[], help="modules, ops; default: all that a tool has")
    parser.add_argument(
        "--levels", type=list_of, default=[], help="full, sketch, fingerprint; default: all that a tool has"
    )
    pairs = [each.name for each in (*FAULTS, *VARIATIONS)]
    parser.add_argument(
        "--pairs", type=some_of(pairs), default=[], help="names of faults and of ways to run; default: all"
    )
    parser.add_argument(
        "--only",
        choices=["faults", "sound", "inductor"],
        help="default: faults and sound pairs, without those that inductor compiles",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--processes", type=int, default=0, help="default: one per core")
    parser.add_argument("--json", type=Path, help="where the tables and every outcome are written to")
    parser.add_argument("--show", action="store_true", help="print every answer that is not exact")
    parser.set_defaults(not_run={})
    parser.add_argument("--task", help=argparse.SUPPRESS)  # how an interpreter of its own is told what to do
    return parser.parse_args()


def why_not(tool: str, python: str | None) -> str | None:
    """Why a tool cannot be run."""
    if tool != "msprobe":
        return None
    if not python:
        return "no interpreter that has it (--msprobe PYTHON)"
    try:
        done = subprocess.run(
            [python, "-c", "import torch, transformers, msprobe.pytorch"], capture_output=True, text=True
        )
    except OSError as error:
        return str(error)
    return (done.stderr.splitlines() or ["it does not start"])[-1] if done.returncode else None


def tasks(options: argparse.Namespace) -> list[Task]:
    kinds = {
        "faults": [each.name for each in FAULTS],
        "sound": [each.name for each in VARIATIONS if not each.compiled],
        "inductor": [each.name for each in VARIATIONS if each.compiled],
    }
    chosen = [options.only] if options.only else ["faults", "sound"]
    return [
        Task(name, dtype, tool, group, kind, wanted, options.seed + repetition, options.device, python)
        for repetition in range(options.repeat)
        for tool in options.tools
        if tool not in options.not_run
        for python in [options.msprobe if tool == "msprobe" else ""]
        for group in settings_of(tool, options)
        for kind in chosen
        if (wanted := tuple(pair for pair in kinds[kind] if pair in (options.pairs or [pair])))
        for dtype in options.dtypes
        if kind == "faults" or "/" not in dtype
        for name in options.architectures
    ]


def settings_of(tool: str, options: argparse.Namespace) -> list[tuple[tuple[str, str], ...]]:
    """The settings of a tool that are asked for, in groups that one process can do."""
    chosen = tuple(
        (surface, level)
        for surface, level in tool_named(tool).settings
        if surface in (options.surfaces or [surface]) and level in (options.levels or [level])
    )
    # There can be one PrecisionDebugger in a process.
    return [(each,) for each in chosen] if tool == "msprobe" else [chosen] if chosen else []


def work_anywhere(task: Task) -> list[Outcome]:
    """In this interpreter, or in that of the tool."""
    if not task.python:
        return work(task)
    with tempfile.TemporaryDirectory(prefix="ttap-verdicts-") as folder:
        made = Path(folder) / "outcomes.json"
        command = [task.python, __file__, "--task", json.dumps({**asdict(task), "python": ""}), "--json", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{task.tool}: {done.stderr[-2000:]}")
        return [Outcome(**each) for each in json.loads(made.read_text())["outcomes"]]


def shown(outcome: Outcome) -> str:
    where = f" in {outcome.module}" if outcome.module else ""
    setting = f"{outcome.architecture} {outcome.dtype} {outcome.tool} {outcome.surface} {outcome.level}"
    return f"{outcome.outcome:8} {setting}, seed {outcome.seed}: {outcome.pair}{where}\n         {outcome.sentence}"


def outcomes_of(todo: list[Task], options: argparse.Namespace) -> list[Outcome]:
    outcomes: list[Outcome] = []
    on_terminal = sys.stderr.isatty()
    with contextlib.ExitStack() as stack:
        processes = options.processes or os.cpu_count() or 1
        pool = stack.enter_context(get_context("spawn").Pool(processes)) if processes > 1 else None
        results = pool.imap_unordered(work_anywhere, todo) if pool else map(work_anywhere, todo)
        for number, done in enumerate(results, 1):
            outcomes += done
            if options.show:
                for each in done:
                    if each.outcome not in ("exact", "same"):
                        print(shown(each), flush=True)
            if on_terminal:
                print(f"\r{number} of {len(todo)} parts, {len(outcomes)} pairs", end="", file=sys.stderr)
    if on_terminal:
        print(file=sys.stderr)
    return outcomes


def main() -> int:
    options = arguments()
    if options.task:
        given = json.loads(options.task)
        given.update(names=tuple(given["names"]), settings=tuple(tuple(each) for each in given["settings"]))
        outcomes = work(Task(**given))
    else:
        reasons = {tool: why_not(tool, options.msprobe) for tool in options.tools}
        options.not_run = {tool: why for tool, why in reasons.items() if why is not None}
        outcomes = outcomes_of(tasks(options), options)
    made = tables(outcomes)
    for rows in made.values():
        print(aligned(rows), end="\n\n")
    for tool, why in options.not_run.items():
        print(f"{tool}: not run: {why}")
    otherwise = told_otherwise(outcomes)
    if otherwise:
        print(f"told otherwise by strict: {len(otherwise)}", *otherwise, sep="\n")
    lost = lost_by_full(outcomes)
    if lost:
        print(f"named without the values and not with full: {len(lost)}", *lost, sep="\n")
    if options.json:
        found = {
            "torch": torch.__version__,
            "seed": options.seed,
            "repeat": options.repeat,
            "device": options.device,
            "not_run": options.not_run,
            "tables": made,
            "lost_by_full": lost,
            "outcomes": [asdict(each) for each in outcomes],
        }
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
