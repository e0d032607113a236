"""Formats of groups, made from what libraries say of theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensortap import _core

_SCALE_TYPES = {
    "torch.float32": "f32",
    "torch.float16": "f16",
    "torch.bfloat16": "bf16",
    "torch.float8_e8m0fnu": "e8m0",
    "torch.float8_e4m3fn": "e4m3",
}
_FP8 = {
    "torch.float8_e4m3fn": "fp8_e4m3",
    "torch.float8_e5m2": "fp8_e5m2",
    "torch.float8_e4m3fnuz": "fp8_e4m3fnuz",
    "torch.float8_e5m2fnuz": "fp8_e5m2fnuz",
}


class NotDecoded(Exception):
    """Of a group whose library is known, and which cannot be decoded; says why."""


def format_of(name: str, source: str, **fields: Any) -> _core.QuantFormat:
    """A format by its name, with what differs."""
    made = _core.quant_format(name)
    made.source = source
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def scale_type_of(dtype: object) -> str:
    """The type of scales of a torch dtype."""
    known = _SCALE_TYPES.get(str(dtype))
    if known is None:
        raise NotDecoded(f"scales of {dtype}")
    return known


def block_in_matrix(shape: Sequence[int], block: Sequence[int]) -> tuple[int, int]:
    """A block of a tensor as rows and columns of the matrix it is seen as, all but the last dimension being rows.

    0 is all of them. Raises NotDecoded for a block that is no such rectangle.
    """
    if len(block) != len(shape) or not shape:
        raise NotDecoded(f"blocks of {list(block)} in a tensor of {len(shape)} dimensions")
    rows, whole, ragged = 1, True, False
    for length, step in zip(reversed(shape[:-1]), reversed(block[:-1]), strict=True):
        if whole:
            rows *= min(step, length)
            whole = step >= length
            ragged = not whole and length % step != 0
        elif length != 1 and (ragged or step != 1):
            raise NotDecoded(f"blocks of {list(block)} in a shape of {list(shape)}")
    all_rows = rows >= math.prod(shape[:-1])
    return 0 if all_rows else rows, 0 if block[-1] >= shape[-1] else block[-1]


def fp8_format(dtype: object, block: tuple[int, int], source: str, **fields: Any) -> _core.QuantFormat:
    """Of a float8 payload with f32 scales, by the block that has one."""
    base = _FP8.get(str(dtype))
    if base is None:
        raise NotDecoded(f"a payload of {dtype}")
    element = base.removeprefix("fp8_")
    by_blocks = {(1, 128): "fp8_block_1x128", (128, 128): "fp8_block_128x128"}
    name = by_blocks.get(block, f"{base}_row" if block == (1, 0) else base)
    return format_of(name, source, element=element, block_rows=block[0], block_columns=block[1], **fields)


def int_format(
    element: str, block: tuple[int, int], source: str, *, asymmetric: bool, packing: str = "none", **fields: Any
) -> _core.QuantFormat:
    """Of integers, by the block that has a scale."""
    base = "int4" if element.endswith("4") else "int8"
    grain = {(0, 0): "tensor", (1, 0): "channel"}.get(block, f"group{block[1]}" if block[0] == 1 else "channel")
    name = f"{base}_{grain}" + ("_asym" if asymmetric else "")
    made = format_of(name, source, element=element, packing=packing, block_rows=block[0], block_columns=block[1])
    for field, value in fields.items():
        setattr(made, field, value)
    return made
