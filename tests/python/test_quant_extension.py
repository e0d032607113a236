"""Quantized tensors through the extension; what they hold is tested in tests/quant and against torchao."""

import pytest
import torch
from quantized import changed, decode, encode, format_of
from tensortap import _core


def test_formats_are_made_by_name_and_changed_by_word():
    made = format_of("nvfp4", scale_layout="swizzled", global_scale="amax")
    assert (made.element, made.packing, made.scale_type) == ("e2m1", "low_first", "e4m3")
    assert (made.block_rows, made.block_columns) == (1, 16)
    other = changed(made, stored_transposed=True)
    assert other.columnwise and not made.columnwise
    assert "mxfp6_e3m2" in _core.quant_format_names()


def test_an_unknown_name_or_word_lists_what_there_is():
    with pytest.raises(ValueError, match=r"no quantized format is called 'fp9'.*nvfp4"):
        _core.quant_format("fp9")
    with pytest.raises(ValueError, match="compact, padded, swizzled"):
        format_of("nvfp4", scale_layout="blocked")


@pytest.mark.parametrize("name", ["fp8", "mxfp8", "mxfp4", "nvfp4", "int8", "int4_group32_asym"])
def test_a_tensor_there_and_back(name):
    x = torch.randn(100, 96, generator=torch.Generator().manual_seed(1))
    made = format_of(name)
    back = decode(made, x.shape, *encode(x, made))
    assert (x - back).norm() < 0.2 * x.norm()
    assert torch.equal(back.bfloat16(), decode(made, x.shape, *encode(x, made), dtype=torch.bfloat16))


def test_strided_parts_are_read_where_they_lie():
    x = torch.randn(64, 128)
    made = format_of("mxfp8")
    payload, scale, _, _ = encode(x, made)
    apart = torch.zeros(64, 256, dtype=torch.uint8)[:, ::2]
    apart.copy_(payload)
    assert torch.equal(decode(made, x.shape, apart, scale), decode(made, x.shape, payload, scale))


def test_what_does_not_fit_is_refused():
    made = format_of("mxfp8")
    payload, scale = torch.zeros(4, 64, dtype=torch.uint8), torch.zeros(4, 2, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"scales of shape \[4, 1\] for 4 × 2 blocks"):
        decode(made, (4, 64), payload, scale[:, :1])
    with pytest.raises(ValueError, match="the payload has 256 bytes"):
        decode(made, (4, 32), payload, scale)
    with pytest.raises(ValueError, match="must be contiguous and of 1024 bytes"):
        _core.quant_decode(made, [4, 64], payload, scale, out=torch.empty(4, 32))
    with pytest.raises(ValueError, match="f32, f64, bf16 or f16"):
        decode(made, (4, 64), payload, scale, dtype=torch.int32)


def test_a_gpu_is_not_handed_memory_of_the_host():
    made = format_of("mxfp8")
    payload, scale = torch.zeros(4, 64, dtype=torch.uint8), torch.zeros(4, 2, dtype=torch.uint8)
    with pytest.raises(ValueError, match="takes CUDA tensors"):
        _core.quant_decode_gpu(made, [4, 64], payload, scale, out=torch.empty(4, 64), device=0, stream=0)


def test_statistics_of_recipes_and_of_what_was_done_agree():
    x = torch.randn(256, 256, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(2))
    recipes = [format_of(name) for name in ("nvfp4", "mxfp8", "fp8", "int8")]
    found = _core.quant_statistics(x, recipes, block_amax=True)
    assert [len(stats["codes"]) for stats in found] == [16, 256, 256, 256]
    for recipe, stats in zip(recipes, found):
        payload, scale, whole, zero = encode(x, recipe)
        done = _core.quant_group_statistics(x, recipe, payload, scale, whole, zero, block_amax=True)
        assert done["codes"] == stats["codes"]
        assert done["mse"] == pytest.approx(stats["mse"], rel=1e-12)
        back = decode(recipe, x.shape, payload, scale, whole, zero, dtype=torch.float64)
        assert stats["mse"] == pytest.approx(float((x.double() - back).square().mean()), rel=1e-6)
        assert stats["amax"] == float(x.abs().max())
    assert found[0]["sqnr_db"] < found[1]["sqnr_db"]


def test_scales_come_back_as_numbers():
    x = torch.randn(8, 64)
    made = format_of("nvfp4")
    payload, scale, whole, _ = encode(x, made)
    data, shape = _core.quant_decode_scales(made, [8, 64], payload, scale, whole)
    scales = torch.from_dlpack(data).view(torch.float32).reshape(shape)
    assert torch.equal(scales, whole * scale.float())


def test_a_thread_that_flushes_subnormal_numbers_decodes_them_all_the_same():
    made = format_of("mxfp8")
    payload, scale = torch.full((1, 32), 0x38, dtype=torch.uint8), torch.zeros(1, 1, dtype=torch.uint8)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        bits = decode(made, (1, 32), payload, scale).view(torch.int32)
    finally:
        torch.set_flush_denormal(False)
    assert bits.unique().tolist() == [1 << 22]  # 2^-127
