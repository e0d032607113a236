"""What to dump: a config of the shape that TransformerEngine's debug features have, checked.

A config has sections of any name. Each says which layers it is about (`layers`), and below
`transformer_engine: DumpTensors:` which tensors of them, which sides of these, and when.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensortap import _core
from tensortap.quant.dump.config_entry import ConfigError, Entry
from tensortap.quant.dump.config_text import read_config
from tensortap.quant.dump.layers import LayerChoice, layers_of
from tensortap.quant.dump.schedule import NAMES as SCHEDULE
from tensortap.quant.dump.schedule import Schedule, schedule_of

TENSORS = ("activation", "weight", "gradient", "output", "wgrad", "dgrad")

_WHAT = ("high_precision_tensor", "quantized_tensor", "dump_quantized_internals", "recipe")
_FEATURE = ("enabled", "tensors", "tensors_struct", *_WHAT, *SCHEDULE)
_OF_TENSOR = ("tensor", *_WHAT, *SCHEDULE)
# Features of TransformerEngine that a config may hold beside ours.
_OTHER_FEATURES = (
    "DisableFP8GEMM", "DisableFP8Layer", "DisableQuantizationGEMM", "DisableQuantizationLayer", "FakeQuant",
    "LogFp8TensorStats", "LogNvfp4TensorStats", "LogTensorStats", "PerTensorScaling",
)  # fmt: skip


@dataclass(frozen=True)
class TensorPlan:
    """What to keep of one tensor of a layer, and when."""

    tensor: str
    section: str
    high_precision: bool
    quantized: bool
    internals: bool
    recipe: str | None  # the format for what comes unquantized
    schedule: Schedule


@dataclass(frozen=True)
class Section:
    """Some layers, and what to keep of them."""

    name: str
    layers: LayerChoice
    plans: dict[str, TensorPlan]  # by tensor


@dataclass(frozen=True)
class DumpConfig:
    """All sections that are enabled, and what there is to be said of the config."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    given: Mapping[str, Any]


def dump_config(config: Mapping[str, Any] | str | os.PathLike[str]) -> DumpConfig:
    """Reads and checks a config.

    Raises
    ------
    ConfigError
        It cannot be meant. Says where, and what is allowed there.
    """
    given = read_config(config)
    notes: list[str] = []
    sections = []
    for name, entry in Entry(given, "").members().items():
        section = _section(name, entry, notes)
        if section is not None:
            sections.append(section)
    if not sections:
        raise ConfigError("the config dumps nothing: it has no section that is enabled and has DumpTensors enabled")
    return DumpConfig(tuple(sections), tuple(dict.fromkeys(notes)), given)


def _section(name: str, entry: Entry, notes: list[str]) -> Section | None:
    members = entry.members()
    if not _is_enabled(members):
        return None
    features = dict(members)
    for known in ("enabled", "layers", "transformer_engine"):
        features.pop(known, None)
    if "transformer_engine" in members:
        features |= members["transformer_engine"].members()
    for feature, inner in features.items():
        if feature in _OTHER_FEATURES:
            notes.append(f"{inner.place} is left aside: of TransformerEngine's features only DumpTensors is known")
        elif feature != "DumpTensors":
            raise ConfigError(
                f"{entry.place} has no {feature!r}: it is one of enabled, layers, transformer_engine, DumpTensors"
            )
    if "DumpTensors" not in features:
        return None
    if "layers" not in members:
        raise ConfigError(f"{entry.place} has no `layers`: which ones are meant?")
    layers = layers_of(members["layers"])
    feature = features["DumpTensors"].members(_FEATURE)
    if not _is_enabled(feature):
        return None
    return Section(name, layers, _plans(name, features["DumpTensors"].place, feature, notes))


def _is_enabled(members: Mapping[str, Entry]) -> bool:
    return "enabled" not in members or members["enabled"].flag()


def _plans(section: str, place: str, feature: dict[str, Entry], notes: list[str]) -> dict[str, TensorPlan]:
    if ("tensors" in feature) == ("tensors_struct" in feature):
        raise ConfigError(f"{place} must have one of tensors, tensors_struct; tensors are {', '.join(TENSORS)}")
    plans: dict[str, TensorPlan] = {}
    if "tensors" in feature:
        for tensor in _tensor_names(feature["tensors"]):
            plans[tensor] = _plan(tensor, section, place, feature, notes)
        return plans
    for item in feature["tensors_struct"].items("mappings, each with a member `tensor`"):
        members = item.members(_OF_TENSOR)
        if "tensor" not in members:
            raise ConfigError(f"{item.place} has no `tensor`: it is one of {', '.join(TENSORS)}")
        tensor = _tensor_name(members["tensor"])
        if tensor in plans:
            raise members["tensor"].wrong("it is there already; what differs in time goes into start_end_list")
        plans[tensor] = _plan(tensor, section, item.place, {**feature, **members}, notes)
    return plans


def _tensor_names(entry: Entry) -> tuple[str, ...]:
    if entry.value == "all" or entry.value == ["all"]:
        return TENSORS
    items = [entry] if isinstance(entry.value, str) else entry.items(f"tensors: {', '.join(TENSORS)}")
    return tuple(dict.fromkeys(_tensor_name(item) for item in items))


def _tensor_name(entry: Entry) -> str:
    if entry.value not in TENSORS:
        raise entry.wrong(f"it is one of {', '.join(TENSORS)}")
    return entry.value


def _plan(tensor: str, section: str, place: str, entries: Mapping[str, Entry], notes: list[str]) -> TensorPlan:
    flags = {name: entries[name].flag() for name in _WHAT[:3] if name in entries}
    recipe = _recipe(entries["recipe"]) if "recipe" in entries and entries["recipe"].value is not None else None
    asked = [name for name in _WHAT[:2] if name in flags]
    # Which of the two is left to us when neither is named: then it is both.
    high_precision = flags.get("high_precision_tensor", not asked)
    quantized = flags.get("quantized_tensor", not asked)
    if not high_precision and not quantized:
        raise ConfigError(f"{place} keeps nothing of {tensor}: set high_precision_tensor or quantized_tensor to True")
    internals = flags.get("dump_quantized_internals", False)
    if internals and not quantized:
        raise ConfigError(f"{place} has dump_quantized_internals, which needs quantized_tensor: True")
    return TensorPlan(tensor, section, high_precision, quantized, internals, recipe, schedule_of(entries, notes))


def _recipe(entry: Entry) -> str:
    try:
        return _core.quant_format(entry.text("the name of a format")).name
    except ConfigError:
        raise
    except ValueError as error:
        raise entry.wrong(str(error)) from None
