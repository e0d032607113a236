"""Operators that take and give quantized tensors: the log names the format, and their groups are recorded."""

import warnings

import pytest
import te_tensors
import tensortap as tap
import torch
from quantized import same_bits
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.quantization import PerRow
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor


@pytest.fixture
def linear():
    torch.manual_seed(0)
    module = nn.Linear(32, 16, bias=False)
    module.weight = nn.Parameter(NVFP4Tensor.to_nvfp4(module.weight.detach()), requires_grad=False)
    return module


def saved(trace, directory):
    trace.save(directory)
    return tap.open(directory).ranks[0].passes[0]


def test_the_log_says_as_what_a_tensor_is_kept(linear):
    x = torch.ones(4, 32)
    with tap.trace() as trace:
        linear(x)
    assert "aten::t(t$0: f32[16, 32] as nvfp4) -> t$5: f32[32, 16] as nvfp4" in str(trace)
    assert "not read" not in str(trace)


@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_a_trace_has_the_groups_of_arguments_and_results(linear, tmp_path, level):
    x = torch.randn(4, 32)
    expected = linear(x)
    with tap.trace(level=level) as trace:
        assert torch.equal(linear(x), expected)
    assert "not read" not in str(trace)
    kept = saved(trace, tmp_path)
    assert [record.key for record in kept.records][:6] == [
        "Linear:aten::t@in/0", "Linear:aten::t@in/0/payload", "Linear:aten::t@in/0/scale",
        "Linear:aten::t", "Linear:aten::t/payload", "Linear:aten::t/scale",
    ]  # fmt: skip
    groups = [record for record in kept.records if record.group]
    assert [record.key for record in groups] == ["Linear:aten::t@in/0", "Linear:aten::t"]
    values_level = "sketch" if level == "full" else level  # their bytes are those of the parts
    assert all(record.level == values_level and record.hash for record in groups)
    # The product uses what the transposition made: there is one record of it.
    (product,) = [event for event in kept.events if event.name == "Linear:aten::mm" and event.uses[1].role == "in"][:1]
    assert kept.records[product.uses[1].record].key == "Linear:aten::t"
    # What runs inside uses the payload of the group.
    inner = next(event for event in kept.events if event.name == "Linear:aten::t" and event.call == 2)
    assert kept.records[inner.uses[0].record].key == "Linear:aten::t@in/0/payload"
    if level == "full":
        assert same_bits(kept["Linear:aten::t@in/0"].decoded(), linear.weight.dequantize())
        assert same_bits(kept["Linear:aten::t"].decoded(), linear.weight.dequantize().t().contiguous())


def test_a_recording_with_operators_has_them_too(linear, tmp_path):
    model, x = nn.Sequential(linear), torch.randn(4, 32)
    expected = model(x)
    with tap.record(model, tmp_path, ops=True, level="full", report=False) as recording:
        assert torch.equal(model(x), expected)
        assert torch.equal(model(x), expected)
    assert recording.coverage["notes"] == []
    for kept in tap.open(tmp_path).ranks[0].passes.values():  # each pass by itself
        assert same_bits(kept["0:aten::t@in/0"].decoded(), linear.weight.dequantize())


def test_a_weight_that_was_written_to_is_recorded_again(tmp_path):
    weight = Int8Tensor.from_hp(torch.randn(8, 16), PerRow())
    other = Int8Tensor.from_hp(torch.randn(8, 16), PerRow())
    with tap.trace(level="full") as trace:
        weight.detach()
        weight.copy_(other)
        weight.detach()
    kept = saved(trace, tmp_path)
    last = [event for event in kept.events if event.name == "aten::detach" and event.parent is None][-1]
    record = kept.records[last.uses[0].record]
    assert same_bits(kept[record.key].decoded(), other.dequantize())


class Watched(te_tensors.MXFP8Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return torch.zeros(2)


def test_both_directions_and_no_operator_on_the_tensor_itself(tmp_path):
    made, rowwise, columnwise = te_tensors.mxfp8((96, 160), False)
    watched = Watched((96, 160), **vars(made))
    with tap.trace(level="full") as trace:
        torch.neg(watched)
    kept = saved(trace, tmp_path)
    assert [event.name for event in kept.events] == ["aten::neg", "aten::zeros"]  # what its own class calls
    assert same_bits(kept["aten::neg@in/0"].decoded(torch.float32), rowwise)
    assert same_bits(kept["aten::neg@in/0/columnwise"].decoded(torch.float32), columnwise)


def test_what_is_not_decoded_says_why(tmp_path):
    made, _, _ = te_tensors.nvfp4((32, 64), False, quantizer=te_tensors.Quantizer(with_rht=True))

    class NVFP4(te_tensors.NVFP4Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return torch.zeros(2)

    with tap.trace(level="fingerprint") as trace:
        torch.neg(NVFP4((32, 64), **vars(made)))
    assert "/0/columnwise not read: rotated" in str(trace)
    kept = saved(trace, tmp_path)
    assert kept.record("aten::neg@in/0/columnwise").level == "meta"
    assert kept.record("aten::neg@in/0/columnwise").group


def test_an_unknown_subclass_is_not_read_as_before(tmp_path):
    class Unknown(te_tensors._Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return torch.zeros(2)

    with tap.trace(level="fingerprint") as trace:
        torch.neg(Unknown((4, 4)))
    assert "/0 not read: a tensor subclass" in str(trace)
