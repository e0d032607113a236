"""The quantized tensors of TransformerEngine, by class name and attributes.

A tensor may be quantized twice: along its rows, and along its columns for the GEMMs of the backward. The payload along
the columns is stored transposed, but for MXFP8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensortap import _core
from tensortap.quant.formats import format_of
from tensortap.quant.group import Group

_SOURCE = "transformer_engine"

# The payload and scale of one direction.
_Halves = tuple[torch.Tensor | None, torch.Tensor | None]


def groups_of(tensor: Any) -> dict[str, Group] | None:
    """The group along the rows, then the one along the columns; None for another kind of tensor."""
    for parent in type(tensor).__mro__:
        known = _READERS.get(parent.__name__)
        if known is not None and all(hasattr(tensor, name) for name in known[0]):
            found = known[1](tensor)
            # One that has columns only is known by these.
            return found if "" in found or not found else {"": found["columnwise"]}
    return None


def _group(tensor: Any, made: _core.QuantFormat, halves: _Halves, amax: torch.Tensor | None = None) -> Group:
    payload, scale = halves
    parts = {"payload": payload, "scale": scale, "global_scale": amax}
    note = "rotated before it was quantized, or not known whether it was" if made.rotated else ""
    return Group(made, tuple(tensor.shape), tensor.dtype, parts, note=note)


def _both(
    tensor: Any, rowwise: Callable[[], _core.QuantFormat], columnwise: Callable[[], _core.QuantFormat]
) -> dict[str, Group]:
    found = {}
    for step, side, made in (("", "rowwise", rowwise), ("columnwise", "columnwise", columnwise)):
        halves = getattr(tensor, f"_{side}_data"), getattr(tensor, f"_{side}_scale_inv")
        if halves[0] is not None and halves[1] is not None:
            found[step] = _group(tensor, made(), halves, getattr(tensor, f"_amax_{side}", None))
    return found


def _element(tensor: Any) -> str:
    return "e5m2" if "E5M2" in str(tensor._fp8_dtype) else "e4m3"


def _layout(tensor: Any) -> str:
    return "swizzled" if getattr(tensor, "_with_gemm_swizzled_scales", False) else "padded"


def _float8(tensor: Any) -> dict[str, Group]:
    name = f"fp8_{_element(tensor)}"
    found = {}
    if tensor._data is not None:
        found[""] = _group(tensor, format_of(name, _SOURCE), (tensor._data, tensor._scale_inv))
    transposed = getattr(tensor, "_transpose", None)
    if transposed is not None and not getattr(tensor, "_transpose_invalid", False):
        made = format_of(name, _SOURCE, stored_transposed=True)
        found["columnwise"] = _group(tensor, made, (transposed, tensor._scale_inv))
    return found


def _blockwise(tensor: Any) -> dict[str, Group]:
    common = {"element": _element(tensor), "scale_layout": "padded"}
    if tensor._is_2D_scaled:
        name = "fp8_block_128x128"
        return _both(
            tensor,
            lambda: format_of(name, _SOURCE, **common),
            lambda: format_of(name, _SOURCE, **common, stored_transposed=True),
        )
    name = "fp8_block_1x128"
    if "COMPACT" in str(getattr(tensor, "_data_format", "")):  # of versions up to 2.8
        return _both(
            tensor,
            lambda: format_of(name, _SOURCE, **common),
            lambda: format_of(name, _SOURCE, **common, block_rows=128, block_columns=1),
        )
    return _both(
        tensor,
        lambda: format_of(name, _SOURCE, **common, scale_transposed=True),
        lambda: format_of(name, _SOURCE, **common, scale_transposed=True, stored_transposed=True),
    )


def _mxfp8(tensor: Any) -> dict[str, Group]:
    name, layout = f"mxfp8_{_element(tensor)}", _layout(tensor)
    return _both(
        tensor,
        lambda: format_of(name, _SOURCE, scale_layout=layout),
        lambda: format_of(name, _SOURCE, scale_layout=layout, block_rows=32, block_columns=1),
    )


def _nvfp4(tensor: Any) -> dict[str, Group]:
    quantizer = getattr(tensor, "_quantizer", None)
    row_scaled = bool(getattr(tensor, "_row_scaled_nvfp4", False))
    two_dimensional = bool(getattr(quantizer, "with_2d_quantization", False))
    common = {
        "scale_layout": _layout(tensor),
        "global_scale": "amax",
        "scale_maximum": float(getattr(tensor, "_nvfp4_e4m3_max", None) or 448),
        "shared_rows": 16 if two_dimensional else 1,
    }
    # Only the quantizer knows whether the columns were rotated.
    rotated = not two_dimensional and bool(getattr(quantizer, "with_rht", quantizer is None))
    return _both(
        tensor,
        lambda: format_of("nvfp4_row" if row_scaled else "nvfp4", _SOURCE, **common),
        lambda: format_of("nvfp4", _SOURCE, **common, stored_transposed=True, rotated=rotated),
    )


_TWO_SIDES = ("_rowwise_data", "_rowwise_scale_inv", "_columnwise_data", "_columnwise_scale_inv")
# By class name: what it must have, and who reads it.
_READERS: dict[str, tuple[tuple[str, ...], Callable[[Any], dict[str, Group]]]] = {
    "Float8Tensor": (("_data", "_scale_inv", "_fp8_dtype"), _float8),
    "Float8BlockwiseQTensor": ((*_TWO_SIDES, "_fp8_dtype", "_is_2D_scaled"), _blockwise),
    "MXFP8Tensor": ((*_TWO_SIDES, "_fp8_dtype"), _mxfp8),
    "NVFP4Tensor": ((*_TWO_SIDES, "_amax_rowwise", "_amax_columnwise"), _nvfp4),
}
