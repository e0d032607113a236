"""Recordings without bytes: how far two tensors are apart is estimated from their sketches."""

import copy
import math

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(48, 96), nn.LayerNorm(96), nn.Linear(96, 48)

    def forward(self, x):
        return self.down(F.gelu(self.norm(self.up(x))))


def recorded(model, x, directory, level="sketch"):
    options = {"roles": ["in", "out"], "modules": "all", "report": False, "level": level}
    with tap.record(model, directory, **options), torch.no_grad():
        model(x)
    return str(directory)


def changed(model, change):
    other = copy.deepcopy(model)
    forward = other.norm.forward
    other.norm.forward = lambda x: change(forward(x))
    return other


def swapped(y):
    """Rows 1 and 2 in each other's place: every sum over all is the same."""
    return y[:, [0, 2, 1, *range(3, y.shape[1])]]


def noisy(y):
    return y + y.abs().mean() * 0.05 * torch.randn(y.shape, generator=torch.Generator().manual_seed(5)).to(y)


CHANGES = {
    "rows swapped": swapped,
    "noise": noisy,
    "a factor": lambda y: y * 1.05,
    "a column zeroed": lambda y: torch.cat([y[..., :7], 0 * y[..., 7:8], y[..., 8:]], -1),
    "signs turned": lambda y: -y,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_the_error_is_estimated_and_its_module_named(tmp_path, name, dtype):
    torch.manual_seed(0)
    model, x = Net().to(dtype).eval(), torch.randn(2, 24, 48).to(dtype)
    other = changed(model, CHANGES[name])
    a, b = recorded(model, x, tmp_path / "a"), recorded(other, x, tmp_path / "b")
    found = tap.diff(a, b)
    assert found.verdict == "diverged", found.sentence
    assert found.first.key == "norm"
    assert found.first.evidence in ("sketch", "statistics")
    full = tap.diff(recorded(model, x, tmp_path / "fa", "full"), recorded(other, x, tmp_path / "fb", "full"))
    assert full.first.key == "norm"
    if found.first.evidence == "sketch":
        assert found.first.relative == pytest.approx(full.first.relative, rel=0.5)


def test_rounding_is_within_tolerance(tmp_path):
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 24, 48)

    def rounded(y):
        bits = y.view(torch.int32)
        return (bits + torch.randint(-1, 2, y.shape, generator=torch.Generator().manual_seed(3)).int()).view(
            torch.float32
        )

    a, b = recorded(model, x, tmp_path / "a"), recorded(changed(model, rounded), x, tmp_path / "b")
    found = tap.diff(a, b)
    assert found.verdict == "within tolerance", found.sentence
    norm = next(tensor for tensor in found.tensors if tensor.key == "norm")
    assert (norm.verdict, norm.evidence) == ("within tolerance", "sketch")
    assert 1e-9 < norm.relative < 1e-6
    assert math.isnan(norm.max_abs)  # no minimum or maximum is told as an error


def test_the_table_says_that_it_is_an_estimate(tmp_path):
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 24, 48)
    a, b = recorded(model, x, tmp_path / "a"), recorded(changed(model, swapped), x, tmp_path / "b")
    text = str(tap.diff(a, b))
    assert "~ " in text
    assert ">=" not in text


def test_a_trace_with_hashes_tells_rows_swapped_from_rounding():
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 24, 48)
    with torch.no_grad():
        with tap.trace(hashes=True) as a:
            model(x)
        with tap.trace(hashes=True) as b:
            changed(model, swapped)(x)
    found = tap.diff(a, b)
    assert found.verdict == "diverged", found.sentence
    assert not found.same


def test_level_fingerprint_has_no_sketch(tmp_path):
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 24, 48)
    other = copy.deepcopy(model)
    other.up.weight.data *= 1 + 1e-7
    levels = ("fingerprint", "sketch", "full")
    runs = {
        (level, name): recorded(which, x, tmp_path / f"{level}-{name}", level)
        for level in levels
        for name, which in (("a", model), ("b", other))
    }
    for level in levels:
        assert tap.open(runs[level, "a"]).ranks[0].passes[0].records[0].level == level
    with_them = tap.diff(runs["sketch", "a"], runs["sketch", "b"])
    assert with_them.verdict == "within tolerance", with_them.sentence
    assert tap.diff(runs["fingerprint", "a"], runs["fingerprint", "b"]).verdict == "inconclusive"
    # One of the two is not enough; the bytes have one beside them.
    assert tap.diff(runs["fingerprint", "a"], runs["sketch", "b"]).verdict == "inconclusive"
    assert tap.diff(runs["full", "a"], runs["sketch", "b"]).verdict == "within tolerance"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sketches_of_two_dtypes_are_held_against_each_other(tmp_path, dtype):
    torch.manual_seed(0)
    model, x = Net().to(dtype).eval(), torch.randn(2, 24, 48).to(dtype)
    a = recorded(copy.deepcopy(model).float(), x.float(), tmp_path / "a")
    sound = tap.diff(a, recorded(model, x, tmp_path / "b"))
    assert sound.verdict == "within tolerance", sound.sentence
    norm = next(tensor for tensor in sound.tensors if tensor.key == "norm")
    assert norm.evidence == "sketch"
    assert 1e-4 < norm.relative < 1e-2
    found = tap.diff(a, recorded(changed(model, swapped), x, tmp_path / "c"))
    assert found.verdict == "diverged", found.sentence
    assert found.first.key == "norm"
