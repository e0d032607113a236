"""Pairs of runs, sound or with a fault, and what became of a tool's answer."""

from __future__ import annotations

import copy
import random
import runpy
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from architectures import architecture
from faults import FAULTS, Fault, Planted, plant
from precision import cast, has_fp8, sides
from runs import Run, returned
from sound import VARIATIONS, Way
from tools.interface import Answer, Refused, Tool


@dataclass(frozen=True)
class Task:
    """Some of the pairs of one architecture, with some settings of a tool."""

    architecture: str
    dtype: str
    tool: str
    settings: tuple[tuple[str, str], ...]  # surface and level
    kind: str  # faults, sound or inductor
    names: tuple[str, ...]  # of faults or variations
    seed: int
    device: str
    python: str = ""  # the interpreter that the tool needs; empty for this one


@dataclass
class Outcome:
    """What came of one pair."""

    architecture: str
    dtype: str
    tool: str
    surface: str
    level: str
    seed: int
    pair: str  # the fault, or the other way to run it
    module: str  # that the fault is in
    outcome: str
    verdict: str  # of the tool: same, unsure or differs
    named: str
    sentence: str
    seconds: float


def tool_named(name: str) -> type[Tool]:
    """One of ours, or `FILE.py:CLASS`."""
    if name in ("tensortap", "strict"):
        from tools.tensortap_tool import StrictTensorTap, TensorTap  # not in the interpreters of other tools

        return StrictTensorTap if name == "strict" else TensorTap
    if name == "debugmode":
        from tools.debug_mode import DebugModeTool

        return DebugModeTool
    if name == "msprobe":
        from tools.msprobe_tool import Msprobe

        return Msprobe
    path, _, kind = name.rpartition(":")
    if not path.endswith(".py"):
        raise ValueError(f"{name}: tensortap, strict, debugmode, msprobe, or FILE.py:CLASS")
    found: type[Tool] = runpy.run_path(path)[kind]
    return found


def work(task: Task) -> list[Outcome]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ttap-verdicts-") as scratch:
        kind = tool_named(task.tool)
        tools = []
        for number, (surface, level) in enumerate(task.settings):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            tools.append(kind(surface, level, folder))
        return faulty_pairs(task, tools) if task.kind == "faults" else sound_pairs(task, tools)


# ---- faults ----


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    # Flat, for an axis of length 1 may keep a stride that allows no view.
    return a.shape == b.shape and torch.equal(
        a.reshape(-1).contiguous().view(torch.uint8), b.reshape(-1).contiguous().view(torch.uint8)
    )


def candidates_of(run: Run, seen: dict[str, torch.Tensor], rng: random.Random) -> list[str]:
    """Modules in which a fault can be planted: mostly those without children."""
    modules = dict(run.model.named_modules())
    large = [name for name, value in seen.items() if value.ndim > 1 and value.numel() >= 32]
    leaves = [name for name in large if not any(modules[name].children())]
    others = [name for name in large if any(modules[name].children())]
    return leaves if rng.random() < 0.75 and leaves else others or leaves


def faulty_pairs(task: Task, tools: list[Tool]) -> list[Outcome]:
    of = architecture(task.architecture)
    a, b = sides(task.dtype)
    # Quantized last: a fault in a weight is then one in the weight that is quantized.
    unquantized = "bf16" if a == "fp8" else a
    # The same for every tool, and whichever faults are asked for.
    rng = random.Random(f"{task.seed} {task.architecture} {task.dtype} {tuple(each.name for each in FAULTS)}")
    sound = Run(of.model(task.seed, unquantized, task.device), of.sample(task.seed + 1, unquantized, task.device))
    # What B would be without the fault.
    right = Run(cast(copy.deepcopy(sound.model), b), of.sample(task.seed + 1, b, task.device))
    if "fp8" in (a, b) and not has_fp8(right.model):
        return []
    for tool in tools:
        tool.record(replace(sound, model=cast(copy.deepcopy(sound.model), a)), "a")
    seen = returned(sound)
    expected = returned(right)
    # Of two precisions, what is said without a fault: where that is a difference, a right answer may be chance.
    outcomes = [ask(task, tool, right, "a", "no fault", "") for tool in tools] if a != b else []
    for fault in FAULTS:
        planted = planted_in(fault, sound, seen, rng)
        if planted is None or fault.name not in task.names:
            continue
        wrong = replace(right, model=cast(planted.model, b))
        torch.manual_seed(task.seed)
        found = returned(wrong, {planted.module}).get(planted.module)
        if found is not None and not same_bits(expected[planted.module], found):
            outcomes += [ask(task, tool, wrong, "a", fault.name, planted.module, fault.function) for tool in tools]
    return outcomes


def planted_in(fault: Fault, sound: Run, seen: dict[str, torch.Tensor], rng: random.Random) -> Planted | None:
    modules = dict(sound.model.named_modules())
    candidates = candidates_of(sound, seen, rng)
    if not any(fault.suits(name, modules[name]) for name in candidates):
        candidates = list(seen)
    return plant(fault, sound.model, candidates, rng)


def judge_fault(answer: Answer, module: str, function: str) -> str:
    right = answer.named == module or (function and answer.named == f"{module}.{function}")
    if answer.verdict == "same":
        return "pointed" if right else "missed"
    if right:
        return "exact"
    parent = module.rpartition(".")[0]
    near = answer.named == parent or answer.named.rpartition(".")[0] in (module, parent)
    return "parent" if near else "wrong"


# ---- sound pairs ----


def sound_pairs(task: Task, tools: list[Tool]) -> list[Outcome]:
    way = Way(architecture(task.architecture), task.seed, task.dtype, task.device)
    recorded: set[tuple[Tool, str]] = set()
    outcomes = []
    for variation in (each for each in VARIATIONS if each.name in task.names):
        reference = variation.reference(way)
        able = [tool for tool in tools if tool.can_record(reference)]
        other = variation.other(way) if able else None
        for tool in able:
            if other is None or not tool.can_record(other):
                continue
            name = f"a {reference.training} {reference.ops_only}"
            if (tool, name) not in recorded:
                recorded.add((tool, name))
                reference.reset()
                tool.record(reference, name)
            outcomes.append(ask(task, tool, other, name, variation.name, ""))
    return outcomes


def judge_sound(answer: Answer) -> str:
    return {"same": "same", "unsure": "unsure", "differs": "alarm"}[answer.verdict]


def ask(task: Task, tool: Tool, other: Run, reference: str, pair: str, module: str, function: str = "") -> Outcome:
    """Records the other run and compares it with the reference."""
    start = time.perf_counter()
    other.reset()
    torch.manual_seed(task.seed)
    try:
        tool.record(other, "b")
        answer = tool.compare(reference, "b")
        outcome = judge_fault(answer, module, function) if module else judge_sound(answer)
    except Refused as refused:
        answer, outcome = Answer("unsure", "", str(refused)), "refused"
    return Outcome(
        architecture=task.architecture,
        dtype=task.dtype,
        tool=task.tool,
        surface=tool.surface,
        level=tool.level,
        seed=task.seed,
        pair=pair,
        module=module,
        outcome=outcome,
        verdict=answer.verdict,
        named=answer.named,
        sentence=answer.sentence,
        seconds=round(time.perf_counter() - start, 3),
    )
