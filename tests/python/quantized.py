"""Quantized tensors through the extension, as tests want them: torch tensors in and out."""

import copy

import tensortap.tensors.dtypes  # noqa: F401  # tells _core about the dtypes
import torch
from tensortap import _core

SCALE_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e8m0": torch.float8_e8m0fnu,
    "e4m3": torch.float8_e4m3fn,
}


def format_of(name, **changes):
    made = _core.quant_format(name)
    for field, value in changes.items():
        setattr(made, field, value)
    return made


def changed(made, **changes):
    made = copy.copy(made)
    for field, value in changes.items():
        setattr(made, field, value)
    return made


def decode(made, shape, payload, scale, global_scale=None, zero_point=None, dtype=torch.float32):
    out = torch.empty(*shape, dtype=dtype)
    _core.quant_decode(made, list(shape), payload, scale, global_scale, zero_point, out=out)
    return out


def encode(tensor, made, **options):
    """Payload, scale, global scale and zero point; None for what the format has not."""
    found = _core.quant_encode(tensor, made, **options)
    unsigned = made.element.startswith("u")
    dtypes = {
        "payload": torch.uint8,
        "scale": SCALE_DTYPES[made.scale_type],
        "global": torch.float32,
        "zero_point": torch.uint8 if unsigned else torch.int8,
    }

    def tensor_of(part, dtype):
        return None if part is None else torch.from_dlpack(part[0]).view(dtype).reshape(part[1])

    return tuple(tensor_of(found[name], dtype) for name, dtype in dtypes.items())


def same_bits(ours, theirs):
    """Equal to the bit, but that a NaN is a NaN: which one it is differs between the paths of PyTorch itself."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if not ours.dtype.is_floating_point:
        return torch.equal(ours, theirs)
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[ours.element_size()]
    nan_ours, nan_theirs = ours.float().isnan(), theirs.float().isnan()
    bits = (ours.contiguous().view(whole), theirs.contiguous().view(whole))
    return torch.equal(nan_ours, nan_theirs) and torch.equal(bits[0][~nan_ours], bits[1][~nan_theirs])


def swizzled(scales):
    """Scales of a byte each in the tiles of a GEMM, with garbage where there is none."""
    rows, columns = scales.shape
    tiles = torch.empty((-(-rows // 128) * 128) * (-(-columns // 4) * 4), dtype=torch.uint8)
    _core.swizzle_scales(scales.contiguous(), tiles)
    padding = torch.full((-(-rows // 128) * 128, -(-columns // 4) * 4), 1, dtype=torch.uint8)
    padding[:rows, :columns] = 0
    mask = torch.empty_like(tiles)
    _core.swizzle_scales(padding, mask)
    tiles[mask == 1] = 0xA5
    return tiles
