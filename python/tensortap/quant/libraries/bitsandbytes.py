"""The packed weights of bitsandbytes, by class name and attributes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tensortap.quant.formats import int_format
from tensortap.quant.group import Group

_SOURCE = "bitsandbytes"


def groups_of(tensor: Any) -> dict[str, Group] | None:
    """The one group of such a weight; None for another kind of tensor, and for one that is not quantized yet."""
    names = {parent.__name__ for parent in type(tensor).__mro__}
    if "Params4bit" in names and getattr(tensor, "quant_state", None) is not None:
        return {"": _four_bits(tensor, tensor.quant_state)}
    if "Int8Params" in names and getattr(tensor, "SCB", None) is not None:
        codes = getattr(tensor, "CB", None)
        return {"": _int8(_plain(tensor) if codes is None else codes, tensor.SCB)}
    return None


def groups_of_module(module: nn.Module) -> dict[str, Group]:
    """A weight of int8 whose scales the module has taken away from it, at its first call."""
    state, weight = getattr(module, "state", None), module._parameters.get("weight")
    scales = getattr(state, "SCB", None)
    if weight is None or weight.dtype != torch.int8 or not isinstance(scales, torch.Tensor):
        return {}
    group = _int8(_plain(weight), scales)
    group.members = ("weight",)
    return {"weight": group}


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().as_subclass(torch.Tensor)


def _int8(codes: torch.Tensor, largest: torch.Tensor) -> Group:
    """By the largest magnitude of each row, which is the code 127."""
    made = int_format("int8", (1, 0), _SOURCE, asymmetric=False, global_scale="factor")
    parts = {"payload": codes, "scale": largest, "global_scale": torch.full((1,), 1 / 127, device=codes.device)}
    return Group(made, tuple(codes.shape), torch.float16, parts)


def _four_bits(tensor: torch.Tensor, state: Any) -> Group:
    """Codes of a table of sixteen values, by blocks of the flattened weight."""
    parts = {"payload": _plain(tensor), "scale": state.absmax, "code": state.code}
    if getattr(state, "nested", False):  # the scales are quantized themselves
        parts |= {"scale_offset": state.offset, "scale_scale": state.state2.absmax, "scale_code": state.state2.code}
    plain = {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
    note = f"{state.quant_type} of bitsandbytes: codes of a table"
    return Group(None, tuple(state.shape), state.dtype, plain, note=note)
