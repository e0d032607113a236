"""Quantized tensors where graphs and probes meet them."""

import warnings

import pytest
import te_tensors
import tensortap as tap
import torch
from compiled_graphs import compiled_afresh, only_pass  # noqa: F401
from quantized import same_bits
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.quantization import PerRow
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(16, 8, bias=False), nn.ReLU())
    made[0].weight = nn.Parameter(Int8Tensor.from_hp(made[0].weight.detach(), PerRow()), requires_grad=False)
    return made


def test_a_graph_of_dynamo_has_the_group(tmp_path, model):
    x = torch.randn(4, 16)
    expected = model(x)
    with tap.graph_backend(tmp_path, stage="dynamo", report=False, strict=True) as backend, torch.no_grad():
        assert torch.equal(torch.compile(model, backend=backend)(x), expected)
    kept = only_pass(tmp_path)
    groups = [record.key for record in kept.records if record.group]
    assert groups
    for key in groups:
        assert same_bits(kept[key].decoded(), model[0].weight.dequantize())


def test_a_graph_behind_autograd_has_plain_tensors_only(tmp_path, model):
    x = torch.randn(4, 16)
    expected = model(x)
    with tap.graph_backend(tmp_path, stage="aot", report=False, strict=True) as backend, torch.no_grad():
        assert torch.allclose(torch.compile(model, backend=backend)(x), expected, atol=1e-5)
    kept = only_pass(tmp_path)
    assert not [record.key for record in kept.records if record.group]
    payload = model[0].weight.qdata
    assert any(record.dtype == "i8" and record.shape == tuple(payload.shape) for record in kept.records)
    assert backend.coverage["unsupported"] == []


@pytest.mark.parametrize("made", [te_tensors.float8((8, 16))[0], Int8Tensor.from_hp(torch.randn(8, 16), PerRow())])
def test_a_probe_says_that_the_parts_are_to_be_probed(made):
    with (
        tap.Probe("weight", [tap.Print()], mode="always") as probe,
        pytest.raises(TypeError, match=r"Tensor, quantized: probe tensortap\.quant\.groups_of"),
    ):
        probe(made)
