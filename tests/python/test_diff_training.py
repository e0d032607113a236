"""Two versions of a training step: an extra random draw, and an optimizer that treats a parameter differently."""

import gc
import weakref

import pytest
import tensortap as tap
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, draws=0, tied=False):
        super().__init__()
        self.draws = draws
        self.norm, self.fc, self.drop, self.head = (
            nn.LayerNorm(24),
            nn.Linear(24, 24),
            nn.Dropout(0.2),
            nn.Linear(24, 5),
        )
        if tied:
            self.norm2 = nn.LayerNorm(24)
            self.norm2.weight = self.norm.weight

    def forward(self, x):
        x = self.fc(self.norm(x))
        for _ in range(self.draws):
            torch.rand(1)
        return self.head(self.drop(x))


def trained(directory, *, draws=0, decay=0.0, steps=1, beta=0.999, clip=None, tied=False, wrapped=False, **way):
    torch.manual_seed(0)
    model = Model(draws, tied)
    groups = [
        {"params": [model.norm.weight, model.norm.bias], "weight_decay": decay},
        {"params": [*model.fc.parameters(), *model.head.parameters()], "weight_decay": 0.1},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, beta), **(way or {"foreach": False}))
    x = torch.randn(6, 24)
    model = nn.DataParallel(model) if wrapped else model
    with tap.record(model, directory, ops=True, level="sketch", report=False) as recording:
        for _ in range(steps):
            with recording.step():
                optimizer.zero_grad()
                model(x).square().mean().backward()
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
    return str(directory)


@pytest.mark.parametrize("sides", [(0, 1), (1, 0)], ids=["in B", "in A"])
def test_a_draw_that_only_one_side_makes_is_named_before_the_dropout_that_suffers(tmp_path, sides):
    a, b = (trained(tmp_path / str(i), draws=draws) for i, draws in enumerate(sides))
    found = tap.diff(a, b)
    assert found.verdict == "diverged"
    assert "aten::rand" in found.first.key, found.sentence
    assert f"which only {'AB'[sides[1] == 1]} has" in found.sentence
    assert f"only {'AB'[sides[1] == 1]} draws these random numbers" in found.first.reason


def test_draws_on_both_sides_are_not_blamed(tmp_path):
    a, b = (trained(tmp_path / str(i), draws=2) for i in range(2))
    assert tap.diff(a, b).verdict == "identical"


WAYS = {"one by one": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_parameter_that_an_optimizer_updates_is_named(tmp_path, way):
    a, b = trained(tmp_path / "a", **way), trained(tmp_path / "b", decay=0.1, **way)
    found = tap.diff(a, b)
    assert found.verdict == "diverged"
    assert (found.first.tensor_name, found.first.updates) == ("norm.weight", True), found.sentence
    assert " on norm.weight" in found.sentence
    assert found.sentence.endswith(": weight_decay is 0.0 in A and 0.1 in B")
    assert "it updates norm.weight" in found.evidence
    assert "AdamW of norm.bias and 1 more: weight_decay is 0.0 in A and 0.1 in B" in found.evidence


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_state_of_an_optimizer_is_named_by_its_parameter(tmp_path, way):
    a, b = trained(tmp_path / "a", **way), trained(tmp_path / "b", beta=0.9, **way)
    found = tap.diff(a, b)
    assert found.sentence.endswith(": betas is (0.9, 0.999) in A and (0.9, 0.9) in B")
    names = {tensor.tensor_name for tensor in found.tensors if tensor.updates and tensor.verdict == "diverged"}
    assert {"state of norm.weight", "state of head.bias"} <= names
    a, b = trained(tmp_path / "a2", steps=2, **way), trained(tmp_path / "b2", steps=2, beta=0.9, **way)
    found = tap.diff(a, b, passes="1")
    names = {tensor.tensor_name for tensor in found.tensors if tensor.updates and tensor.verdict == "diverged"}
    assert {"exp_avg_sq of norm.weight", "exp_avg_sq of head.bias"} <= names


def test_a_gradient_that_is_clipped_differently_is_named(tmp_path):
    a, b = trained(tmp_path / "a", clip=0.5), trained(tmp_path / "b", clip=0.25)
    found = tap.diff(a, b)
    names = [tensor.tensor_name for tensor in found.tensors if tensor.updates and tensor.verdict == "diverged"]
    assert names[:2] == ["gradient of norm.weight", "gradient of norm.bias"], found.sentence


def test_a_parameter_has_all_its_names_and_none_of_a_wrapper(tmp_path):
    a, b = (trained(tmp_path / str(i), decay=decay, tied=True, wrapped=True) for i, decay in enumerate((0, 0.1)))
    found = tap.diff(a, b)
    assert found.first.tensor_name == "norm.weight (also norm2.weight)", found.sentence


def test_a_trace_names_parameters_too():
    def traced(decay):
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, weight_decay=decay, foreach=False)
        with tap.trace(hashes=True) as trace:
            model(torch.ones(6, 24)).square().mean().backward()
            optimizer.step()
        return trace

    found = tap.diff(traced(0.1), traced(0.2))
    assert "norm.weight" in {tensor.tensor_name for tensor in found.tensors if tensor.updates}


def test_a_buffer_is_named(tmp_path):
    def recorded(directory, momentum):
        torch.manual_seed(0)
        model = nn.Sequential(nn.BatchNorm1d(24, momentum=momentum))
        with tap.record(model, directory, ops=True, report=False):
            model(torch.randn(6, 24))
        return directory

    found = tap.diff(recorded(tmp_path / "a", 0.1), recorded(tmp_path / "b", 0.2))
    assert "0.running_mean" in {tensor.tensor_name for tensor in found.tensors if tensor.updates}, found.sentence


def test_names_keep_no_tensor_alive():
    with tap.trace():
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(6, 24)).sum().backward()
        optimizer.step()
        state = optimizer.state[model.fc.weight]["exp_avg"]
        held = [weakref.ref(model.fc.weight), weakref.ref(state), weakref.ref(optimizer)]
        del model, optimizer, state
        gc.collect()
        assert [reference() for reference in held] == [None, None, None]
