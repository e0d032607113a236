"""Convolutions and matrix products that PyTorch multiplies in TF32: their error is that of 10 bits."""

import json

import pytest
import tensortap as tap
import torch
from tensortap.session import metadata
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def in_tf32(values):
    """The same, with the 10 bits that TF32 has behind the first."""
    return ((values.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Records a net whose convolution, or linear layer, has factors in TF32; `said` is what PyTorch says of that."""

    def record(name, *, tf32=None, said=None, factor=1.0, **options):
        torch.manual_seed(0)
        net, x = Net(), torch.randn(4, 3, 12, 12)
        if tf32 is not None:
            module = getattr(net, tf32)
            module.weight.data = in_tf32(module.weight.data) * factor
        monkeypatch.setattr(metadata, "_fp32_precision", lambda: said or {})
        with tap.record(net, tmp_path / name, roles=["in", "out"], report=False, **options), torch.no_grad():
            net(x)
        return tmp_path / name

    return record


CONV, MATMUL = {"cpu": {"conv": "tf32"}}, {"cpu": {"matmul": "tf32"}}


@pytest.mark.parametrize("options", [{"level": "full"}, {"level": "sketch"}])
@pytest.mark.parametrize(("tf32", "said"), [("conv", CONV), ("head", MATMUL)])
def test_their_error_is_within_tolerance_where_pytorch_may_use_it(recorded, tf32, said, options):
    diff = tap.diff(recorded("a", said=said, **options), recorded("b", tf32=tf32, said=said, **options))
    assert diff.to_json()["verdict"] == "within tolerance", diff.sentence


@pytest.mark.parametrize("tf32", ["conv", "head"])
def test_without_it_there_is_an_error(recorded, tf32):
    diff = tap.diff(recorded("a"), recorded("b", tf32=tf32))
    assert diff.sentence == f"diverged: {tf32} introduced the error"


def test_what_multiplies_nothing_is_judged_as_f32(recorded):
    diff = tap.diff(recorded("a", said=MATMUL), recorded("b", tf32="conv", said=MATMUL))
    assert diff.sentence == "diverged: conv introduced the error"


def test_a_fault_is_found_beside_it(recorded):
    diff = tap.diff(recorded("a", said=CONV), recorded("b", tf32="conv", said=CONV, factor=1.02))
    assert diff.sentence == "diverged: conv introduced the error"


def test_it_is_told_where_only_one_side_may(recorded):
    diff = tap.diff(recorded("a"), recorded("b", tf32="conv", said=CONV))
    assert diff.to_json()["verdict"] == "within tolerance"
    (setting,) = diff.to_json()["passes"][0]["settings"]
    assert (setting["name"], setting["a"], setting["b"]) == ("fp32_precision", "ieee", "tf32")


def test_the_recording_says_what_pytorch_is_set_to(tmp_path):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with tap.record(nn.Linear(4, 4), tmp_path / "run", report=False):
            pass
        with tap.trace() as trace:
            torch.ones(2) + 1
        trace.save(tmp_path / "trace")
    finally:
        torch.set_float32_matmul_precision(before)
    for name in ("run", "trace"):
        (path,) = (tmp_path / name).glob("**/rank.json")
        assert json.loads(path.read_text())["program"]["fp32_precision"]["cpu"]["matmul"] == "bf16", path
