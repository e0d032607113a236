"""torchao's tensors are recognised by their structure, and decode to what its dequantize gives, bit for bit."""

import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.float8.float8_training_tensor import Float8TrainingTensor, GemmInputRole
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.quantization import PerRow, PerTensor
    from torchao.quantization.granularity import PerBlock
    from torchao.quantization.quant_primitives import MappingType
    from torchao.quantization.quantize_.workflows.float8.float8_tensor import Float8Tensor
    from torchao.quantization.quantize_.workflows.int4.int4_tensor import Int4Tensor
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor
    from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import IntxUnpackedToInt8Tensor

from quantized import same_bits
from tensortap import quant
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = [torch.float32, torch.bfloat16]


def values(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 3).to(dtype)


def group_of(tensor, name):
    groups = quant.groups_of(tensor)
    assert list(groups) == [""]
    assert groups[""].format.name == name and groups[""].format.source == "torchao"
    assert groups[""].shape == tuple(tensor.shape) and groups[""].dtype == tensor.dtype
    return groups[""]


def is_as_torchao(tensor, name):
    group = group_of(tensor, name)
    return same_bits(group.decoded(), tensor.dequantize().contiguous())


MX = {
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp8_e5m2": torch.float8_e5m2,
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp4": torch.float4_e2m1fn_x2,
}


@pytest.mark.parametrize("swizzled", [False, True], ids=["compact", "swizzled"])
@pytest.mark.parametrize("name", MX)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(100, 96), (1, 32), (260, 352)], ids=str)
def test_mx(shape, dtype, name, swizzled):
    made = MXTensor.to_mx(values(shape, dtype), MX[name], 32, is_swizzled_scales=swizzled)
    assert is_as_torchao(made, name)
    if shape[0] > 1 and not name.startswith("mxfp6"):  # torchao has no such view
        assert is_as_torchao(made.t(), name)


@pytest.mark.parametrize("swizzled", [False, True], ids=["compact", "swizzled"])
@pytest.mark.parametrize("two_level", [False, True], ids=["one level", "two levels"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(100, 80), (1, 16), (260, 336)], ids=str)
def test_nvfp4(shape, dtype, two_level, swizzled):
    x = values(shape, dtype)
    scale = per_tensor_amax_to_scale(x.abs().amax()) if two_level else None
    made = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale, is_swizzled_scales=swizzled)
    assert is_as_torchao(made, "nvfp4")
    assert list(quant.groups_of(made)[""].parts()) == ["payload", "scale"] + ["global_scale"] * two_level
    if shape[0] > 1:
        assert is_as_torchao(made.t(), "nvfp4")


def test_nvfp4_of_experts():
    x = values((3, 32, 64))
    scales = per_tensor_amax_to_scale(x.abs().amax(dim=(1, 2), keepdim=True))
    experts = [NVFP4Tensor.to_nvfp4(x[i], per_tensor_scale=scales[i, 0, 0]) for i in range(3)]
    made = NVFP4Tensor(
        torch.stack([expert.qdata for expert in experts]),
        torch.stack([expert.scale.view(torch.uint8) for expert in experts]).view(torch.float8_e4m3fn),
        16,
        torch.float32,
        per_tensor_scale=scales,
    )
    assert is_as_torchao(made, "nvfp4")


FP8 = {
    "fp8_e4m3": (PerTensor(), torch.float8_e4m3fn),
    "fp8_e5m2": (PerTensor(), torch.float8_e5m2),
    "fp8_e4m3fnuz": (PerTensor(), torch.float8_e4m3fnuz),
    "fp8_e4m3_row": (PerRow(), torch.float8_e4m3fn),
    "fp8_e5m2fnuz_row": (PerRow(), torch.float8_e5m2fnuz),
    "fp8_block_1x128": (PerBlock([1, 128]), torch.float8_e4m3fn),
    "fp8_block_128x128": (PerBlock([128, 128]), torch.float8_e4m3fn),
}


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16], ids=str)
@pytest.mark.parametrize("name", FP8)
def test_fp8(name, dtype):
    granularity, element = FP8[name]
    made = Float8Tensor.from_hp(values((256, 384) if "block" in name else (100, 80), dtype), element, granularity)
    assert is_as_torchao(made, name)
    group = quant.groups_of(made.t())[""]
    assert same_bits(group.decoded(), made.t().dequantize().contiguous())


def test_fp8_of_three_dimensions():
    made = Float8Tensor.from_hp(values((2, 100, 80)), torch.float8_e4m3fn, PerRow())
    assert is_as_torchao(made, "fp8_e4m3_row")
    by_expert = Float8Tensor(made.qdata, torch.rand(2, 1, 1), [1, 100, 80], dtype=torch.float32)
    assert is_as_torchao(by_expert, "fp8_e4m3")


@pytest.mark.parametrize("shape", [(), (100, 1), (1, 80)], ids=str)
def test_fp8_of_training_divides_by_its_scale(shape):
    payload, scale = values((100, 80)).to(torch.float8_e4m3fn), torch.rand(shape) + 0.5
    axis = None if shape == () else -1 if shape[1] == 1 else 0
    made = Float8TrainingTensor(payload, scale, torch.float32, None, GemmInputRole.INPUT, axis)
    group = quant.groups_of(made)[""]
    assert group.format.scale_divides and group.dtype == torch.float32
    assert same_bits(group.decoded(), made.to_original_precision())


