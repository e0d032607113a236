"""Which layers of a model a config is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tensortap.modules.unseen import ModuleDescription, model_name
from tensortap.quant.dump.config import DumpConfig, Section, TensorPlan
from tensortap.quant.dump.config_entry import ConfigError
from tensortap.quant.dump.layer_tap import Dump, LayerTap, weight_of
from tensortap.quant.dump.quantized import module_weight
from tensortap.session.filters import nearest_names
from tensortap.session.metadata import of_model
from tensortap.torch_glue.module_names import NamedModule, named_modules, parents_of


@dataclass
class Selection:
    """Of one model."""

    taps: list[LayerTap] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)  # for model.json
    unmatched: list[Section] = field(default_factory=list)  # that are about none of its layers
    layers: list[str] = field(default_factory=list)  # the names of all that could be dumped


def select(dump: Dump, config: DumpConfig, model: nn.Module, prefix: str) -> Selection:
    """The layers of a model with what the config wants of them. A layer is a module with a weight.

    Raises
    ------
    ConfigError
        Two sections want the same tensor of a layer.
    """
    entries = [entry for entry in named_modules(model, prefix) if not entry.wrapper]
    layers = [entry for entry in entries if _is_layer(entry.module)]
    parents, found = parents_of(entries), Selection(layers=[entry.names[0] for entry in layers])
    for entry in layers:
        plans = _plans(config, entry)
        if plans:
            found.taps.append(LayerTap(dump, entry.module, entry.names, plans, ModuleDescription.of(entry, parents)))
    for section in config.sections:
        if not any(_is_meant(section, entry) for entry in layers):
            found.unmatched.append(section)
    selected = {id(tap.module) for tap in found.taps}
    found.described = of_model(model, model_name(model, prefix), entries, selected)
    return found


def unmatched_notes(found: list[Selection]) -> list[str]:
    """Sections that are about no layer of any model."""
    names = [name for selection in found for name in selection.layers]
    notes = []
    for section in found[0].unmatched if found else []:
        if all(section in selection.unmatched for selection in found):
            pattern = section.layers.pattern.pattern if section.layers.pattern is not None else ""
            near = nearest_names(pattern, names) or names[:3]
            note = f"{section.layers.place} selects none of the {len(names)} layers that have a weight"
            notes.append(note + (f"; there are {', '.join(near)}" if near else ""))
    return notes


def _is_layer(module: nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule):
        return False
    return weight_of(module) is not None or bool(module_weight(module))


def _is_meant(section: Section, entry: NamedModule) -> bool:
    return any(section.layers.selects(name, type(entry.module).__name__) for name in entry.names)


def _plans(config: DumpConfig, entry: NamedModule) -> dict[str, TensorPlan]:
    plans: dict[str, TensorPlan] = {}
    for section in config.sections:
        if not _is_meant(section, entry):
            continue
        for tensor, plan in section.plans.items():
            if tensor in plans:
                raise ConfigError(
                    f"the sections {plans[tensor].section!r} and {section.name!r} both want the {tensor} of "
                    f"{entry.names[0]}: a tensor of a layer belongs to one section"
                )
            plans[tensor] = plan
    return plans
