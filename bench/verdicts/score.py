"""How often is the right operator named? Plants faults into models, records, compares, and counts.

    python bench/verdicts/score.py [--repeat 1] [--seed 0] [--architectures llama,vit] [--dtypes f32,bf16]
        [--surfaces modules,ops] [--levels full,fingerprint] [--only faults|sound] [--json FILE] [--show]

Each pair is a model and a copy of it with one fault (faults.py), both given the same inputs. The answer is held against
the module that the fault is in:

    exact     the runs differ, and that module is named
    parent    the runs differ, and its parent, its child or its neighbour is named
    wrong     the runs differ, and something else is named
    pointed   the runs are called the same; where the bits part first is named, and right
    missed    the runs are called the same

Pairs in which the fault changes no bit of what its module returns are left out.

Sound pairs (sound.py) run one model in two ways that are both right. They count as

    same      identical, or within tolerance
    unsure    inconclusive
    alarm     diverged
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import shutil
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from architectures import ARCHITECTURES, Architecture, Inputs, architecture, cast
from faults import FAULTS, Fault, plant
from sound import VARIATIONS, Prepared, Variation, plainly
from torch import nn

# Of A and of B.
DTYPES = {
    "f32": (torch.float32, torch.float32),
    "bf16": (torch.bfloat16, torch.bfloat16),
    "f16": (torch.float16, torch.float16),
    "f32/bf16": (torch.float32, torch.bfloat16),
}
OF_FAULTS = ["exact", "parent", "wrong", "pointed", "missed"]
OF_SOUND = ["same", "unsure", "alarm"]


@dataclass
class Outcome:
    """What came of one pair."""

    architecture: str
    dtype: str
    surface: str
    level: str
    pair: str  # the fault, or the other way to run it
    module: str  # that the fault is in
    outcome: str
    named: str
    sentence: str
    seconds: float


# ---- what a model did ----


def first_floats(value: Any) -> torch.Tensor | None:
    """The first tensor of floats in what a module returned."""
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() else None
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    for part in parts:
        found = first_floats(part)
        if found is not None:
            return found
    return None


def returned(model: nn.Module, inputs: Inputs, wanted: set[str] | None = None) -> dict[str, torch.Tensor]:
    """What every module returned first, by name."""
    seen: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            found = first_floats(output)
            if found is not None and name not in seen:
                seen[name] = found.detach().clone()

        return hook

    handles = [
        module.register_forward_hook(keep(name))
        for name, module in model.named_modules()
        if name and (wanted is None or name in wanted)
    ]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    return seen


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def candidates_of(model: nn.Module, inputs: Inputs, rng: random.Random) -> list[str]:
    """Modules in which a fault can be planted: mostly those without children."""
    modules = dict(model.named_modules())
    seen = [name for name, value in returned(model, inputs).items() if value.ndim > 1 and value.numel() >= 32]
    leaves = [name for name in seen if not any(modules[name].children())]
    others = [name for name in seen if any(modules[name].children())]
    return leaves if rng.random() < 0.75 and leaves else others or leaves


# ---- the tool ----


def record(model: nn.Module, inputs: Inputs, directory: Path, surface: str, level: str) -> None:
    import tensortap as tap

    with (
        tap.record(
            model,
            directory,
            roles=["in", "out"],
            modules="all",
            level=level,
            ops=surface == "ops",
            report=False,
        ),
        torch.no_grad(),
    ):
        model(**inputs)


def module_of(tensor: dict[str, Any]) -> str:
    """The module that an answer blames: the one around an operator, or around the code that made an input."""
    if tensor.get("event_kind") not in ("module", None):
        return tensor.get("parent") or ""
    name: str = tensor["name"]
    return name.rpartition(".")[0] if tensor["role"] != "out" else name


def ask(a: Path, b: Path, **options: Any) -> tuple[bool, str, str, dict[str, Any]]:
    """Whether the runs are the same, the module named, the sentence, and everything."""
    import tensortap as tap

    diff = tap.diff(a, b, threads=1, **options)
    found = diff.to_json()
    place = found["first"] if not diff.same else found["first_unequal"]
    named = "" if place is None else module_of(found["passes"][place["pass"]]["tensors"][place["tensor"]])
    return diff.same, named, diff.sentence, found


def judge(same: bool, named: str, module: str) -> str:
    if same:
        return "pointed" if named == module else "missed"
    if named == module:
        return "exact"
    parent = module.rpartition(".")[0]
    near = named == parent or named.rpartition(".")[0] in (module, parent)
    return "parent" if near else "wrong"


# ---- pairs ----


@dataclass(frozen=True)
class Task:
    """Some of the pairs of one architecture, dtype, surface and level."""

    architecture: str
    dtype: str
    surface: str
    level: str
    sound: bool
    names: tuple[str, ...]  # of faults or variations
    seed: int
    show: bool


def work(task: Task) -> list[Outcome]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    scratch = Path(tempfile.mkdtemp(prefix="ttap-verdicts-"))
    try:
        return sound_pairs(task, scratch) if task.sound else faulty_pairs(task, scratch)
    finally:
        shutil.rmtree(scratch)


def faulty_pairs(task: Task, scratch: Path) -> list[Outcome]:
    of: Architecture = architecture(task.architecture)
    dtype, _ = DTYPES[task.dtype]
    outcomes: list[Outcome] = []
    # The same for every surface and level: their columns are then about the same faults.
    rng = random.Random(f"{task.seed} {task.architecture} {task.dtype} {task.names}")
    model, inputs = of.model(task.seed, dtype), of.sample(task.seed + 1, dtype=dtype)
    record(model, inputs, scratch / "a", task.surface, task.level)
    by_name = {fault.name: fault for fault in FAULTS}
    for name in task.names:
        outcome = one_fault(task, by_name[name], model, inputs, scratch, rng)
        if outcome is not None:
            outcomes.append(outcome)
    return outcomes


def one_fault(
    task: Task, fault: Fault, model: nn.Module, inputs: Inputs, scratch: Path, rng: random.Random
) -> Outcome | None:
    modules = dict(model.named_modules())
    candidates = candidates_of(model, inputs, rng)
    if not any(fault.suits(name, modules[name]) for name in candidates):
        candidates = list(returned(model, inputs))
    planted = plant(fault, model, candidates, rng)
    if planted is None:
        return None
    torch.manual_seed(task.seed)
    good = returned(model, inputs, {planted.module})
    torch.manual_seed(task.seed)
    bad = returned(planted.model, inputs, {planted.module})
    if planted.module not in good or same_bits(good[planted.module], bad[planted.module]):
        return None
    _, dtype = DTYPES[task.dtype]
    inputs = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    start = time.perf_counter()
    torch.manual_seed(task.seed)
    record(cast(planted.model, dtype), inputs, scratch / "b", task.surface, task.level)
    same, named, sentence, _ = ask(scratch / "a", scratch / "b")
    seconds = time.perf_counter() - start
    shutil.rmtree(scratch / "b")
    return outcome_of(task, fault.name, planted.module, judge(same, named, planted.module), named, sentence, seconds)


def sound_pairs(task: Task, scratch: Path) -> list[Outcome]:
    of: Architecture = architecture(task.architecture)
    dtype, _ = DTYPES[task.dtype]

    def run(prepared: Prepared, name: str) -> None:
        with prepared.context():
            record(prepared.model, prepared.inputs, scratch / name, task.surface, task.level)

    run(plainly(of, task.seed, dtype), "a")
    outcomes = []
    by_name: dict[str, Variation] = {each.name: each for each in VARIATIONS}
    for name in task.names:
        prepared = by_name[name].prepare(of, task.seed, dtype)
        if prepared is None:
            continue
        start = time.perf_counter()
        run(prepared, "b")
        same, named, sentence, found = ask(scratch / "a", scratch / "b")
        seconds = time.perf_counter() - start
        shutil.rmtree(scratch / "b")
        outcome = "same" if same else "alarm" if found["verdict"] == "diverged" else "unsure"
        outcomes.append(outcome_of(task, name, "", outcome, named, sentence, seconds))
    return outcomes


def outcome_of(task: Task, what: str, module: str, outcome: str, named: str, sentence: str, seconds: float) -> Outcome:
    if task.show and outcome not in ("exact", "same"):
        where = f" in {module}" if module else ""
        print(
            f"{outcome:8} {task.architecture} {task.dtype} {task.surface} {task.level}: {what}{where}\n"
            f"         {sentence}",
            flush=True,
        )
    return Outcome(
        task.architecture, task.dtype, task.surface, task.level, what, module, outcome, named, sentence, seconds
    )


def tasks(options: argparse.Namespace) -> list[Task]:
    def wanted(names: list[str]) -> tuple[str, ...]:
        return tuple(name for name in names if not options.pairs or name in options.pairs)

    kinds = {"faults": wanted([each.name for each in FAULTS]), "sound": wanted([each.name for each in VARIATIONS])}
    settings = [
        (each, dtype, surface, level)
        for each in options.architectures
        for dtype in options.dtypes
        for surface in options.surfaces
        for level in options.levels
    ]
    return [
        Task(*setting, kind == "sound", names, options.seed + repetition, options.show)
        for repetition in range(options.repeat)
        for setting in settings
        for kind, names in kinds.items()
        if names and options.only in ("", kind) and (kind == "faults" or "/" not in setting[1])
    ]


# ---- the table ----


def table(outcomes: list[Outcome], by: tuple[str, ...], columns: list[str]) -> str:
    groups: dict[tuple[str, ...], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        groups[tuple(getattr(outcome, field) for field in by)][outcome.outcome] += 1
    rows = [[*by, "pairs", *columns, f"{columns[0]} %"]]
    for key, counts in sorted(groups.items()):
        total = sum(counts.values())
        rows.append(
            [*key, str(total), *(str(counts[each]) for each in columns), f"{100 * counts[columns[0]] / total:.1f}"]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < len(by) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def list_of(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1, help="how many times every fault is planted, with other seeds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--architectures", type=list_of, default=[each.name for each in ARCHITECTURES])
    parser.add_argument("--dtypes", type=list_of, default=["f32", "bf16"])
    parser.add_argument("--surfaces", type=list_of, default=["modules", "ops"])
    parser.add_argument("--levels", type=list_of, default=["full", "fingerprint"])
    parser.add_argument("--pairs", type=list_of, default=[], help="names of faults and of ways to run; default: all")
    parser.add_argument("--only", choices=["", "faults", "sound"], default="")
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", action="store_true", help="print every answer that is not exact")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    todo = tasks(options)
    with get_context("spawn").Pool(options.processes or None) as pool:
        for number, done in enumerate(pool.imap_unordered(work, todo), 1):
            outcomes += done
            if sys.stderr.isatty():
                print(f"\r{number} of {len(todo)} parts, {len(outcomes)} pairs", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for columns in (OF_FAULTS, OF_SOUND):
        these = [each for each in outcomes if each.outcome in columns]
        if these:
            print(table(these, ("dtype", "surface", "level"), columns), end="\n\n")
            print(table(these, ("pair",), columns), end="\n\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
