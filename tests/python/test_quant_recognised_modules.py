"""Weights that a module keeps in several tensors: compressed-tensors by their names, bitsandbytes by its attributes."""

import pytest
import te_tensors
import torch
from quantized import same_bits
from tensortap import quant
from torch import nn


def module_with(**tensors):
    """A linear module whose weight was replaced, as a loader of compressed-tensors does."""
    module = nn.Linear(4, 4, bias=False)
    del module.weight
    for name, tensor in tensors.items():
        module.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
    return module


def sized(module, rows, columns):
    module.out_features, module.in_features = rows, columns
    return module


def weight_of(module, name):
    groups = quant.groups_of_module(module)
    assert list(groups) == ["weight"]
    group = groups["weight"]
    assert group.format.name == name and group.format.source == "compressed-tensors"
    return group


def random_bytes(*shape, high=256):
    return torch.randint(0, high, shape, dtype=torch.uint8)


def packed_words(codes, bits):
    """Codes from 0 on in words of 32 bits, along the last dimension."""
    each = 32 // bits
    codes = torch.nn.functional.pad(codes.long(), (0, -codes.shape[1] % each))
    shifts = torch.arange(each) * bits
    return (codes.view(codes.shape[0], -1, each) << shifts).sum(-1).to(torch.int32)


def test_packed_nvfp4_divides_by_its_global_scale():
    payload, scale = random_bytes(20, 24), random_bytes(20, 3, high=0x7E).view(torch.float8_e4m3fn)
    module = module_with(weight_packed=payload, weight_scale=scale, weight_global_scale=torch.tensor([3.0]))
    group = weight_of(module, "nvfp4")
    assert group.shape == (20, 48) and group.dtype == torch.bfloat16
    assert set(group.members) == {"weight_packed", "weight_scale", "weight_global_scale"}
    expected = te_tensors.fp4_values(payload) * (scale.float() / 3.0).repeat_interleave(16, 1)
    assert same_bits(group.decoded(torch.float32), expected)


def test_packed_mxfp4():
    payload, scale = random_bytes(20, 32), random_bytes(20, 2, high=200)
    group = weight_of(module_with(weight_packed=payload, weight_scale=scale), "mxfp4")
    expected = te_tensors.fp4_values(payload) * te_tensors.e8m0(scale).repeat_interleave(32, 1)
    assert same_bits(group.decoded(torch.float32), expected)


