"""One side in f32, the other in bf16, with casts that only one of them has."""

import copy

import pytest
import tensortap as tap
import torch
from torch import nn


class Mixer(nn.Module):
    shift = 0

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 32, bias=False)

    def forward(self, x):
        made = self.project(x)
        return made.roll(self.shift, -1) if self.shift else made


class Norm(nn.Module):
    """In f32 whatever the dtype, as many models have it: a cast where that is another."""

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer, self.norm = Mixer(), Norm()

    def forward(self, x):
        return x + self.norm(self.mixer(x))


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_an_op_before_a_cast_that_only_one_side_has_is_named(tmp_path, layer):
    torch.manual_seed(0)
    model, x = nn.Sequential(Layer(), Layer(), Layer()), torch.randn(2, 20, 32)
    port = copy.deepcopy(model).bfloat16()
    port[layer].mixer.shift = 8
    for name, each, given in (("f32", model, x), ("bf16", port, x.bfloat16())):
        with (
            tap.record(each, tmp_path / name, roles=["in", "out"], modules="all", ops=True, level="full", report=False),
            torch.no_grad(),
        ):
            each(given)
    found = tap.diff(tmp_path / "f32", tmp_path / "bf16")
    assert found.sentence.startswith(f"diverged: {layer}.mixer"), found
    assert "project" not in found.first.key, found


def one_element_off(made):
    """Written in place: the operator that did it says nothing of the values around."""
    made = made.clone()
    made.view(-1)[70] += 2 * made.float().std().to(made.dtype)
    return made


@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
@pytest.mark.parametrize("module", ["1", "1.mixer", "1.mixer.project"])
def test_one_element_that_a_module_moved_is_named_though_the_error_of_all_is_small(tmp_path, module, ops):
    torch.manual_seed(0)
    model, x = nn.Sequential(*(Layer() for _ in range(4))), torch.randn(4, 40, 32)
    wrong = copy.deepcopy(model).bfloat16()
    spoiled = wrong.get_submodule(module)
    spoiled.forward = lambda *args, forward=spoiled.forward: one_element_off(forward(*args))
    for name, each, given in (("f32", model, x), ("bf16", wrong, x.bfloat16())):
        with (
            tap.record(each, tmp_path / name, roles=["in", "out"], modules="all", ops=ops, level="full", report=False),
            torch.no_grad(),
        ):
            each(given)
    found = tap.diff(tmp_path / "f32", tmp_path / "bf16")
    first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
    named = first["name"] if first["event_kind"] == "module" else first["parent"]
    assert (found.verdict, named) == ("diverged", module), found.sentence
