"""PyTorch's dtypes under TensorTap's names. Importing this registers them with the extension."""

from __future__ import annotations

import torch

from tensortap import _core

_DTYPES = {
    "bool": "bool", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8_e4m3fn", "float8_e5m2": "f8_e5m2",
    "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0fnu",
    "float4_e2m1fn_x2": "f4_e2m1fn_x2",
}  # fmt: skip
TORCH_DTYPES = {ours: getattr(torch, theirs) for theirs, ours in _DTYPES.items() if hasattr(torch, theirs)}
for _name, _dtype in TORCH_DTYPES.items():
    _core.register_dtype(_dtype, _name)
