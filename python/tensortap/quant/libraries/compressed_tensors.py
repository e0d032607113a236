"""Modules of compressed-tensors: payload, scales and zero points side by side, by their names."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tensortap.quant.formats import NotDecoded, format_of, fp8_format, int_format, scale_type_of
from tensortap.quant.group import Group

_SOURCE = "compressed-tensors"
_BYTES = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
_BESIDES = ("packed", "scale", "global_scale", "zero_point", "shape", "g_idx")


def groups_of_module(module: nn.Module) -> dict[str, Group]:
    """The groups of a module by the name of the weight that they are."""
    held = {
        name: tensor for name, tensor in [*module._parameters.items(), *module._buffers.items()] if tensor is not None
    }
    found = {}
    for name in list(held):
        base = name.removesuffix("_packed")
        if f"{base}_scale" not in held or (base == name and held[name].dtype not in _BYTES):
            continue
        besides = {word: held.get(f"{base}_{word}") for word in _BESIDES}
        members = (name, *(f"{base}_{word}" for word in _BESIDES if besides[word] is not None and word != "packed"))
        payload = held[name].detach()
        try:
            group = _packed(module, payload, besides) if base != name else _whole(module, payload, besides)
        except NotDecoded as why:
            parts = {"payload": payload} | {word: part for word, part in besides.items() if word != "packed"}
            group = Group(
                None, tuple(payload.shape), _dtype(module, besides), parts, note=f"{base} of {_SOURCE}: {why}"
            )
        group.members = members
        found[base] = group
    return found


def _dtype(module: nn.Module, besides: dict[str, Any]) -> torch.dtype:
    """The dtype of the values: that of the scales where these are plain, else the module's bias's."""
    scale = besides["scale"].dtype
    if scale in (torch.float32, torch.bfloat16, torch.float16):
        return scale
    bias = module._parameters.get("bias")
    return bias.dtype if bias is not None else torch.bfloat16


def _whole(module: nn.Module, payload: torch.Tensor, besides: dict[str, Any]) -> Group:
    """A code a byte."""
    scale, zero_point = besides["scale"], besides["zero_point"]
    block = _block(module, payload.shape, scale)
    if payload.dtype == torch.int8:
        made = int_format("int8", block, _SOURCE, asymmetric=zero_point is not None)
    else:
        made, zero_point = fp8_format(payload.dtype, block, _SOURCE), None
    made.scale_type = scale_type_of(scale.dtype)
    parts = {"payload": payload, "scale": scale, "zero_point": zero_point}
    return Group(made, tuple(payload.shape), _dtype(module, besides), parts)


def _packed(module: nn.Module, payload: torch.Tensor, besides: dict[str, Any]) -> Group:
    if besides["g_idx"] is not None:
        raise NotDecoded("its columns are in another order (g_idx)")
    if payload.dim() != 2:
        raise NotDecoded(f"packed, of {payload.dim()} dimensions")
    if payload.dtype == torch.int32:
        return _integers(module, payload, besides)
    shape, scale, factor = (payload.shape[0], payload.shape[1] * 2), besides["scale"], besides["global_scale"]
    if factor is not None:
        made = format_of("nvfp4", _SOURCE, global_scale="divisor")
    elif scale.dtype in (torch.uint8, torch.float8_e8m0fnu):
        made = format_of("mxfp4", _SOURCE)
    else:
        made = format_of("nvfp4", _SOURCE, global_scale="none")
    _check_count(shape, (made.block_rows, made.block_columns), scale)
    return Group(made, shape, _dtype(module, besides), {"payload": payload, "scale": scale, "global_scale": factor})


def _integers(module: nn.Module, payload: torch.Tensor, besides: dict[str, Any]) -> Group:
    """Codes of four or eight bits in words of 32, the first in the lowest bits; all are moved to begin with 0."""
    scale, zero_point = besides["scale"], besides["zero_point"]
    bits = getattr(_scheme(module), "num_bits", None)
    shape = _shape(module, payload, besides["shape"], bits)
    rows, columns = shape
    fitting = [each for each in (4, 8) if bits in (each, None) and -(-columns * each // 32) == payload.shape[1]]
    if payload.shape[0] != rows or len(fitting) != 1:
        raise NotDecoded(f"{list(payload.shape)} words for a shape of {list(shape)}")
    bits = fitting[0]
    element, packing = ("uint4", "low_first") if bits == 4 else ("uint8", "none")
    made = int_format(
        element, _block(module, shape, scale), _SOURCE, asymmetric=zero_point is not None, packing=packing
    )
    made.scale_type = scale_type_of(scale.dtype)
    made.zero_point = "middle" if zero_point is None else "integer"
    payload = payload.contiguous().view(torch.uint8)[:, : -(-columns * bits // 8)]
    if zero_point is not None:
        zero_point = _unpacked_zeros(zero_point.detach(), bits, rows)
    parts = {"payload": payload, "scale": scale, "zero_point": zero_point}
    return Group(made, shape, _dtype(module, besides), parts)


def _shape(module: nn.Module, payload: torch.Tensor, stored: torch.Tensor | None, bits: int | None) -> tuple[int, int]:
    """Of the values. What lies on a GPU is not read: the program would wait for it."""
    if isinstance(rows := getattr(module, "out_features", None), int):
        return rows, module.in_features  # type: ignore[return-value]
    if stored is not None and stored.is_cpu:
        return tuple(stored.tolist())
    if bits not in (4, 8):
        raise NotDecoded("nothing here says how many bits a code has")
    return payload.shape[0], payload.shape[1] * 32 // bits


def _unpacked_zeros(zeros: torch.Tensor, bits: int, rows: int) -> torch.Tensor:
    """A byte each, from 0 on like the codes."""
    if zeros.dtype != torch.int32:
        return (zeros.to(torch.int16) + (1 << bits - 1)).to(torch.uint8)
    shifts = torch.arange(0, 32, bits, dtype=torch.int32, device=zeros.device).view(1, -1, 1)
    codes = (zeros.unsqueeze(1) >> shifts) & ((1 << bits) - 1)
    return codes.reshape(-1, zeros.shape[-1])[:rows].to(torch.uint8)


def _block(module: nn.Module, shape: Any, scale: torch.Tensor) -> tuple[int, int]:
    """What one scale serves: as the module's scheme says, else by how many there are in each direction."""
    if scale.numel() == 1:
        return 0, 0
    scheme = _scheme(module)
    structure = getattr(scheme, "block_structure", None) or (None, getattr(scheme, "group_size", None))
    high, wide = (scale.shape[-2], scale.shape[-1]) if scale.dim() > 1 else (scale.shape[0], 1)
    rows = _step(shape[-2], high, (structure[0] or 0, 1, 128))
    if len(shape) > 2 and rows > 1 and shape[-2] % rows:
        raise NotDecoded("blocks that end with each matrix")  # ours go on into the next one
    columns = 0
    if wide != 1 or (rows != 1 and shape[-1] > 128):
        # Groups of a row may be of any length; blocks of several rows are squares.
        columns = _step(shape[-1], wide, (structure[1] or 0, 128, shape[-1] // wide if rows == 1 else 0))
    _check_count(shape, (rows, columns), scale)
    return rows, columns


def _check_count(shape: Any, block: tuple[int, int], scale: torch.Tensor) -> None:
    """Fewer or more scales than blocks belong to them in a way that is not known here."""
    blocks = -(-math.prod(shape[:-1]) // block[0]) * (-(-shape[-1] // block[1]) if block[1] else 1)
    if scale.numel() != blocks:
        raise NotDecoded(f"{scale.numel()} scales for {blocks} blocks")


def _scheme(module: nn.Module) -> Any:
    """How the module says that its weights were quantized; None when it does not."""
    return getattr(getattr(module, "quantization_scheme", None), "weights", None)


def _step(length: int, blocks: int, steps: tuple[int, ...]) -> int:
    for step in steps:
        if step > 0 and -(-length // step) == blocks:
            return step
    raise NotDecoded(f"{blocks} blocks along {length} values")
