"""With the tap on, a training step computes the same bits as with it off."""

import copy

import models
import pytest
import tensortap as tap
import torch

EVERYTHING = {"roles": ("out", "in", "grad_out", "grad_in"), "modules": "all", "report": False}


def train(model, inputs, steps=2):
    """Two optimiser steps with dropout; everything that came out of them."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(3)
    results = []
    for _ in range(steps):
        output = model(**inputs)
        tensors = [value for value in output.values() if isinstance(value, torch.Tensor)]
        loss = sum(value.float().square().mean() for value in tensors if value.is_floating_point())
        optimizer.zero_grad()
        loss.backward()
        results += [loss.detach().clone(), *(t.detach().clone() for t in tensors)]
        results += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        results += [p.detach().clone() for p in model.parameters()]
    return results


def assert_same_bits(a, b):
    assert len(a) == len(b)
    for first, second in zip(a, b, strict=True):
        assert torch.equal(first.reshape(-1).view(torch.uint8), second.reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("checkpointing", [None, "reentrant", "non-reentrant"])
@pytest.mark.parametrize("name", ["minilm", "llama", "t5", "moe", "vit"])
def test_training_gives_the_same_bits(name, checkpointing, tmp_path):
    model, inputs = models.ALL[name]()
    if checkpointing is not None:
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing == "reentrant"})
        model.enable_input_require_grads() if hasattr(model, "enable_input_require_grads") else None
    tapped = copy.deepcopy(model)
    plain = train(model, inputs)
    with tap.record(tapped, tmp_path, **EVERYTHING):
        recorded = train(tapped, inputs)
    assert_same_bits(plain, recorded)
    assert len(tap.open(tmp_path).ranks[0].passes[0]) > 50  # it did record


def test_hooks_are_gone_after_close(tmp_path):
    model, inputs = models.llama()
    with tap.record(model, tmp_path, **EVERYTHING):
        model(**inputs)
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


def test_without_a_directory_nothing_is_touched():
    model, inputs = models.llama()
    with tap.record(model) as recording:
        assert not recording.recording
        assert all(not module._forward_hooks for module in model.modules())
        with recording.step():
            model(**inputs)


def test_a_compiled_model_compiles_to_one_graph_with_the_tap_on(tmp_path):
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    model, x = Model(), torch.randn(3, 4)
    with tap.record(model, tmp_path, report=False, modules="all", roles=("out", "in")) as recording:
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        assert torch.equal(compiled(x), model.second(torch.relu(model.first(x))))
    assert len(graphs) == 1
    assert recording.recording is False


def test_a_copy_and_a_pickle_of_a_recorded_model_are_not_recorded(tmp_path):
    import io

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    x = torch.randn(1, 2)
    with tap.record(model, tmp_path, report=False):
        twin = copy.deepcopy(model)
        stored = io.BytesIO()
        torch.save(model, stored)
        stored.seek(0)
        loaded = torch.load(stored, weights_only=False)
        assert torch.equal(twin(x), loaded(x))
        model(x)
    assert list(tap.open(tmp_path).ranks[0].passes) == [0]


def test_other_tools_modes_do_not_see_the_tap(tmp_path):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    model, x = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), torch.randn(2, 2)
    with Log() as plain:
        model(x)
    with tap.record(model, tmp_path, report=False, roles=("out", "in"), modules="all"), Log() as tapped:
        model(x)
    assert plain.names == tapped.names
