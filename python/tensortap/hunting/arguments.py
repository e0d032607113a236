"""In what two calls are asked for something else: numbers, and tensors with other values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tensortap.replaying.call_text import CallArguments, UseAt
from tensortap.replaying.calling import Call
from tensortap.replaying.distance import distances, typical_size

_SHOWN = 3


def differing_arguments(a: Call, b: Call) -> list[str]:
    """What differs between the arguments of two calls, the largest difference first; empty where nothing does.

    Of calls of two operators only the operators are named: their arguments have nothing to do with one another.
    """
    if a.op is not b.op:
        return [f"the operator: {a.name.op} in A, {b.name.op} in B"]
    numbers = list(_numbers(a, b))
    tensors = sorted(_tensors(a, b), reverse=True)
    return numbers + [text for _, text in tensors[:_SHOWN]]


def _numbers(a: Call, b: Call) -> Iterator[str]:
    at_a, at_b = _by_name(a), _by_name(b)
    for name in at_a | at_b:
        one, other = at_a.get(name), at_b.get(name)
        if not _holds_tensor(one) and not _holds_tensor(other) and repr(one) != repr(other):
            yield f"{name}: {one} in A, {other} in B"


def _tensors(a: Call, b: Call) -> Iterator[tuple[float, str]]:
    at_b = {use.path: number for number, use in enumerate(b.event.uses) if use.role == "in"}
    for number, one in a.tensors.items():
        path = a.event.uses[number].path
        other = b.tensors.get(at_b.get(path, -1))
        if other is None:
            continue
        name = _name(a, path)
        if one.shape != other.shape:
            yield float("inf"), f"{name}: {list(one.shape)} in A, {list(other.shape)} in B"
        elif (apart := _apart(one, other)) > 0:
            yield apart, f"{name}: {apart:.2g} of its size apart"


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """How far the values are apart beside their size."""
    apart = distances(one, other)
    return float(apart.square().mean().sqrt()) / max(typical_size(one), 1e-300) if bool(apart.any()) else 0.0


def _by_name(call: Call) -> dict[str, Any]:
    names = [argument.name for argument in call.op._schema.arguments]
    given: CallArguments = call.arguments
    return {**dict(zip(names, given.args, strict=False)), **given.kwargs}


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, UseAt) or (isinstance(value, list | tuple) and any(map(_holds_tensor, value)))


def _name(call: Call, path: str) -> str:
    """`weight` for `/1`, `tensors/3` for the fourth of a list."""
    place, _, rest = path.removeprefix("/").partition("/")
    names = [argument.name for argument in call.op._schema.arguments]
    name = names[int(place)] if place.isdigit() and int(place) < len(names) else place
    return f"{name}/{rest}" if rest else name
