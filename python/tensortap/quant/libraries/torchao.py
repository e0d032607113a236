"""The quantized tensors of torchao, by class name and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensortap.quant.formats import NotDecoded, block_in_matrix, format_of, fp8_format, int_format, scale_type_of
from tensortap.quant.group import Group

_SOURCE = "torchao"
_MX = {
    "torch.float8_e4m3fn": "mxfp8_e4m3",
    "torch.float8_e5m2": "mxfp8_e5m2",
    "fp6_e2m3": "mxfp6_e2m3",
    "fp6_e3m2": "mxfp6_e3m2",
    "torch.float4_e2m1fn_x2": "mxfp4",
}


def groups_of(tensor: Any) -> dict[str, Group] | None:
    """The one group of such a tensor; None for another kind of tensor."""
    for parent in type(tensor).__mro__:
        known = _READERS.get(parent.__name__)
        if known is None:
            continue
        attributes, read = known
        if not all(hasattr(tensor, name) for name in attributes):
            continue  # another library's class of the same name
        try:
            return {"": read(tensor)}
        except NotDecoded as why:
            return {"": _undecoded(tensor, f"{parent.__name__} of torchao: {why}")}
    return None


def _undecoded(tensor: Any, note: str) -> Group:
    inner = {name: getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]}
    return Group(None, tuple(tensor.shape), tensor.dtype, inner, note=note)


def _group(tensor: Any, made: Any, **parts: torch.Tensor | None) -> Group:
    return Group(made, tuple(tensor.shape), tensor.dtype, parts)


def _stored(tensor: Any) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Payload and scales as they were quantized: a tensor that was transposed is a view of them."""
    payload, scale = tensor.qdata, tensor.scale
    if payload.dim() < 2 or payload.stride(-2) >= payload.stride(-1):
        return payload, scale, False
    if payload.dim() != 2:
        raise NotDecoded("transposed, of three dimensions")
    return payload.t(), scale.t(), True


def _nvfp4(tensor: Any) -> Group:
    payload, scale, transposed = _stored(tensor)
    made = format_of(
        "nvfp4",
        _SOURCE,
        block_columns=tensor.block_size,
        scale_layout="swizzled" if tensor.is_swizzled_scales else "compact",
        stored_transposed=transposed,
        global_scale="factor" if tensor.per_tensor_scale is not None else "none",
    )
    return _group(tensor, made, payload=payload, scale=scale, global_scale=tensor.per_tensor_scale)


def _mx(tensor: Any) -> Group:
    name = _MX.get(str(tensor.elem_dtype))
    if name is None:
        raise NotDecoded(f"elements of {tensor.elem_dtype}")
    payload, scale, transposed = _stored(tensor)
    made = format_of(
        name,
        _SOURCE,
        block_columns=tensor.block_size,
        scale_layout="swizzled" if tensor.is_swizzled_scales else "compact",
        stored_transposed=transposed,
    )
    return _group(tensor, made, payload=payload, scale=scale)


def _float8(tensor: Any) -> Group:
    block = block_in_matrix(tensor.shape, tensor.block_size or tensor.shape)
    made = fp8_format(tensor.qdata.dtype, block, _SOURCE, scale_type=scale_type_of(tensor.scale.dtype))
    return _group(tensor, made, payload=tensor.qdata, scale=tensor.scale)


def _float8_of_training(tensor: Any) -> Group:
    """Its scale is what the values were multiplied by."""
    scale = tensor._scale
    block = (0, 0)
    if scale.numel() > 1:
        ones = [1] * (tensor.dim() - scale.dim()) + list(scale.shape)
        lengths = [1 if own > 1 else length for own, length in zip(ones, tensor.shape, strict=True)]
        block = block_in_matrix(tensor.shape, lengths)
    made = fp8_format(tensor._data.dtype, block, _SOURCE, scale_type=scale_type_of(scale.dtype), scale_divides=True)
    return _group(tensor, made, payload=tensor._data, scale=scale)


def _int8(tensor: Any) -> Group:
    zero_point = tensor.zero_point
    block = block_in_matrix(tensor.shape, tensor.block_size)
    made = int_format(
        "int8", block, _SOURCE, asymmetric=zero_point is not None, scale_type=scale_type_of(tensor.scale.dtype)
    )
    return _group(tensor, made, payload=tensor.qdata, scale=tensor.scale, zero_point=zero_point)


