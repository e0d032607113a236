"""`tap.removed_error`: how much of an error a graft has removed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch

from tensortap import reading
from tensortap.reading import Pass, Run
from tensortap.replaying.distance import distances

Recorded: TypeAlias = "str | os.PathLike[str] | Run | Pass | torch.Tensor"


def removed_error(right: Recorded, wrong: Recorded, grafted: Recorded, *, key: str | None = None) -> float:
    """The share of the output's error that a graft has removed: 1 all of it, 0 nothing; negative: it is larger now.

        tap.removed_error("good", "bad", "grafted")  # 0.997

    The error is the distance from `right`, as the root of the sum of squares over all passes that the three have. Where
    a value is NaN or infinite on one side only, it is as far off as the largest value of `right`.

    Parameters
    ----------
    right, wrong, grafted
        Three recordings of the program, or three tensors: as it should be, as it is, and as it is with the graft.
    key
        The tensor to look at; by default, in each pass, the first result of the module that ended last, or of the last
        operator where there is no module.

    Raises
    ------
    ValueError
        When `wrong` has no error, or the three have no such tensor of one shape.
    """
    before = after = 0.0
    compared = 0
    for one, two, three in _outputs(right, wrong, grafted, key):
        if not one.shape == two.shape == three.shape:
            shapes = ", ".join(str(list(each.shape)) for each in (one, two, three))
            raise ValueError(f"the outputs have the shapes {shapes}: give the key of a tensor that all three have")
        scale = _largest(one)
        before += _squares(one, two, scale)
        after += _squares(one, three, scale)
        compared += 1
    if compared == 0:
        raise ValueError("the three have no output with its bytes in a common pass: record them at level full")
    if before == 0:
        raise ValueError("there is no error to remove: the outputs of `right` and `wrong` are equal")
    return 1 - math.sqrt(after / before)


def _outputs(
    right: Recorded, wrong: Recorded, grafted: Recorded, key: str | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    if isinstance(right, torch.Tensor) or isinstance(wrong, torch.Tensor) or isinstance(grafted, torch.Tensor):
        if not all(isinstance(each, torch.Tensor) for each in (right, wrong, grafted)):
            raise TypeError("right, wrong and grafted are three recordings or three tensors, not some of both")
        yield right.detach().cpu(), wrong.detach().cpu(), grafted.detach().cpu()  # type: ignore[union-attr]
        return
    passes = [_passes(each) for each in (right, wrong, grafted)]
    for place in sorted(set(passes[0]) & set(passes[1]) & set(passes[2])):
        one, two, three = (_output(each[place], key) for each in passes)
        if one is not None and two is not None and three is not None:
            yield one, two, three


def _passes(recorded: Any) -> dict[tuple[int, int], Pass]:
    """By rank and number; of a pass alone the number does not matter."""
    if isinstance(recorded, Pass):
        return {(0, 0): recorded}
    run = recorded if isinstance(recorded, Run) else reading.open(recorded)
    return {(rank.number, number): rank.passes[number] for rank in run.ranks for number in rank.passes}


def _output(recorded: Pass, key: str | None) -> torch.Tensor | None:
    """None where it is not there, or its bytes are not."""
    key = key or _last_result(recorded)
    if key not in recorded or not recorded.record(key).has_bytes:
        return None
    value = recorded[key]
    return value if isinstance(value, torch.Tensor) else None


def _last_result(recorded: Pass) -> str:
    """The first result of what ended last, as records stand in the order in which they were made."""
    for kind in ("module", "op"):
        results = [
            each
            for each in recorded.records
            if each.role == "out" and each.event is not None and recorded.events[each.event].kind == kind
        ]
        if results:
            return next(each.key for each in results if each.event == results[-1].event)
    return ""


def _largest(tensor: torch.Tensor) -> float:
    wide = distances(tensor, torch.zeros_like(tensor))
    finite = wide[wide.isfinite()]
    return float(finite.max()) if finite.numel() else 1.0


def _squares(one: torch.Tensor, other: torch.Tensor, scale: float) -> float:
    """The sum of the squared differences."""
    apart = distances(one, other)
    return float(apart.where(apart.isfinite(), scale or 1.0).square().sum())
