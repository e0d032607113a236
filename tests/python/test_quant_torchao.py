"""Decoding and encoding against torchao, bit for bit."""

import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.prototype.mx_formats.utils import from_blocked, to_blocked
    from torchao.quantization import PerRow, PerTensor
    from torchao.quantization.granularity import PerBlock
    from torchao.quantization.quant_primitives import (
        MappingType,
        _choose_qparams_affine_tinygemm,
        _dequantize_affine_tinygemm,
        _quantize_affine_tinygemm,
    )
    from torchao.quantization.quantize_.workflows.float8.float8_tensor import Float8Tensor
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor
    from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import IntxUnpackedToInt8Tensor

from quantized import decode, encode, format_of, same_bits
from tensortap import _core

DTYPES = [torch.float32, torch.bfloat16]
# 100 × 80 and 100 × 96 need padding in both directions where scales are padded.
SHAPES = [(100, 96), (128, 128), (1, 32), (3, 160), (260, 352)]
NVFP4_SHAPES = [(100, 80), (128, 64), (1, 16), (3, 144), (260, 336)]


def values(shape, dtype, seed=0):
    """Of many magnitudes: blocks of zeros, subnormal numbers and huge ones among them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    x *= torch.exp2(torch.randint(-12, 12, (*shape[:-1], 1), generator=generator).float())
    flat = x.view(-1)
    flat[: min(16, flat.numel() // 2)] = 0
    if flat.numel() > 2048:
        flat[512:640] = 0
        flat[640:672] *= 1e-38
        flat[672:704] *= 1e-42
        flat[704:736] *= 1e30
    return x.to(dtype)


MX = {
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp8_e5m2": torch.float8_e5m2,
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp4": torch.float4_e2m1fn_x2,
}


def layout(swizzled):
    return "swizzled" if swizzled else "compact"


@pytest.mark.parametrize("swizzled", [False, True], ids=layout)
@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
@pytest.mark.parametrize("name", MX)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mx_is_encoded_and_decoded_as_torchao_does(shape, dtype, name, rule, swizzled):
    x = values(shape, dtype)
    theirs = MXTensor.to_mx(x, MX[name], 32, ScaleCalculationMode(rule), is_swizzled_scales=swizzled)
    made = format_of(name, scale_layout=layout(swizzled))
    payload, scale, _, _ = encode(x, made, mx_rule=rule)
    assert torch.equal(scale.view(torch.uint8).flatten(), theirs.scale.view(torch.uint8).flatten())
    assert torch.equal(payload, theirs.qdata.view(torch.uint8))
    for out in DTYPES:
        assert same_bits(decode(made, shape, theirs.qdata, theirs.scale, dtype=out), theirs.dequantize(out))


@pytest.mark.parametrize("rule", ["floor", "even", "rceil"])
@pytest.mark.parametrize("name", MX)
def test_mx_blocks_with_nan_and_infinity_decode_as_torchao_does(name, rule):
    x = values((4, 128), torch.float32)
    x[0, 3], x[1, 40], x[2, 70] = float("nan"), float("inf"), -float("inf")
    theirs = MXTensor.to_mx(x, MX[name], 32, ScaleCalculationMode(rule))
    made = format_of(name)
    payload, scale, _, _ = encode(x, made, mx_rule=rule)
    assert torch.equal(scale.view(torch.uint8), theirs.scale.view(torch.uint8))
    assert same_bits(decode(made, x.shape, payload, scale), theirs.dequantize(torch.float32))


@pytest.mark.parametrize("swizzled", [False, True], ids=layout)
@pytest.mark.parametrize("two_level", [False, True], ids=["one level", "two levels"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", NVFP4_SHAPES, ids=str)
def test_nvfp4_is_encoded_and_decoded_as_torchao_does(shape, dtype, two_level, swizzled):
    x = values(shape, dtype)
    amax = x.abs().amax()
    scale_of_tensor = per_tensor_amax_to_scale(amax) if two_level else None
    theirs = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale_of_tensor, is_swizzled_scales=swizzled)
    made = format_of("nvfp4", global_scale="factor" if two_level else "none", scale_layout=layout(swizzled))
    payload, scale, global_scale, _ = encode(x, made)
    if two_level:
        assert torch.equal(global_scale, scale_of_tensor.reshape(1))
    assert torch.equal(scale.view(torch.uint8).flatten(), theirs.scale.view(torch.uint8).flatten())
    assert torch.equal(payload, theirs.qdata)
    for out in DTYPES:
        ours = decode(made, shape, theirs.qdata, theirs.scale, scale_of_tensor, dtype=out)
        assert same_bits(ours, theirs.dequantize(out))


def test_nvfp4_with_a_scale_per_expert_decodes_as_torchao_does():
    x = values((3, 32, 64), torch.float32)
    scales = per_tensor_amax_to_scale(x.abs().amax(dim=(1, 2), keepdim=True))
    experts = [NVFP4Tensor.to_nvfp4(x[i], per_tensor_scale=scales[i, 0, 0]) for i in range(3)]
    payload = torch.stack([expert.qdata for expert in experts])
    scale = torch.stack([expert.scale.view(torch.uint8) for expert in experts])
    ours = decode(format_of("nvfp4"), x.shape, payload, scale, scales)
    assert same_bits(ours, torch.stack([expert.dequantize(torch.float32) for expert in experts]))


def test_a_transposed_tensor_decodes_as_torchao_does():
    x = values((96, 64), torch.bfloat16)
    theirs = NVFP4Tensor.to_nvfp4(x).t()
    made = format_of("nvfp4", global_scale="none", stored_transposed=True)
    ours = decode(made, theirs.shape, theirs.qdata.t(), theirs.scale.t(), dtype=torch.bfloat16)
    assert same_bits(ours, theirs.dequantize(torch.bfloat16).contiguous())


GRANULARITIES = {
    "fp8_e4m3": (PerTensor(), torch.float8_e4m3fn),
    "fp8_e5m2": (PerTensor(), torch.float8_e5m2),
    "fp8_e4m3_row": (PerRow(), torch.float8_e4m3fn),
    "fp8_e5m2_row": (PerRow(), torch.float8_e5m2),
    "fp8_e4m3fnuz": (PerTensor(), torch.float8_e4m3fnuz),
    "fp8_e5m2fnuz_row": (PerRow(), torch.float8_e5m2fnuz),
    "fp8_block_1x128": (PerBlock([1, 128]), torch.float8_e4m3fn),
    "fp8_block_128x128": (PerBlock([128, 128]), torch.float8_e4m3fn),
}


# torchao takes whole blocks only.
FP8_CASES = [
    (name, shape)
    for name in GRANULARITIES
    for shape in [(100, 80), (256, 384), (2, 100, 80)]
    if not name.startswith("fp8_block") or shape == (256, 384)
]


@pytest.mark.parametrize(("name", "shape"), FP8_CASES, ids=str)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16], ids=str)
def test_fp8_is_encoded_and_decoded_as_torchao_does(shape, dtype, name):
    granularity, element = GRANULARITIES[name]
    x = values(shape, dtype).clamp(-6e4, 6e4)
    x[..., ::64] = 0.5  # no block of zeros: of that torchao makes NaN
    theirs = Float8Tensor.from_hp(x, element, granularity)
    made = format_of(name)
    payload, scale, _, _ = encode(x, made)
    assert same_bits(scale.flatten(), theirs.scale.flatten())
    assert torch.equal(payload.view(torch.uint8), theirs.qdata.view(torch.uint8))
    for out in [*DTYPES, torch.float16]:
        assert same_bits(decode(made, shape, theirs.qdata, theirs.scale, dtype=out), theirs.dequantize(out))


@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize(("name", "granularity"), [("int8", PerRow()), ("int8_tensor", PerTensor())])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(100, 80), (64, 256)], ids=str)
def test_int8_is_encoded_and_decoded_as_torchao_does(shape, dtype, name, granularity, asymmetric):
    x = values(shape, dtype)
    mapping = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
    theirs = Int8Tensor.from_hp(x, granularity, mapping)
    made = format_of(name + ("_asym" if asymmetric else ""))
    payload, scale, _, zero = encode(x, made, smallest_scale=torch.finfo(torch.float32).eps)
    assert same_bits(scale.flatten(), theirs.scale.flatten())
    assert torch.equal(payload.view(torch.int8), theirs.qdata)
    if asymmetric:
        assert torch.equal(zero.flatten(), theirs.zero_point.flatten())
    for out in DTYPES:
        ours = decode(made, shape, theirs.qdata, theirs.scale, None, theirs.zero_point if asymmetric else None, out)
        assert same_bits(ours, theirs.dequantize(out))


@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("group", [16, 40, 80])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_int4_in_groups_is_encoded_and_decoded_as_torchao_does(dtype, group, asymmetric):
    x = values((100, 80), dtype)
    mapping = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
    theirs = IntxUnpackedToInt8Tensor.from_hp(x, (1, group), torch.int4, mapping_type=mapping)
    changes = {"packing": "none", "scale_type": "bf16" if dtype == torch.bfloat16 else "f32"}
    made = format_of(f"int4_group{group}" + ("_asym" if asymmetric else ""), **changes)
    payload, scale, _, zero = encode(x, made)
    assert same_bits(scale, theirs.scale)
    assert torch.equal(payload, theirs.qdata.view(torch.uint8) & 15)
    if asymmetric:
        assert torch.equal(zero, theirs.zero_point)
    ours = decode(made, x.shape, theirs.qdata, theirs.scale, None, theirs.zero_point if asymmetric else None, dtype)
    assert same_bits(ours, theirs.dequantize())


@pytest.mark.parametrize("high_first", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_int4_with_zeros_that_are_values_decodes_as_torchao_does(dtype, high_first):
    x = values((100, 80), dtype).clamp(-100, 100)
    block = (1, 16)
    scale, zero = _choose_qparams_affine_tinygemm(
        x, MappingType.ASYMMETRIC, block, torch.uint8, 0, 15, scale_dtype=dtype, zero_point_dtype=dtype
    )
    codes = _quantize_affine_tinygemm(x, block, scale, zero, torch.uint8, 0, 15)
    theirs = _dequantize_affine_tinygemm(codes, block, scale, zero, torch.uint8, 0, 15, output_dtype=dtype)
    first, second = codes[:, ::2], codes[:, 1::2]
    payload = first << 4 | second if high_first else first | second << 4
    made = format_of(
        "int4_group16",
        element="uint4",
        packing="high_first" if high_first else "low_first",
        zero_point="value",
        scale_type="bf16" if dtype == torch.bfloat16 else "f32",
    )
    assert same_bits(decode(made, x.shape, payload, scale, None, zero, dtype), theirs)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (100, 5), (128, 4), (129, 4), (300, 17), (512, 64)])
def test_scales_are_swizzled_as_torchao_does(rows, columns):
    scales = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
    theirs = to_blocked(scales)
    ours = torch.empty_like(theirs)
    _core.swizzle_scales(scales, ours)
    assert torch.equal(ours, theirs)
    back = torch.empty_like(scales)
    _core.unswizzle_scales(theirs, back)
    assert torch.equal(back, from_blocked(theirs, rows, columns))
