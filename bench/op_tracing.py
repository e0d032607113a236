"""What it costs to observe operators: a small one called again and again, a real model, and a log of a million."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import model_recording
import tensortap as tap
import torch
from empty_observer import empty_observer
from torch.utils._debug_mode import DebugMode

# Of the small operator: the best round counts, for the machine is never quiet for long; each way takes turns, for some
# are slower for seconds; and it is done in some processes, for where things lie in memory counts as well. One in which
# the operator alone took so much longer than in the fastest does not count: somebody else had the processor.
CALLS, ROUNDS, TURNS = 500, 20, 20
DEBUG_ROUNDS = 1
PROCESSES, MOST_PROCESSES = 5, 10
DISTURBED = 1.25
MILLION = 1_000_000


def debug_mode(*, hashes: bool = False, **options: bool) -> AbstractContextManager:
    """DebugMode with the same things asked for."""
    stack = ExitStack()
    stack.enter_context(DebugMode(**options))
    if hashes:
        stack.enter_context(DebugMode.log_tensor_hashes(hash_inputs=True))
    return stack


# What is asked for, ours, DebugMode's, and the most that ours may add, in microseconds.
Way = Callable[[], AbstractContextManager]
ASKED: list[tuple[str, Way, Way | None, float | None]] = [
    ("an observer that does nothing", empty_observer, None, None),
    ("names and shapes", lambda: tap.trace(ids=False, modules=False), lambda: debug_mode(record_output=True), 0.5),
    ("all metadata, ids", lambda: tap.trace(), lambda: debug_mode(record_output=True, record_ids=True), 1),
    (
        "stacks",
        lambda: tap.trace(stacks=True),
        lambda: debug_mode(record_output=True, record_ids=True, record_stack_trace=True),
        5,
    ),
    ("hashes of inputs and outputs", lambda: tap.trace(hashes=True), lambda: debug_mode(hashes=True), 2),
]


@dataclass
class SmallOp:
    """Microseconds that one call takes longer."""

    what: str
    ours: float
    theirs: float | None
    limit: float | None


@dataclass
class Log:
    """A log of a million calls."""

    memory_per_call: float = 0
    save_s: float = 0
    print_s: float = 0
    diff_s: float = 0


@dataclass
class Found:
    small: list[SmallOp] = field(default_factory=list)
    model_ms: dict[str, float] = field(default_factory=dict)
    log: Log = field(default_factory=Log)


def best_call(rounds: int) -> float:
    """Microseconds of one call of relu on 8 x 8, in the best round."""
    x = torch.randn(8, 8)
    best = float("inf")
    with torch.no_grad():
        for _ in range(rounds):
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                torch.relu(x)
            best = min(best, time.perf_counter_ns() - start)
    return best / CALLS / 1e3


def small_op_here() -> list[list[float | None]]:
    """What is added, ours and theirs, for each of ASKED, and the call alone, in this process."""
    best_call(ROUNDS)  # warm
    found = []
    for _, ours, theirs, _ in ASKED:
        ways = [(nullcontext, ROUNDS), (ours, ROUNDS)] + ([(theirs, DEBUG_ROUNDS)] if theirs else [])
        best = [float("inf")] * len(ways)
        for _ in range(TURNS):
            for number, (way, rounds) in enumerate(ways):
                with way():
                    best[number] = min(best[number], best_call(rounds))
        found.append([best[1] - best[0], best[2] - best[0] if theirs else None, best[0]])
    return found


def quiet(runs: list[list[list[float]]]) -> list[list[list[float]]]:
    """Those of the processes that had the processor to themselves, all the time."""
    fastest = min(alone for run in runs for *_, alone in run)
    return [run for run in runs if max(alone for *_, alone in run) <= DISTURBED * fastest]


def small_op() -> list[SmallOp]:
    """The medians of some processes."""
    runs = []
    while len(runs) < PROCESSES or (len(quiet(runs)) < PROCESSES and len(runs) < MOST_PROCESSES):
        done = subprocess.run([sys.executable, __file__], stdout=subprocess.PIPE, check=True)
        runs.append(json.loads(done.stdout))
    if len(quiet(runs)) < len(runs):
        disturbed = len(runs) - len(quiet(runs))
        print(f"small operator: {disturbed} of {len(runs)} processes were disturbed", file=sys.stderr)
    runs = quiet(runs) or runs
    found = []
    for number, (what, _, theirs, limit) in enumerate(ASKED):
        ours = statistics.median(run[number][0] for run in runs)
        others = statistics.median(run[number][1] for run in runs) if theirs else None
        found.append(SmallOp(what, ours, others, limit))
    return found


def model(rounds: int = 30) -> dict[str, float]:
    """Milliseconds of a forward of MiniLM, each way in turn, the best of all rounds."""
    model_recording.keep_freed_memory()
    network, inputs = model_recording.load_model()
    ways: dict[str, Callable[[], AbstractContextManager]] = {
        "no tap": nullcontext,
        "meta": lambda: tap.trace(network),
        "hashes": lambda: tap.trace(network, hashes=True),
        "DebugMode": lambda: debug_mode(record_output=True, record_ids=True),
        "DebugMode, hashes": lambda: debug_mode(record_output=True, hashes=True),
    }
    best = dict.fromkeys(ways, float("inf"))
    for number in range(rounds):
        for name, way in ways.items():
            if name.startswith("DebugMode") and number >= rounds // 6:
                continue
            with torch.no_grad(), way():
                if name == "hashes":
                    network(**inputs)  # weights are hashed once, in the first pass of a trace
                start = time.perf_counter()
                network(**inputs)
                best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def million(command: Path, scratch: Path) -> Log:
    x = torch.randn(8, 8)
    found = Log()
    traces = []
    for number in range(2):
        with tap.trace(hashes=True) as trace, torch.no_grad():
            y = x
            for _ in range(MILLION // 2):
                y = torch.relu(torch.add(x, y, alpha=0.5))
        found.memory_per_call = trace.counts["bytes"] / trace.counts["calls"]
        start = time.perf_counter()
        trace.save(scratch / f"million{number}")
        found.save_s = time.perf_counter() - start
        traces.append(scratch / f"million{number}")

    def run(*arguments: object) -> float:
        start = time.perf_counter()
        subprocess.run([command, *map(str, arguments)], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    found.print_s = run("log", traces[0])
    found.diff_s = run("diff", *traces)
    return found


def measure(command: Path, scratch: Path) -> Found:
    return Found(small_op(), model(), million(command, scratch))


if __name__ == "__main__":  # one of the processes
    print(json.dumps(small_op_here()))
