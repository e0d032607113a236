"""With `strict`, no guess decides: neither what is matched nor what is within tolerance."""

import copy
import subprocess

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import TTAP


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def made():
    torch.manual_seed(0)
    return nn.Sequential(*[Layer() for _ in range(4)]).eval(), torch.randn(3, 12, 64)


def recorded(model, directory, x):
    with tap.record(model, directory, roles=["in", "out"], modules="all", report=False), torch.no_grad():
        model(x)
    return directory


@pytest.fixture
def int8_weight(tmp_path):
    """An f32 model, and its bf16 copy in which one weight was rounded to 8 bits as well."""
    model, x = made()
    lower = copy.deepcopy(model).to(torch.bfloat16)
    weight = lower[2].up.weight
    step = weight.detach().abs().max() / 100
    weight.data = (weight / step).round() * step
    return recorded(model, tmp_path / "a", x), recorded(lower, tmp_path / "b", x.to(torch.bfloat16))


def test_other_calls_of_the_kind_do_not_count(int8_weight):
    found = tap.diff(*int8_weight)
    assert (found.verdict, found.first.key) == ("inconclusive", "2.up")
    assert "other calls of the kind" in found.first.reason
    assert tap.diff(*int8_weight, strict=True).verdict == "within tolerance"


def test_nothing_is_matched_by_structure_or_values(tmp_path):
    model, x = made()
    renamed = nn.Module()
    renamed.layers = nn.ModuleList(copy.deepcopy(model))
    renamed.forward = lambda x: nn.Sequential(*renamed.layers)(x)
    a, b = recorded(model, tmp_path / "a", x), recorded(renamed, tmp_path / "b", x)
    assert tap.diff(a, b).verdict == "identical"
    strict = tap.diff(a, b, strict=True)
    assert strict.verdict == "inconclusive"
    assert not any(tensor.matched in ("structure", "values") for tensor in strict.tensors)


def test_a_fault_beyond_rounding_is_named_all_the_same(tmp_path):
    model, x = made()
    wrong = copy.deepcopy(model)
    wrong[1].down.weight.data *= 1.02
    a, b = recorded(model, tmp_path / "a", x), recorded(wrong, tmp_path / "b", x)
    found = tap.diff(a, b, strict=True)
    assert (found.verdict, found.first.key, found.first.cause) == ("diverged", "1.down", "introduced")


def test_the_command_has_it(int8_weight):
    assert subprocess.run([TTAP, "diff", *int8_weight], capture_output=True).returncode == 1
    assert subprocess.run([TTAP, "diff", "--strict", *int8_weight], capture_output=True).returncode == 0
