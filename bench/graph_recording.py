"""What it costs to record every node of a graph, against torch.fx.Interpreter: MiniLM's graph, as Dynamo gives it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import model_recording
import numpy as np
import tensortap as tap
import torch
from torch import fx

ROUNDS, DUMPS, DUMPED = 30, 4, 4  # of a run; of a dump, each of so many runs
SENTENCES, TOKENS = 2, 16  # few: what is measured is what comes with each node


class SavingInterpreter(fx.Interpreter):
    """What one writes by hand: every tensor that a node gives into a file of its own."""

    def __init__(self, module: fx.GraphModule, folder: Path) -> None:
        super().__init__(module)
        self._folder = folder

    def run_node(self, node: fx.Node) -> Any:
        result = super().run_node(node)
        values = result if isinstance(result, (tuple, list)) else (result,)
        for number, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                np.save(self._folder / f"{node.name}.{number}.npy", value.detach().numpy())
        return result


@dataclass
class Found:
    """Seconds of one run, and of a dump."""

    nodes: int
    interpreter: float
    meta: float
    saved: float
    dumped: float
    dumped_always: float  # with parameters in every pass


def captured() -> tuple[fx.GraphModule, tuple[Any, ...]]:
    """A model's graph, and the arguments it is called with."""
    found: dict[str, Any] = {}

    def backend(module: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            found.update(module=module, arguments=arguments)
            return module.forward(*arguments)

        return run

    model, inputs = model_recording.load_model()
    inputs = {name: value[:SENTENCES, :TOKENS] for name, value in inputs.items()}
    torch.compile(model, backend=backend)(**inputs)
    return found["module"], found["arguments"]


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(scratch: Path) -> Found:
    model_recording.keep_freed_memory()
    with torch.no_grad():
        module, arguments = captured()
        folder = scratch / "graphs"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "npy").mkdir(parents=True)
        plain, saving = fx.Interpreter(module), SavingInterpreter(module, folder / "npy")
        with (
            tap.graph_backend(folder / "meta", level="meta", graphs=False, report=False) as meta,
            tap.graph_backend(folder / "once", graphs=False, report=False) as once,
            tap.graph_backend(folder / "always", parameters="always", graphs=False, report=False) as always,
        ):
            recorded = meta(module, list(arguments))

            def dumping(backend: tap.GraphBackend) -> Callable[[], None]:
                dumped = backend(module, list(arguments))

                def dump() -> None:
                    for _ in range(DUMPED):
                        dumped(*arguments)
                    backend.flush()

                return dump

            def save() -> None:
                for _ in range(DUMPED):
                    saving.run(*arguments)

            ways = {
                "interpreter": (ROUNDS, lambda: plain.run(*arguments)),
                "meta": (ROUNDS, lambda: recorded(*arguments)),
                "saved": (DUMPS, save),
                "dumped": (DUMPS, dumping(once)),
                "dumped_always": (DUMPS, dumping(always)),
            }
            best = dict.fromkeys(ways, float("inf"))
            for number in range(ROUNDS):
                for name, (rounds, way) in ways.items():
                    if number < rounds:
                        best[name] = min(best[name], timed(way))
    return Found(len(module.graph.nodes), **best)