def _intx(tensor: Any) -> Group:
    """Up to eight bits, a byte each."""
    element = "int4" if str(tensor.target_dtype) == "torch.int4" else "int8"
    block = block_in_matrix(tensor.shape, tensor.block_size)
    made = int_format(element, block, _SOURCE, asymmetric=True, scale_type=scale_type_of(tensor.scale.dtype))
    return _group(tensor, made, payload=tensor.qdata, scale=tensor.scale, zero_point=tensor.zero_point)


def _int4(tensor: Any) -> Group:
    """Two a byte; scales and zero points, which are values, lie group by group."""
    scale, zero_point = tensor.scale, tensor.zero_point
    flat = tensor.dim() == 2
    if not flat:
        scale, zero_point = scale.transpose(-2, -1), zero_point.transpose(-2, -1)
    made = int_format(
        "int4",
        block_in_matrix(tensor.shape, tensor.block_size),
        _SOURCE,
        asymmetric=True,
        packing="low_first",
        scale_type=scale_type_of(scale.dtype),
        scale_transposed=flat,
        zero_point="value",
    )
    return _group(tensor, made, payload=tensor.qdata, scale=scale, zero_point=zero_point)


def _affine(tensor: Any) -> Group:
    """As torchao had it up to 0.15: a tensor around an implementation that holds plain ones."""
    inner = tensor.tensor_impl
    block = block_in_matrix(tensor.shape, tensor.block_size)
    if hasattr(inner, "float8_data"):
        made = fp8_format(inner.float8_data.dtype, block, _SOURCE, scale_type=scale_type_of(inner.scale.dtype))
        return _group(tensor, made, payload=inner.float8_data, scale=inner.scale)
    if not hasattr(inner, "int_data"):
        raise NotDecoded(f"in the layout of {type(inner).__name__}")
    payload, zero_point = inner.int_data, inner.zero_point
    if payload.element_size() != 1:
        raise NotDecoded(f"a payload of {payload.dtype}")
    domain = getattr(getattr(tensor, "zero_point_domain", None), "name", "INT")
    small = tensor.quant_min is not None and tensor.quant_max - tensor.quant_min == 15
    element = ("" if payload.dtype == torch.int8 else "u") + ("int4" if small else "int8")
    if domain == "NONE":
        zero_point = None
    made = int_format(
        element,
        block,
        _SOURCE,
        asymmetric=zero_point is not None,
        scale_type=scale_type_of(inner.scale.dtype),
        zero_point="none" if zero_point is None else "value" if domain == "FLOAT" else "integer",
    )
    return _group(tensor, made, payload=payload, scale=inner.scale, zero_point=zero_point)


def _tiled(tensor: Any) -> Group:
    raise NotDecoded("in the layout of its kernel")


# By class name: what it must have, and who reads it.
_READERS: dict[str, tuple[tuple[str, ...], Callable[[Any], Group]]] = {
    "NVFP4Tensor": (("qdata", "scale", "block_size", "is_swizzled_scales", "per_tensor_scale"), _nvfp4),
    "MXTensor": (("qdata", "scale", "elem_dtype", "block_size", "is_swizzled_scales"), _mx),
    "Float8Tensor": (("qdata", "scale", "block_size"), _float8),
    "Float8TrainingTensor": (("_data", "_scale", "_orig_dtype"), _float8_of_training),
    "Int8Tensor": (("qdata", "scale", "zero_point", "block_size"), _int8),
    "IntxUnpackedToInt8Tensor": (("qdata", "scale", "zero_point", "block_size", "target_dtype"), _intx),
    "Int4Tensor": (("qdata", "scale", "zero_point", "block_size"), _int4),
    "AffineQuantizedTensor": (("tensor_impl", "block_size", "quant_min", "quant_max"), _affine),
    "Int4TilePackedTo4dTensor": (("qdata", "scale_and_zero"), _tiled),
    "Int4PreshuffledTensor": (("qdata",), _tiled),
    "Int4PlainInt32Tensor": (("qdata", "scale", "zero_point"), _tiled),
}