@pytest.mark.parametrize("columns", [64, 60], ids=["whole words", "a word in part"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "bytes"])
def test_packed_integers(columns, bits, zeros):
    middle = 1 << bits - 1
    codes = random_bytes(24, columns, high=2 * middle)
    scale, zero = torch.rand(24, 2), random_bytes(24, 2, high=2 * middle)
    tensors = {"weight_packed": packed_words(codes, bits), "weight_scale": scale}
    if zeros == "packed":
        tensors["weight_zero_point"] = packed_words(zero.t().contiguous(), bits).t().contiguous()
    elif zeros == "bytes":
        tensors["weight_zero_point"] = (zero.int() - middle).to(torch.int8)
    module = sized(module_with(**tensors, weight_shape=torch.tensor([24, columns])), 24, columns)
    group = weight_of(module, f"int{bits}_group{columns // 2}" + ("" if zeros == "none" else "_asym"))
    assert group.shape == (24, columns)
    offset = torch.full((24, 2), float(middle)) if zeros == "none" else zero.float()
    expected = (codes.float() - offset.repeat_interleave(columns // 2, 1)) * scale.repeat_interleave(columns // 2, 1)
    assert same_bits(group.decoded(), expected)


@pytest.mark.parametrize(
    ("scale", "name"),
    [((1,), "fp8_e4m3"), ((130, 1), "fp8_e4m3_row"), ((130, 3), "fp8_block_1x128"), ((2, 3), "fp8_block_128x128")],
)
def test_fp8_beside_its_scale(scale, name):
    payload = torch.randn(130, 300).to(torch.float8_e4m3fn)
    scales = torch.rand(scale).to(torch.float32)
    group = weight_of(module_with(weight=payload, weight_scale=scales), name)
    if len(scale) == 1:
        every = scales
    else:
        rows, columns = -(-130 // scale[0]), 300 if scale[1] == 1 else 128
        rows = 128 if scale[0] == 2 else rows
        every = scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[:130, :300]
    assert same_bits(group.decoded(), payload.float() * every)


def test_scales_that_lie_another_way_are_said_not_to_be_decoded():
    payload = torch.randn(256, 512).to(torch.float8_e4m3fn)
    group = quant.groups_of_module(module_with(weight=payload, weight_scale=torch.rand(1, 256)))["weight"]
    assert group.format is None and "1 blocks along 256" in group.note


def test_blocks_of_several_matrices_that_fill_each_of_them():
    payload, scale = torch.randn(3, 256, 256).to(torch.float8_e4m3fn), torch.rand(3, 2, 2)
    group = weight_of(module_with(weight=payload, weight_scale=scale), "fp8_block_128x128")
    every = scale.repeat_interleave(128, 1).repeat_interleave(128, 2)
    assert same_bits(group.decoded(), payload.float() * every)


@pytest.mark.parametrize(
    ("shape", "scale", "why"),
    [
        ((4, 192, 256), (4, 2, 2), "blocks that end with each matrix"),
        ((4, 256, 256), (2, 2), "4 scales for 16 blocks"),
        ((4, 4, 128), (4,), "4 scales for 16 blocks"),
    ],
)
def test_scales_of_several_matrices_that_are_not_one_grid_are_said_not_to_be_decoded(shape, scale, why):
    payload = torch.randn(shape).to(torch.float8_e4m3fn)
    group = quant.groups_of_module(module_with(weight=payload, weight_scale=torch.rand(scale)))["weight"]
    assert group.format is None and why in group.note
    assert list(group.parts()) == ["payload", "scale"]


def test_packed_floats_with_more_scales_than_blocks_are_said_not_to_be_decoded():
    scale = random_bytes(128, 4, high=0x7E).view(torch.float8_e4m3fn)
    module = module_with(weight_packed=random_bytes(20, 24), weight_scale=scale, weight_global_scale=torch.ones(1))
    group = quant.groups_of_module(module)["weight"]
    assert group.format is None and "512 scales for 60 blocks" in group.note


class Scheme:
    """What compressed-tensors leaves at a module."""

    def __init__(self, bits):
        self.weights = self
        self.num_bits, self.group_size = bits, None


def unsized(module):
    del module.out_features, module.in_features
    return module


@pytest.mark.parametrize("bits", [4, 8])
def test_packed_integers_whose_scheme_says_how_many_bits_they_have(bits):
    middle = 1 << bits - 1
    codes, scale = random_bytes(8, 64, high=2 * middle), torch.rand(8, 2)
    module = unsized(module_with(weight_packed=packed_words(codes, bits), weight_scale=scale))
    unknown = quant.groups_of_module(module)["weight"]
    assert unknown.format is None and "how many bits" in unknown.note
    module.quantization_scheme = Scheme(bits)
    group = weight_of(module, f"int{bits}_group32")
    assert group.shape == (8, 64)
    assert same_bits(group.decoded(), (codes.float() - middle) * scale.repeat_interleave(32, 1))


def test_packed_integers_that_could_be_of_four_or_eight_bits_need_their_scheme():
    codes, scale = random_bytes(8, 4), torch.rand(8, 1)
    module = sized(module_with(weight_packed=packed_words(codes, 8), weight_scale=scale), 8, 4)
    assert quant.groups_of_module(module)["weight"].format is None
    module.quantization_scheme = Scheme(8)
    assert same_bits(weight_of(module, "int8_channel").decoded(), (codes.float() - 128) * scale)


def test_int8_with_zero_points():
    payload, scale = torch.randint(-128, 128, (8, 32), dtype=torch.int8), torch.rand(8, 1)
    zero = torch.randint(-8, 8, (8, 1), dtype=torch.int8)
    group = weight_of(module_with(weight=payload, weight_scale=scale, weight_zero_point=zero), "int8_channel_asym")
    assert same_bits(group.decoded(), (payload.float() - zero.float()) * scale)


def test_columns_in_another_order_are_said_not_to_be_decoded():
    module = module_with(
        weight_packed=torch.zeros(8, 4, dtype=torch.int32), weight_scale=torch.rand(8, 1), weight_g_idx=torch.zeros(32)
    )
    group = quant.groups_of_module(module)["weight"]
    assert group.format is None and "g_idx" in group.note
    assert list(group.parts()) == ["payload", "scale", "g_idx"]


def test_modules_without_scales_have_no_groups():
    assert quant.groups_of_module(nn.Linear(4, 4)) == {}
    assert quant.groups_of_module(nn.BatchNorm1d(4)) == {}


class QuantState:
    def __init__(self, nested):
        self.absmax, self.code, self.shape = torch.rand(8), torch.rand(16), torch.Size((16, 32))
        self.dtype, self.quant_type, self.nested = torch.bfloat16, "nf4", nested
        if nested:
            self.offset, self.state2 = torch.tensor(0.1), QuantState(False)


class Params4bit(nn.Parameter):
    quant_state = None


class Int8Params(nn.Parameter):
    CB = SCB = None


@pytest.mark.parametrize("nested", [False, True])
def test_four_bits_of_bitsandbytes_are_parts_with_a_note(nested):
    weight = Params4bit(random_bytes(256, 1), requires_grad=False)
    assert quant.groups_of(weight) is None  # not quantized yet
    weight.quant_state = QuantState(nested)
    group = quant.groups_of(weight)[""]
    assert group.format is None and "nf4" in group.note
    assert group.shape == (16, 32) and group.dtype == torch.bfloat16
    more = ["scale_offset", "scale_scale", "scale_code"] if nested else []
    assert list(group.parts()) == ["payload", "scale", "code", *more]
    assert type(group.parts()["payload"]) is torch.Tensor


def test_eight_bits_of_bitsandbytes():
    codes, largest = torch.randint(-127, 128, (8, 32), dtype=torch.int8), torch.rand(8)
    weight = Int8Params(codes, requires_grad=False)
    weight.CB, weight.SCB = codes, largest
    expected = codes.float() * (largest * torch.tensor(1 / 127)).view(-1, 1)
    assert same_bits(quant.groups_of(weight)[""].decoded(torch.float32), expected)
    # At its first call the module takes both away.
    module = nn.Linear(32, 8, bias=False)
    module.weight = Int8Params(codes, requires_grad=False)
    module.state = weight
    group = quant.groups_of_module(module)["weight"]
    assert group.members == ("weight",)
    assert same_bits(group.decoded(torch.float32), expected)
