"""Quantized tensors with the class names, attributes and layouts of TransformerEngine."""

import math

import torch
from quantized import swizzled

E4M3, E5M2 = "DType.kFloat8E4M3", "DType.kFloat8E5M2"
GARBAGE = 0xA5


class _Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, shape, dtype=torch.bfloat16, **attributes):
        self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} ran on a quantized tensor")


class Float8Tensor(_Wrapper):
    pass


class Float8BlockwiseQTensor(_Wrapper):
    pass


class MXFP8Tensor(_Wrapper):
    pass


class NVFP4Tensor(_Wrapper):
    pass


class Quantizer:
    def __init__(self, with_rht=False, with_2d_quantization=False):
        self.with_rht = with_rht
        self.with_2d_quantization = with_2d_quantization


def up(length, step):
    return -(-length // step) * step


def padded(scales, rows, columns):
    """A matrix of scales within a larger one that holds garbage besides."""
    fill = GARBAGE if scales.dtype == torch.uint8 else 1e30
    whole = torch.full((rows, columns), fill, dtype=scales.dtype)
    whole[: scales.shape[0], : scales.shape[1]] = scales
    return whole


def scales_of_blocks(scales, rows, columns):
    """The scale of every value, from one for each block."""
    return scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)


class Random:
    """Codes and scales of a shape that is seen as rows × columns."""

    def __init__(self, shape, seed=0):
        self.generator = torch.Generator().manual_seed(seed)
        self.rows, self.columns = math.prod(shape[:-1]), shape[-1]

    def bytes(self, *shape, low=0, high=256):
        return torch.randint(low, high, shape, generator=self.generator, dtype=torch.uint8)

    def fp8(self, *shape):
        codes = self.bytes(*shape)
        codes[(codes & 0x7F) >= 0x7C] = 0x38  # no NaN, no infinity in either format
        return codes

    def floats(self, *shape):
        return torch.rand(shape, generator=self.generator) * 4 + 0.01


def fp8_values(codes, e5m2=False):
    return codes.view(torch.float8_e5m2 if e5m2 else torch.float8_e4m3fn).float()


def e8m0(scales):
    return scales.view(torch.float8_e8m0fnu).float()


FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def fp4_values(packed):
    pairs = torch.stack([packed & 15, packed >> 4], dim=-1)
    return FP4[pairs.flatten(-2).long()]


def float8(shape, e5m2=False, data=True, transpose=True, invalid=False):
    """The tensor, and the values it was built from."""
    random = Random(shape)
    codes, scale = random.fp8(random.rows, random.columns), random.floats(1)
    made = Float8Tensor(
        shape,
        _data=codes.view(shape) if data else None,
        _scale_inv=scale,
        _fp8_dtype=E5M2 if e5m2 else E4M3,
        _transpose=codes.t().contiguous() if transpose else None,
        _transpose_invalid=invalid,
        _quantizer=None,
    )
    return made, (fp8_values(codes, e5m2) * scale).view(shape)


def blockwise(shape, two_dimensional, rowwise=True, columnwise=True):
    """The tensor, the values along the rows and those along the columns."""
    random = Random(shape)
    rows, columns = random.rows, random.columns
    codes, transposed = random.fp8(rows, columns), random.fp8(columns, rows)
    by_rows, by_columns = -(-rows // 128), -(-columns // 128)
    if two_dimensional:
        scale, other = random.floats(by_rows, by_columns), random.floats(by_columns, by_rows)
        every = scales_of_blocks(scale, 128, 128)[:rows, :columns]
        every_other = scales_of_blocks(other, 128, 128)[:columns, :rows]
        stored = padded(scale, by_rows, up(by_columns, 4)), padded(other, by_columns, up(by_rows, 4))
    else:
        scale, other = random.floats(rows, by_columns), random.floats(columns, by_rows)
        every = scales_of_blocks(scale, 1, 128)[:, :columns]
        every_other = scales_of_blocks(other, 1, 128)[:, :rows]
        stored = padded(scale.t(), by_columns, up(rows, 4)), padded(other.t(), by_rows, up(columns, 4))
    made = Float8BlockwiseQTensor(
        shape,
        _rowwise_data=codes.view(shape) if rowwise else None,
        _rowwise_scale_inv=stored[0] if rowwise else None,
        _columnwise_data=transposed.view(columns, *shape[:-1]) if columnwise else None,
        _columnwise_scale_inv=stored[1] if columnwise else None,
        _fp8_dtype=E4M3,
        _is_2D_scaled=two_dimensional,
        _quantizer=None,
    )
    return made, (fp8_values(codes) * every).view(shape), (fp8_values(transposed) * every_other).t().reshape(shape)


def mxfp8(shape, is_swizzled, e5m2=False):
    random = Random(shape)
    rows, columns = random.rows, random.columns
    codes, other_codes = random.fp8(rows, columns), random.fp8(rows, columns)
    scale = random.bytes(rows, columns // 32, low=100, high=150)
    other = random.bytes(rows // 32, columns, low=100, high=150)
    if is_swizzled:
        stored = swizzled(scale).view(up(rows, 128), -1), swizzled(other.t().contiguous()).view(-1, up(columns, 128))
    else:
        stored = padded(scale, up(rows, 128), up(columns // 32, 4)), padded(other, up(rows // 32, 4), up(columns, 128))
    made = MXFP8Tensor(
        shape,
        _rowwise_data=codes.view(shape),
        _rowwise_scale_inv=stored[0],
        _columnwise_data=other_codes.view(shape),
        _columnwise_scale_inv=stored[1],
        _fp8_dtype=E5M2 if e5m2 else E4M3,
        _with_gemm_swizzled_scales=is_swizzled,
        _quantizer=None,
    )
    values = fp8_values(codes, e5m2) * scales_of_blocks(e8m0(scale), 1, 32)
    other_values = fp8_values(other_codes, e5m2) * scales_of_blocks(e8m0(other), 32, 1)
    return made, values.view(shape), other_values.view(shape)


def nvfp4(shape, is_swizzled, row_scaled=False, largest=448.0, quantizer=None):
    random = Random(shape)
    rows, columns = random.rows, random.columns
    codes, transposed = random.bytes(rows, columns // 2), random.bytes(columns, rows // 2)
    scale = random.bytes(rows, -(-columns // 16), high=0x7E)
    other = random.bytes(columns, -(-rows // 16), high=0x7E)
    amax, other_amax = random.floats(rows if row_scaled else 1), random.floats(1)

    def stored(scales):
        whole = padded(scales, up(scales.shape[0], 128), up(scales.shape[1], 4))
        return swizzled(scales).view(whole.shape) if is_swizzled else whole

    made = NVFP4Tensor(
        shape,
        _rowwise_data=codes.view(*shape[:-1], columns // 2),
        _rowwise_scale_inv=stored(scale),
        _columnwise_data=transposed,
        _columnwise_scale_inv=stored(other),
        _amax_rowwise=amax,
        _amax_columnwise=other_amax,
        _fp4_dtype="DType.kFloat4E2M1",
        _with_gemm_swizzled_scales=is_swizzled,
        _row_scaled_nvfp4=row_scaled,
        _nvfp4_e4m3_max=largest,
        _quantizer=quantizer,
    )

    def values(packed, scales, amax):
        factor = torch.tensor(1.0) / torch.tensor(6 * largest)
        block = fp8_values(scales) * amax.view(-1, 1) * factor
        return fp4_values(packed) * scales_of_blocks(block, 1, 16)[:, : packed.shape[1] * 2]

    return made, values(codes, scale, amax).view(shape), values(transposed, other, other_amax).t().reshape(shape)
