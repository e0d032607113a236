"""What is sorted by equal keys may stand in any order: two runs that choose another one are both right."""

import importlib.util
from pathlib import Path

import pytest
import tensortap as tap
import torch
from torch import nn

_spec = importlib.util.spec_from_file_location(
    "sorted_otherwise", Path(__file__).parents[2] / "bench" / "verdicts" / "sorted_otherwise.py"
)
sorted_otherwise = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sorted_otherwise)
ties_reversed = sorted_otherwise.ties_reversed


class Experts(nn.Module):
    """As experts do: rows are put in the order of their expert, worked on, and put back."""

    def __init__(self):
        super().__init__()
        self.up, self.act = nn.Linear(8, 8), nn.GELU()

    def forward(self, x):
        x = self.up(x)
        _, order = torch.sort(torch.arange(len(x)) * 7 % 3)
        made = self.act(x[order])
        out = torch.empty_like(made)
        out[order] = made
        return out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts, self.head = Experts(), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.experts(x))


def recorded(directory, **options):
    torch.manual_seed(0)
    model, x = Model(), torch.randn(20, 8)
    with tap.record(model, directory, report=False, **options), torch.no_grad():
        model(x)
    return directory


@pytest.mark.parametrize("level", ["full", "sketch", "fingerprint"])
@pytest.mark.parametrize(
    ("options", "at"),
    [
        ({"ops": True}, "experts:aten::sort/1"),
        ({"modules": "all", "roles": ["in", "out"]}, "experts.act@in/0"),
        ({"modules": "all"}, "experts.act"),
    ],
)
def test_another_order_of_equal_keys_is_no_fault(tmp_path, options, at, level):
    a = recorded(tmp_path / "a", level=level, **options)
    with ties_reversed():
        b = recorded(tmp_path / "b", level=level, **options)
    found = tap.diff(a, b)
    assert found.verdict in ("inconclusive", "within tolerance"), found
    assert next(tensor.key for tensor in found.tensors if tensor.verdict == "flipped") == at


def test_strict_guesses_no_sort(tmp_path):
    def pair(name, **options):
        a = recorded(tmp_path / name / "a", **options)
        with ties_reversed():
            return tap.diff(a, recorded(tmp_path / name / "b", **options), strict=True)

    assert pair("modules", modules="all", roles=["in", "out"]).verdict == "diverged"
    assert pair("sketch", ops=True, level="sketch").verdict == "diverged"
    assert pair("full", ops=True, level="full").verdict == "inconclusive"  # the keys prove it


class Weighted(nn.Module):
    def __init__(self, split):
        super().__init__()
        self.split, self.weight = split, nn.Parameter(torch.randn(8, 64) / 80)

    def forward(self, x):
        if self.split:
            scores = x[:, :32] @ self.weight[:, :32].t() + x[:, 32:] @ self.weight[:, 32:].t()
        else:
            scores = x @ self.weight.t()
        _, order = torch.sort(torch.arange(len(x)) * 7 % 3)
        return torch.sigmoid(scores).mean(-1)[order]


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_what_is_taken_in_that_order_follows_from_it_whatever_its_size(tmp_path, level):
    def run(directory, split):
        torch.manual_seed(0)
        model, x = Weighted(split), torch.randn(80, 64)
        with tap.record(model, directory, ops=True, level=level, report=False), torch.no_grad():
            model(x)
        return directory

    a = run(tmp_path / "a", False)
    with ties_reversed():
        b = run(tmp_path / "b", True)
    found = tap.diff(a, b)
    assert found.verdict == "inconclusive", found
    assert "near tie flipped at Weighted:aten::sort/1; all that differs follows from it" in found.sentence


def test_indices_of_other_keys_are_a_fault(tmp_path):
    a = recorded(tmp_path / "a", ops=True, level="full")
    with ties_reversed(then=lambda indices: indices.roll(1, -1)):
        b = recorded(tmp_path / "b", ops=True, level="full")
    found = tap.diff(a, b)
    assert (found.verdict, found.first.key) == ("diverged", "experts:aten::sort/1"), found


def test_another_order_that_is_not_put_back_is_a_fault(tmp_path):
    def run(directory, order):
        torch.manual_seed(0)
        model, x = Experts(), torch.randn(20, 8)
        act = model.act.forward
        model.act.forward = lambda y: act(y)[order]
        with tap.record(model, directory, modules="all", roles=["in", "out"], report=False), torch.no_grad():
            model(x)
        return directory

    found = tap.diff(run(tmp_path / "a", torch.arange(20)), run(tmp_path / "b", torch.arange(19, -1, -1)))
    assert (found.verdict, found.first.key) == ("diverged", "act"), found
