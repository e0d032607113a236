"""TransformerEngine's tensors are recognised by their structure, and decode to the values they were built from."""

import pytest
import te_tensors
import torch
from quantized import same_bits
from tensortap import quant

# 100 × 96 and the like need padding wherever scales are padded.
SHAPES = [(96, 160), (128, 128), (32, 32), (2, 48, 96), (288, 352)]


def decoded(groups, step=""):
    return groups[step].decoded(torch.float32)


@pytest.mark.parametrize("e5m2", [False, True])
@pytest.mark.parametrize("shape", [(100, 80), (3, 20, 48), (7,)], ids=str)
def test_float8_with_its_transpose(shape, e5m2):
    made, values = te_tensors.float8(shape, e5m2)
    groups = quant.groups_of(made)
    assert list(groups) == ["", "columnwise"]
    assert groups[""].format.name == ("fp8_e5m2" if e5m2 else "fp8_e4m3")
    assert groups[""].format.source == "transformer_engine"
    assert groups[""].dtype == torch.bfloat16 and groups[""].shape == shape
    assert same_bits(decoded(groups), values)
    assert same_bits(decoded(groups, "columnwise"), values)


def test_a_transpose_that_is_marked_invalid_is_left_alone():
    made, _ = te_tensors.float8((8, 16), invalid=True)
    assert list(quant.groups_of(made)) == [""]


def test_a_tensor_of_columns_only_is_known_by_them():
    made, values = te_tensors.float8((8, 16), data=False)
    groups = quant.groups_of(made)
    assert list(groups) == [""] and groups[""].format.columnwise
    assert same_bits(decoded(groups), values)


@pytest.mark.parametrize("two_dimensional", [False, True], ids=["1D", "2D"])
@pytest.mark.parametrize("shape", [(100, 80), (256, 384), (2, 100, 200), (1, 130)], ids=str)
def test_blocks_of_128_in_both_directions(shape, two_dimensional):
    made, rowwise, columnwise = te_tensors.blockwise(shape, two_dimensional)
    groups = quant.groups_of(made)
    assert groups[""].format.name == ("fp8_block_128x128" if two_dimensional else "fp8_block_1x128")
    assert same_bits(decoded(groups), rowwise)
    assert same_bits(decoded(groups, "columnwise"), columnwise)
    assert groups["columnwise"].format.stored_transposed


@pytest.mark.parametrize("e5m2", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mxfp8_is_the_same_swizzled_and_compact(shape, e5m2):
    compact, rowwise, columnwise = te_tensors.mxfp8(shape, False, e5m2)
    tiled, _, _ = te_tensors.mxfp8(shape, True, e5m2)
    for made in (compact, tiled):
        groups = quant.groups_of(made)
        assert groups[""].format.name == ("mxfp8_e5m2" if e5m2 else "mxfp8_e4m3")
        assert same_bits(decoded(groups), rowwise)
        assert same_bits(decoded(groups, "columnwise"), columnwise)
    assert quant.groups_of(tiled)[""].format.scale_layout == "swizzled"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nvfp4_is_the_same_swizzled_and_compact(shape):
    plain = te_tensors.Quantizer()
    compact, rowwise, columnwise = te_tensors.nvfp4(shape, False, quantizer=plain)
    tiled, _, _ = te_tensors.nvfp4(shape, True, quantizer=plain)
    for made in (compact, tiled):
        groups = quant.groups_of(made)
        assert same_bits(decoded(groups), rowwise)
        assert same_bits(decoded(groups, "columnwise"), columnwise)
        assert not groups["columnwise"].format.rotated


def test_nvfp4_with_an_amax_per_row_and_the_smaller_maximum():
    made, rowwise, _ = te_tensors.nvfp4((48, 64), False, row_scaled=True, largest=256.0)
    groups = quant.groups_of(made)
    assert groups[""].format.global_per_row and groups[""].format.scale_maximum == 256
    assert same_bits(decoded(groups), rowwise)


def test_nvfp4_of_square_blocks_says_so_and_is_not_rotated():
    quantizer = te_tensors.Quantizer(with_rht=True, with_2d_quantization=True)
    groups = quant.groups_of(te_tensors.nvfp4((32, 64), False, quantizer=quantizer)[0])
    assert groups[""].format.shared_rows == 16
    assert not groups["columnwise"].format.rotated


@pytest.mark.parametrize("quantizer", [te_tensors.Quantizer(with_rht=True), None], ids=["rotated", "not known"])
def test_what_may_be_rotated_is_decoded_only_when_asked_for(quantizer):
    made, rowwise, columnwise = te_tensors.nvfp4((32, 64), False, quantizer=quantizer)
    groups = quant.groups_of(made)
    assert groups["columnwise"].format.rotated and "rotated" in groups["columnwise"].note
    with pytest.raises(ValueError, match="rotated"):
        groups["columnwise"].decoded()
    assert same_bits(groups["columnwise"].decoded(torch.float32, rotated=True), columnwise)
    assert same_bits(decoded(groups), rowwise)


@pytest.mark.parametrize("step", ["", "columnwise"])
@pytest.mark.parametrize("is_swizzled", [False, True])
@pytest.mark.parametrize("make", [te_tensors.mxfp8, te_tensors.nvfp4])
def test_the_compact_form_holds_the_same_without_padding(make, is_swizzled, step):
    group = quant.groups_of(make((96, 160), is_swizzled)[0])[step]
    compact = group.compact()
    assert compact.format.scale_layout == "compact"
    assert compact.parts()["scale"].shape == group.scales().shape
    assert same_bits(compact.decoded(torch.float32, rotated=True), group.decoded(torch.float32, rotated=True))
    assert same_bits(compact.scales(), group.scales())


def test_the_compact_form_of_scales_that_lie_transposed():
    made, rowwise, _ = te_tensors.blockwise((100, 200), two_dimensional=False)
    compact = quant.groups_of(made)[""].compact()
    assert compact.parts()["scale"].shape == (100, 2) and not compact.format.scale_transposed
    assert same_bits(compact.decoded(torch.float32), rowwise)


def test_a_class_of_the_same_name_and_another_structure_is_not_taken_for_it():
    class NVFP4Tensor(te_tensors._Wrapper):
        pass

    assert quant.groups_of(NVFP4Tensor((4, 4), _rowwise_data=torch.zeros(4, 2))) is None
