"""Numbers that a call was given beside those that its module has: another epsilon."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.replaying.call_text import CallArguments, UnreadableText, parse_arguments
from tensortap.replaying.operators import OpName, UnknownOperator, find_operator

_EPSILONS = ("eps", "epsilon", "variance_epsilon", "layer_norm_eps", "norm_eps")
_LARGEST_EPSILON = 0.01
_NEAR = 8  # calls behind an addition in which its root is taken


def settings_of(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of every module in model.json, by its name."""
    return {
        module["name"]: module["settings"]
        for each in model.get("models", ())
        for module in each.get("modules", ())
        if module.get("settings")
    }


def contradiction(kept: Pass, index: int, settings: Mapping[str, Any]) -> str:
    """`its eps is 0.001, and that of its module 1e-05`; empty where they agree, or one of them has none."""
    event, name = kept.events[index], OpName.of(kept.events[index].name)
    known = [value for key, value in settings.items() if key in _EPSILONS and isinstance(value, float)]
    if len(known) != 1:
        return ""
    try:
        given = _epsilon(name, parse_arguments(event.arguments))
    except UnreadableText:
        return ""
    if given is None or _single(given) == _single(known[0]):
        return ""
    if name.name == "add" and not _root_is_taken(kept, index):
        return ""
    return f"its eps is {given:g}, and that of its module {known[0]:g}"


def _root_is_taken(kept: Pass, index: int) -> bool:
    """Of what the call made: else the number that it adds is none of a norm."""
    made = {use.record for use in kept.events[index].uses if use.role == "out"} - {None}
    return any(
        _is_root(later) and any(use.role == "in" and use.record in made for use in later.uses)
        for later in kept.events[index + 1 : index + 1 + _NEAR]
    )


def _is_root(event: EventRecord) -> bool:
    name = OpName.of(event.name).name
    return name in ("sqrt", "rsqrt") or (name == "pow" and event.arguments.endswith((", 0.5", ", -0.5")))


def _epsilon(name: OpName, arguments: CallArguments) -> float | None:
    """What a norm is given, or what is added before a root."""
    if name.backward:
        return None
    if name.name == "add" and len(arguments.args) > 1:
        added = arguments.args[1]
        return added if isinstance(added, float) and 0 < added <= _LARGEST_EPSILON else None
    if "norm" not in name.name:
        return None
    try:
        names = [argument.name for argument in find_operator(name)._schema.arguments]
    except UnknownOperator:
        return None
    place = names.index("eps") if "eps" in names else len(arguments.args)
    value = arguments.args[place] if place < len(arguments.args) else None
    return value if isinstance(value, float) else None


def _single(value: float) -> float:
    """As float32 holds it."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
