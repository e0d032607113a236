"""Whether two ways to run a graph gave the same: by TensorTap's one meaning of close, that of `tap.diff`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from tensortap import _core
from tensortap.comparing import diff
from tensortap.graph.check.difference import Difference, Tolerance
from tensortap.tensors.dtypes import TORCH_DTYPES
from tensortap.tensors.snapshot import Unrecordable, is_plain, parts_of
from tensortap.torch_glue.dispatch_modes import no_modes

# How many times as far from the exact values as PyTorch's own a compiled result may be.
_NOISE_FACTOR = 4.0


@dataclass
class Verdict:
    """What a comparison found, and what it could not look at."""

    differences: list[Difference] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)


Exact = Callable[[], dict[str, torch.Tensor]]


def compare(
    pairs: Iterable[tuple[str, Any, Any]], tolerance: Tolerance | None = None, exact: Exact | None = None
) -> Verdict:
    """Hold values against each other: (place, what is right, what is asked about).

    Where two tensors differ by more than their dtype explains, `exact` is asked for the values in double precision. A
    sum that cancels, or a quotient of small numbers, is as far from these when PyTorch computes it: such a difference
    is rounding. With an `rtol` or `atol` of the user's, what they say counts.
    """
    tolerance = tolerance or Tolerance()
    verdict = Verdict()
    unequal: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    with no_modes(), torch.no_grad():
        for place, expected, actual in pairs:
            _compare_one(place, expected, actual, tolerance, verdict, unequal)
        _judge(unequal, tolerance, verdict, exact)
    return verdict


def _compare_one(
    place: str,
    expected: Any,
    actual: Any,
    tolerance: Tolerance,
    verdict: Verdict,
    unequal: dict[str, tuple[torch.Tensor, torch.Tensor]],
) -> None:
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        if isinstance(expected, torch.Tensor) or isinstance(actual, torch.Tensor):
            kinds = f"{type(actual).__name__}, and interpreted {type(expected).__name__}"
            verdict.differences.append(Difference(place, f"is compiled a {kinds}"))
        elif not _same_scalar(expected, actual):
            verdict.differences.append(Difference(place, f"is {actual!r}, and interpreted {expected!r}"))
        return
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        theirs, ours = (f"{one.dtype} {list(one.shape)}" for one in (actual, expected))
        verdict.differences.append(Difference(place, f"is {theirs}, and interpreted {ours}".replace("torch.", "")))
        return
    try:
        expected_parts, actual_parts = _parts(expected), _parts(actual)
    except Unrecordable as error:
        verdict.uncompared.append(f"{place}: {error}")
        return
    for (step, ours), (_, theirs) in zip(expected_parts, actual_parts, strict=False):
        if ours.shape != theirs.shape:
            verdict.differences.append(Difference(place + step, f"has shape {theirs.shape}, interpreted {ours.shape}"))
        elif _core.compare(theirs, ours, 0.0, 0.0, tolerance.equal_nan)["differing"]:
            unequal[place + step] = (ours, theirs)


def _parts(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """A tensor as strided ones on the CPU, each with what it is of the whole."""
    parts = []
    for part in parts_of(tensor.detach()) if not is_plain(tensor) else [None]:
        if part is not None and part.group is not None:
            continue  # its parts come after it
        values, steps = (tensor.detach(), ()) if part is None else (part.tensor, part.steps)
        if part is not None and not part.has_bytes:
            raise Unrecordable("it has no values")
        values = values.cpu()
        if values.dtype not in TORCH_DTYPES.values():
            raise Unrecordable(f"TensorTap does not know {values.dtype}")
        parts.append(("".join(f"/{step}" for step in steps), values))
    return parts


def _judge(
    unequal: dict[str, tuple[torch.Tensor, torch.Tensor]], tolerance: Tolerance, verdict: Verdict, exact: Exact | None
) -> None:
    found = _diverged(unequal, tolerance, {})
    if found and exact is not None and tolerance.rtol is None and tolerance.atol is None:
        known = exact()
        doubted = {place: unequal[place] for place in found if _is_noise_of(known.get(place), unequal[place][0])}
        if doubted:
            noise = {place: known[place].to(unequal[place][0].dtype).cpu() for place in doubted}
            still = _diverged(doubted, tolerance, noise)
            found = {place: one for place, one in found.items() if place not in doubted or place in still}
    verdict.differences += found.values()


def _is_noise_of(exact: torch.Tensor | None, tensor: torch.Tensor) -> bool:
    return exact is not None and tensor.is_floating_point() and exact.shape == tensor.shape


def _diverged(
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]], tolerance: Tolerance, noise: dict[str, torch.Tensor]
) -> dict[str, Difference]:
    """Those of the pairs that are not close, each with how they differ."""
    if not pairs:
        return {}
    places = list(pairs)
    # Copies: a view would bring all of its storage along.
    ours, theirs = ({str(i): pairs[place][side].clone() for i, place in enumerate(places)} for side in (0, 1))
    found = diff(
        ours,
        theirs,
        rtol=tolerance.rtol,
        atol=tolerance.atol,
        equal_nan=tolerance.equal_nan,
        noise={str(i): noise[place].clone() for i, place in enumerate(places)} if noise else None,
        noise_factor=_NOISE_FACTOR,
        structure=False,
    )
    close = ("identical", "within tolerance")
    return {
        places[int(one.key)]: _difference(places[int(one.key)], one)
        for one in found.tensors
        if one.verdict not in close
    }


def _difference(place: str, found: Any) -> Difference:
    measures = found.measures or {}
    limits = dict(found.tolerance or {})
    if not measures:
        return Difference(place, found.verdict, limits=limits)
    if measures["nan_mismatches"] or measures["inf_mismatches"]:
        kind = "NaN" if measures["nan_mismatches"] else "infinite"
        count = measures["nan_mismatches"] or measures["inf_mismatches"]
        reason = f"is {kind} in {count} of {measures['count']} elements where the other is not"
        return Difference(place, reason, limits=limits)
    worst = measures["worst"]
    reason = f"differs by up to {measures['max_abs']:.3g}"
    if worst:
        reason += f" (at {worst['index']}: {worst['b']:.6g}, interpreted {worst['a']:.6g})"
    if measures["outside"]:
        reason += f", {measures['outside']} of {measures['count']} elements beyond rtol {limits['rtol']:.2g}"
        reason += f" and atol {limits['atol']:.2g}"
    else:
        reason += f", as a whole by {measures['relative']:.2g} of its size"
    return Difference(place, reason, float(measures["max_abs"]), limits)


def _same_scalar(expected: Any, actual: Any) -> bool:
    try:
        return bool(expected == actual) or (expected != expected and actual != actual)
    except Exception:  # somebody else's __eq__, or a number that is not known
        return True
