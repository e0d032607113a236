"""Inputs, gradients and recomputed calls."""

import pytest
import tensortap as tap
import torch
from small_models import Block, Model, passes_of
from torch import nn


def test_inputs_are_taken_before_the_module_runs(tmp_path):
    class Doubles(nn.Module):
        def forward(self, x, scale=None):
            return x.mul_(2) * scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Doubles()

        def forward(self, x):
            return self.inner(x, scale=torch.full((1,), 3.0))

    with tap.record(model := Outer(), tmp_path, roles="in,out", report=False):
        model(torch.ones(1))
    values = {key: value.item() for key, value in tap.load_pass(passes_of(tmp_path)[0].path).items()}
    assert values == {"inner@in/0": 1, "inner@in/scale": 3, "inner": 6}


def test_inputs_of_a_models_first_call_are_there_though_nobody_named_the_model(tmp_path):
    first, second = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))
    with tap.record(None, tmp_path, roles="in,out,param", report=False):
        first(input=torch.ones(1, 2))
        second(torch.ones(1, 2))
        second[0](torch.ones(1, 2))  # a model of its own now, whose hooks are there; its name stays
        first(torch.ones(1, 2))
    keys = [list(recorded) for recorded in passes_of(tmp_path).values()]
    parameters = ["@param/weight", "@param/bias"]
    assert keys == [
        [f"Linear{key}" for key in [*parameters, "@in/input", ""]],
        [f"0{key}" for key in [*parameters, "@in/0", ""]],
        ["0@in/0", "0"],
        ["Linear@in/0", "Linear"],
    ]


def test_keyword_arguments_of_layers_that_look_at_their_hooks_are_inputs(tmp_path):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), torch.randn(1, 3, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    with tap.record(model, tmp_path, roles="in,out", modules="all", report=False):
        model(x, mask=mask)
    (recorded,) = passes_of(tmp_path).values()
    assert torch.equal(recorded["layers.0@in/src_mask"], mask)
    assert torch.equal(recorded["layers.0@in/0"], x)


class WithHooks:
    """Gradients as PyTorch's own full backward hooks give them."""

    def __init__(self, model):
        self.out, self.inward = {}, {}
        for name, module in model.named_modules():
            if not list(module.children()):
                module.register_full_backward_hook(lambda m, gin, gout, name=name: self.see(name, gin, gout))

    def see(self, name, grad_input, grad_output):
        self.out[name] = grad_output[0].clone()
        self.inward[name] = None if grad_input[0] is None else grad_input[0].clone()


def test_gradients_are_those_of_pytorchs_own_hooks(tmp_path):
    torch.manual_seed(0)
    model, twin = Model(), Model()
    twin.load_state_dict(model.state_dict())
    expected = WithHooks(twin)
    x = torch.randn(3, 4)
    twin(x).square().sum().backward()
    with tap.record(model, tmp_path, roles=("out", "grad_out", "grad_in"), report=False):
        model(x).square().sum().backward()
    passes = passes_of(tmp_path)
    assert len(passes) == 1
    recorded = passes[0]
    for name in expected.out:
        assert torch.equal(recorded[f"{name}@grad_out"], expected.out[name]), name
        if expected.inward[name] is not None:
            assert torch.equal(recorded[f"{name}@grad_in/0"], expected.inward[name]), name
    assert "blocks.0.up@grad_in/0" not in recorded  # x needs no gradient


def test_the_gradient_of_an_input_used_twice_inside_is_the_sum(tmp_path):
    class Square(nn.Module):
        def forward(self, x):
            return x * x + x.sin()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.square = Square()

        def forward(self, x):
            return self.square(x) + 10 * x

    x = torch.tensor([3.0], requires_grad=True)
    with tap.record(model := Outer(), tmp_path, roles="grad_in", report=False):
        model(x).backward()
    recorded = passes_of(tmp_path)[0]
    torch.testing.assert_close(recorded["square@grad_in/0"], 2 * x.detach() + x.detach().cos())
    torch.testing.assert_close(x.grad, 2 * x.detach() + x.detach().cos() + 10)


def test_each_forward_keeps_its_own_gradients(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, roles="out,grad_out", report=False):
        for scale in (1.0, 2.0):
            (model(torch.ones(1, 4)).sum() * scale).backward()
    passes = passes_of(tmp_path)
    assert [passes[i]["head@grad_out"][0, 0].item() for i in (0, 1)] == [1.0, 2.0]
    assert {recorded.ending for recorded in passes.values()} == {"complete"}


def test_gradients_that_come_too_late_are_said(tmp_path, capsys):
    model = Model()
    with tap.record(model, tmp_path, roles="out,grad_out") as recording:
        first, second = model(torch.ones(1, 4)), model(torch.ones(1, 4))
        (first.sum() + second.sum()).backward()
    assert recording.coverage["late_gradients"] == 5
    assert "head@grad_out" in passes_of(tmp_path)[1]
    assert "5 gradients that came after their pass had ended" in capsys.readouterr().err


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_is_tagged_and_not_a_call(reentrant, tmp_path):
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(4, 1)

        def forward(self, x):
            return self.head(checkpoint(self.block, x, use_reentrant=reentrant))

    model = Checkpointed()
    x = torch.randn(2, 4, requires_grad=True)
    with tap.record(model, tmp_path, step="manual", roles="out,grad_out", report=False) as recording, recording.step():
        model(x).sum().backward()
    recorded = passes_of(tmp_path)[0]
    assert [key for key in recorded if "@" not in key] == ["block.up", "block.down", "head"]
    assert torch.equal(recorded["block.up@recompute"], recorded["block.up"])
    assert {"block.up@grad_out", "block.down@grad_out", "head@grad_out"} <= set(recorded)
    assert not any("::call" in key for key in recorded)
    kinds = {event.name: event.kind for event in recorded.events if event.kind == "recompute"}
    assert "block.up" in kinds


def test_recomputation_after_the_pass_makes_no_pass(tmp_path):
    from torch.utils.checkpoint import checkpoint

    block, head = Block(), nn.Linear(4, 1)

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = block, head

        def forward(self, x):
            return self.head(checkpoint(self.block, x, use_reentrant=False))

    model = Checkpointed()
    with tap.record(model, tmp_path, report=False):
        for _ in range(2):
            model(torch.randn(2, 4)).sum().backward()
    assert [list(recorded) for recorded in passes_of(tmp_path).values()] == [["block.up", "block.down", "head"]] * 2
