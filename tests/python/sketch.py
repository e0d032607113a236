"""The sketch of a fingerprint, written from docs/fingerprint.md."""

from __future__ import annotations

import numpy as np

VALUE_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "c64": 4, "f64": 8, "c128": 8}


def values_of_bytes(dtype: str, data: bytes) -> np.ndarray:
    """The real values of a tensor whose dtype has a sketch."""
    if dtype == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, {2: np.float16, 4: np.float32, 8: np.float64}[VALUE_BYTES[dtype]]).astype(np.float64)


def _mix32(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def sketch(values: np.ndarray) -> np.ndarray:
    """Of the real values of a tensor in C order, as float64."""
    number = np.arange(values.size, dtype=np.uint64)
    unit, row, group = number // 4096, number // 256 % 16, number // 8 % 32
    place = number % 8 ^ (row % 2 * 2) ^ (row // 8 * 4)
    with np.errstate(over="ignore"):
        low, high = (unit % 2**32).astype(np.uint32), (unit // 2**32).astype(np.uint32)
        seed = _mix32(low + high * np.uint32(0x85EBCA6B) + np.uint32(1))

        def signs(which: np.ndarray) -> np.ndarray:
            return _mix32(seed + which.astype(np.uint32) * np.uint32(0x9E3779B9)).astype(np.uint64)

        minus = (signs(group % 16) >> (2 * row + group // 16) ^ signs(16 + group % 8) >> place) & 1
        flip = (seed * np.uint32(0x9E3779B9)) >> np.uint32(27)
    bucket = (8 * group + place) % 32 ^ flip.astype(np.uint64)
    counted = np.where(np.abs(values) < 2.0**64, values, 0)
    return np.bincount(bucket.astype(np.int64), weights=np.where(minus == 1, -counted, counted), minlength=32)
