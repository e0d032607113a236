"""The quantized side of a dumped tensor: what the layer has itself, or what a recipe makes of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tensortap import _core
from tensortap.quant.dump.config import TensorPlan
from tensortap.quant.group import Group
from tensortap.quant.libraries.recognise import groups_of, groups_of_module
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.torch_glue.program_errors import raise_if_of_program

Groups = dict[str, Group]  # by orientation: "" and "columnwise"

_ENCODABLE = (torch.float32, torch.bfloat16, torch.float16)
_SCALE_DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e8m0": torch.float8_e8m0fnu,
    "e4m3": torch.float8_e4m3fn,
}  # fmt: skip


@dataclass
class Sides:
    """What there is of a tensor that is dumped, and why something that was asked for is not."""

    high_precision: torch.Tensor | None = None
    groups: dict[str, Group] = field(default_factory=dict)  # by orientation
    no_high_precision: str = "it is there quantized only"
    no_groups: str = "the layer does not show it quantized; the config may name a `recipe`"


def sides_of(tensor: torch.Tensor | None, groups: dict[str, Group] | None, plan: TensorPlan) -> Sides:
    """The sides that a plan asks for: the tensor, or the groups that it is; or the groups that a recipe makes of it."""
    found = Sides()
    own = groups or _own_groups(tensor)
    if plan.high_precision and not own:
        found.high_precision = tensor
    if plan.quantized and own:
        found.groups = own
    elif plan.quantized and plan.recipe is not None and tensor is not None:
        found.groups = encoded(tensor, plan.recipe)
        found.no_groups = f"{plan.recipe} is for plain tensors of float32, bfloat16 and float16"
    return found


def _own_groups(tensor: torch.Tensor | None) -> dict[str, Group] | None:
    try:
        return groups_of(tensor) if tensor is not None else None
    except Exception as error:  # it looks like one and is not: it is dumped like any other tensor
        raise_if_of_program(error)
        return None


def module_weight(module: nn.Module) -> dict[str, Group]:
    """The weight of a module that holds it as several parameters; none when it does not."""
    group = groups_of_module(module).get("weight")
    return {} if group is None else {"": group}


def encoded(tensor: torch.Tensor, recipe: str) -> dict[str, Group]:
    """What a recipe makes of a tensor; nothing when it takes no such tensors."""
    if tensor.dtype not in _ENCODABLE or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return {}
    made = _core.quant_format(recipe)
    made.source = "tensortap"
    with no_modes(), torch.no_grad():
        plain = tensor.detach().cpu().contiguous()
        found = _core.quant_encode(plain, made)
        zero_dtype = torch.uint8 if made.element.startswith("u") else torch.int8
        parts = {
            "payload": _part(found["payload"], torch.uint8),
            "scale": _part(found["scale"], _SCALE_DTYPES[made.scale_type]),
            "global_scale": _part(found["global"], torch.float32),
            "zero_point": _part(found["zero_point"], zero_dtype),
        }
    return {"": Group(made, tuple(tensor.shape), tensor.dtype, parts)}


def _part(part: tuple[Any, list[int]] | None, dtype: torch.dtype) -> torch.Tensor | None:
    if part is None:
        return None
    data, shape = part
    return torch.from_dlpack(data).view(dtype).reshape(shape)


def internals(group: Group) -> dict[str, torch.Tensor]:
    """What a group holds, as plain numbers: the scale of each block, and the value of each code before it is scaled.

    Nothing of a group that cannot be decoded.
    """
    if group.format is None:
        return {}
    return {"block_scales": group.scales(), "code_values": _code_values(group)}


def _code_values(group: Group) -> torch.Tensor:
    """In the shape of the tensor: the group decoded with 1 for a scale."""
    plain = copy.copy(group.format)
    assert plain is not None
    plain.scale_type, plain.scale_layout, plain.global_scale, plain.zero_point = "f32", "compact", "none", "none"
    plain.block_rows = plain.block_columns = 0
    plain.shared_rows, plain.scale_transposed, plain.scale_divides = 1, False, False
    with no_modes(), torch.no_grad():
        out = torch.empty(group.shape, dtype=torch.float32)
        payload = group.parts()["payload"].detach().cpu()
        _core.quant_decode(plain, list(group.shape), payload, torch.ones(1), out=out)
    return out
