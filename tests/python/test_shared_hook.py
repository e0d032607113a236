"""All recordings share one forward hook of a module, so they may begin and end while PyTorch walks its hooks."""

import copy
import pickle

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn.modules import module as torch_module


def record(model, folder, **options):
    return tap.record(model, folder, report=False, **options)


def value_of(folder, key):
    return tap.open(folder).ranks[0].passes[0][key]


@pytest.mark.parametrize("options", [{}, {"roles": ("in", "out")}, {"ops": True}])
def test_recordings_share_one_entry_and_leave_none(options, tmp_path):
    model = nn.Sequential(nn.ReLU())
    with record(model, tmp_path / "a", level="full", **options), record(model, tmp_path / "b"):
        assert len(model._forward_hooks) == len(model[0]._forward_hooks) == 1
        model(torch.tensor([-1.0, 2.0]))
    assert not model._forward_hooks and not model[0]._forward_hooks and not model[0]._forward_hooks_always_called
    assert not torch_module._global_forward_hooks
    for name in "a", "b":
        assert value_of(tmp_path / name, "0").tolist() == [0, 2]


def test_a_hook_of_the_program_is_called_between_those_before_and_after_it(tmp_path):
    model = nn.Sequential(nn.ReLU())
    with record(model, tmp_path / "before"):
        model[0].register_forward_hook(lambda module, args, output: 2 * output)
        with record(model, tmp_path / "after"):
            model(torch.tensor([1.0]))
    assert value_of(tmp_path / "before", "0").tolist() == [1]
    assert value_of(tmp_path / "after", "0").tolist() == [2]


def test_the_entry_stays_beside_a_hook_of_the_program_and_goes_with_it(tmp_path):
    model = nn.Sequential(nn.ReLU())
    handle = model[0].register_forward_hook(lambda module, args, output: None)
    with record(model, tmp_path / "first"):
        model(torch.ones(1))
    assert len(model[0]._forward_hooks) == 2
    with record(model, tmp_path / "second"):
        model(torch.ones(1))
    handle.remove()
    assert value_of(tmp_path / "second", "0").tolist() == [1]
    model(torch.ones(1))
    assert not model[0]._forward_hooks and not model[0]._forward_hooks_always_called


@pytest.mark.parametrize("options", [{}, {"roles": ("in", "out")}])
def test_a_call_that_raises_has_no_result(options, tmp_path):
    class Sometimes(nn.Module):
        def forward(self, x):
            if x.sum() < 0:
                raise ValueError
            return x

    model = nn.Sequential(Sometimes())
    with record(model, tmp_path, step="manual", **options) as recording, recording.step():
        for value in -1.0, 1.0:
            try:
                model(torch.tensor([value]))
            except ValueError:
                assert value < 0
    records = [record for record in tap.open(tmp_path).ranks[0].passes[0].records if record.role == "out"]
    assert [(record.name, record.call) for record in records] == [("0", 1 if not options else 2)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_made_meanwhile_is_not_recorded_but_can_be(copied, tmp_path):
    model = nn.Sequential(nn.ReLU())
    with record(model, tmp_path / "original"):
        other = copied(model)
        other(torch.tensor([3.0]))
    assert len(tap.open(tmp_path / "original").ranks[0].passes) == 0
    with record(other, tmp_path / "copy"):
        other(torch.tensor([4.0]))
    assert value_of(tmp_path / "copy", "0").tolist() == [4]