@pytest.mark.parametrize("mapping", [MappingType.SYMMETRIC, MappingType.ASYMMETRIC], ids=lambda mapping: mapping.name)
@pytest.mark.parametrize("granularity", [PerRow(), PerTensor()], ids=["row", "tensor"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_int8(dtype, granularity, mapping):
    made = Int8Tensor.from_hp(values((100, 80), dtype), granularity, mapping)
    assert is_as_torchao(made, "int8_channel_asym" if isinstance(granularity, PerRow) else "int8_tensor_asym")


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_integers_a_byte_each(dtype, bits):
    target = getattr(torch, f"int{bits}")
    made = IntxUnpackedToInt8Tensor.from_hp(
        values((100, 80), dtype), (1, 16), target, mapping_type=MappingType.ASYMMETRIC
    )
    assert is_as_torchao(made, "int4_group16_asym" if bits == 4 else "int8_group16_asym")


@pytest.mark.parametrize("shape", [(24, 64), (3, 24, 64)], ids=str)
def test_int4_with_scales_group_by_group(shape):
    # torchao makes and decodes these on a GPU only: held against its formula, code · scale + zero.
    codes = torch.randint(-8, 8, shape, dtype=torch.int8)
    packed = (codes[..., ::2] & 15) | (codes[..., 1::2] << 4)
    by_group = (*shape[:-2], shape[-1] // 16, shape[-2])
    scale, zero = torch.rand(by_group), torch.rand(by_group)
    made = Int4Tensor(packed, scale, zero, [1] * (len(shape) - 1) + [16], torch.Size(shape))
    every = [part.transpose(-2, -1).repeat_interleave(16, -1) for part in (scale, zero)]
    assert same_bits(group_of(made, "int4_group16_asym").decoded(), codes * every[0] + every[1])


class Domain:
    def __init__(self, name):
        self.name = name


class PlainAQTTensorImpl:
    def __init__(self, int_data, scale, zero_point):
        self.int_data, self.scale, self.zero_point = int_data, scale, zero_point


class AffineQuantizedTensor(torch.Tensor):
    """As torchao had it in earlier versions."""

    @staticmethod
    def __new__(cls, shape, tensor_impl, block_size, quant_min, quant_max, domain):
        self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)
        self.tensor_impl, self.block_size, self.zero_point_domain = tensor_impl, block_size, Domain(domain)
        self.quant_min, self.quant_max = quant_min, quant_max
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} ran on a quantized tensor")


@pytest.mark.parametrize("domain", ["INT", "FLOAT", "NONE"])
def test_affine_tensors_of_earlier_versions(domain):
    codes = torch.randint(0, 16, (20, 64), dtype=torch.uint8)
    scale = torch.rand(20, 2)
    zero = torch.rand(20, 2) if domain == "FLOAT" else torch.randint(0, 16, (20, 2), dtype=torch.uint8)
    made = AffineQuantizedTensor((20, 64), PlainAQTTensorImpl(codes, scale, zero), (1, 32), 0, 15, domain)
    scales, zeros = scale.repeat_interleave(32, 1), zero.repeat_interleave(32, 1).float()
    plain = codes.float()
    expected = {"INT": (plain - zeros) * scales, "FLOAT": (plain - 8) * scales + zeros, "NONE": plain * scales}
    assert same_bits(quant.groups_of(made)[""].decoded(), expected[domain])


def test_a_layout_that_is_a_kernels_own_is_said_not_to_be_decoded():
    class Int4TilePackedTo4dTensor(AffineQuantizedTensor):
        qdata, scale_and_zero = torch.zeros(2, 2, 32, 4), torch.zeros(4, 8, 2)

        def __tensor_flatten__(self):
            return ["qdata", "scale_and_zero"], None

    group = quant.groups_of(Int4TilePackedTo4dTensor((8, 8), None, (1, 8), 0, 15, "INT"))[""]
    assert group.format is None and "kernel" in group.note
    assert list(group.parts()) == ["qdata", "scale_and_zero"]
    with pytest.raises(ValueError, match="cannot be decoded"):
        group.decoded()


def test_blocks_that_are_no_rectangle_of_the_matrix_are_said_not_to_be_decoded():
    payload = torch.zeros(4, 6, 8).to(torch.float8_e4m3fn)
    made = Float8Tensor(payload, torch.rand(2, 6, 1), [2, 1, 8], dtype=torch.float32)
    group = quant.groups_of(made)[""]
    assert group.format is None and "[2, 1, 8]" in group.note


def test_no_mode_sees_that_a_tensor_is_looked_at():
    class Loud(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError(f"{func} was seen")

    made = NVFP4Tensor.to_nvfp4(values((96, 64))).t()
    expected = made.dequantize().contiguous()
    with Loud():
        ours = quant.groups_of(made)[""].decoded()
    assert same_bits(ours, expected)


def test_statistics_against_the_tensor_before():
    x = values((64, 64))
    stats = quant.groups_of(NVFP4Tensor.to_nvfp4(x))[""].statistics(x)
    assert stats["count"] == 64 * 64 and 10 < stats["sqnr_db"] < 40
    with pytest.raises(ValueError, match="shape"):
        quant.groups_of(NVFP4Tensor.to_nvfp4(x))[""].statistics(x[:32])


def test_plain_tensors_are_no_groups():
    assert quant.groups_of(torch.zeros(3)) is None
    assert quant.groups_of(torch.nn.Parameter(torch.zeros(3))) is None
