from __future__ import annotations

import shutil
from typing import Any

import tensortap as tap
import torch
from runs import Run

from tools.interface import Answer, Tool


class TensorTap(Tool):
    """`tap.record` and `tap.diff`; `tap.trace` for runs that are compiled or trained."""

    strict = False
    settings = tuple((surface, level) for surface in ("modules", "ops") for level in ("full", "sketch", "fingerprint"))

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.recordings: dict[str, Any] = {}

    def can_record(self, run: Run) -> bool:
        if run.samples is not None:
            return self.surface == "modules"  # inside a module, samples and heads share an axis
        return self.surface == "ops" or not run.ops_only

    def record(self, run: Run, name: str) -> None:
        if run.ops_only:
            with tap.trace(run.model, level=self.level) as self.recordings[name]:
                run()
            return
        directory = self.scratch / name
        shutil.rmtree(directory, ignore_errors=True)
        batch = {} if run.samples is None else {"rows": run.samples, "padded": batch_of(run)}
        with tap.record(
            run.model,
            directory,
            roles=["in", "out"],
            modules="all",
            level=self.level,
            ops=self.surface == "ops",
            report=False,
            **batch,
        ):
            run()
        self.recordings[name] = directory

    def compare(self, a: str, b: str) -> Answer:
        diff = tap.diff(self.recordings[a], self.recordings[b], threads=1, strict=self.strict)
        found = diff.to_json()
        place = found["first_unequal"] if diff.same else found["first"]
        named = "" if place is None else module_of(found["passes"][place["pass"]]["tensors"][place["tensor"]])
        verdict = "same" if diff.same else "differs" if found["verdict"] == "diverged" else "unsure"
        return Answer(verdict, named, diff.sentence)


class StrictTensorTap(TensorTap):
    """The same, where no guess decides."""

    strict = True


def batch_of(run: Run) -> int:
    return next(value.shape[0] for value in run.inputs.values() if isinstance(value, torch.Tensor))


def module_of(tensor: dict[str, Any]) -> str:
    """The module that an answer blames: the one around an operator, or around the code that made an input."""
    if tensor.get("event_kind") not in ("module", None):
        return tensor.get("parent") or ""
    name: str = tensor["name"]
    return name.rpartition(".")[0] if tensor["role"] != "out" else name
