"""Gradients go by the names of their parameters: in the log, and between two traces, whatever has made them."""

import copy
import sys

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import run

pytestmark = pytest.mark.usefixtures("nothing_compiled")

LEVELS = ["fingerprint", "full"]
BACKENDS = ["eager", "aot_eager", "inductor"]


def gradients_of(events):
    """The parameters whose gradients came, in this order."""
    return [event.notes["gradient"] for event in events if "gradient" in event.notes]


# ---- in the log ----


def test_the_call_that_brings_a_gradient_says_whose_it_is():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))
    with tap.trace(hashes=True) as trace:
        model(torch.ones(1, 3)).sum().backward()
    assert sorted(gradients_of(trace)) == sorted(name for name, _ in model.named_parameters())
    (last,) = (line for line in str(trace).splitlines() if "gradient of 1.1.weight" in line)
    assert "aten::detach(" in last
    nodes = {event.notes["node"] for event in trace if "gradient" in event.notes}
    assert nodes == {"torch::autograd::AccumulateGrad"}


@pytest.mark.parametrize("options", [{}, {"ids": False}, {"hooks": lambda op, args, kwargs, result: {"seen": 1}}])
def test_whatever_else_is_asked_for(options):
    model = nn.Linear(3, 4)
    with tap.trace(**options) as trace:
        model(torch.ones(1, 3)).sum().backward()
    assert sorted(gradients_of(trace)) == ["bias", "weight"]


def test_a_gradient_that_is_added_to_another_one():
    model = nn.Linear(3, 1, bias=False)
    with tap.trace() as trace:
        for _ in range(2):
            model(torch.ones(1, 3)).sum().backward()
    brought = [event.name for event in trace if "gradient" in event.notes]
    assert [name.rsplit("::")[-1] for name in brought] == ["detach", "add_.Tensor"]
    assert gradients_of(trace) == ["weight"] * 2


def test_a_parameter_that_two_modules_share_has_its_first_name():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    with tap.trace() as trace:
        model(torch.ones(1, 3)).sum().backward()
    assert gradients_of(trace) == ["0.weight"]


def test_the_names_are_those_of_the_bare_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager")
    with tap.trace() as trace:
        compiled(torch.ones(1, 3)).sum().backward()
    assert sorted(gradients_of(trace)) == ["0.bias", "0.weight"]
    with tap.trace({"net": model}) as trace:
        model(torch.ones(1, 3)).sum().backward()
    assert sorted(gradients_of(trace)) == ["net.0.bias", "net.0.weight"]


def test_a_tensor_that_is_no_parameter_has_no_name():
    x = torch.ones(1, 3, requires_grad=True)
    with tap.trace() as trace:
        nn.Linear(3, 1, bias=False)(x).sum().backward()
    assert gradients_of(trace) == ["weight"]


def test_models_that_come_and_go_are_not_kept():
    with tap.trace() as trace:
        for _ in range(3):
            nn.Linear(3, 1)(torch.ones(1, 3)).sum().backward()
    assert gradients_of(trace).count("weight") == 3


def test_parameters_can_still_be_swapped():
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    with tap.trace():
        model(torch.ones(1, 3)).sum().backward()
        torch.utils.swap_tensors(model.weight, other.weight)


def test_a_recording_says_it_too(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with tap.record(model, tmp_path / "run", ops=True, level="full"):
        model(torch.ones(1, 3)).sum().backward()
    assert sorted(gradients_of(tap.open(tmp_path / "run").ranks[0].passes[0].events)) == ["0.bias", "0.weight"]


def test_a_program_that_does_not_know_of_it(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("""
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
for _ in range(2):
    model(torch.ones(1, 3)).sum().backward()
""")
    assert run("run", "--ops", "--level", "full", "-o", tmp_path / "run", "--", sys.executable, script).returncode == 0
    for recorded in tap.open(tmp_path / "run").ranks[0].passes.values():
        assert sorted(gradients_of(recorded.events)) == ["0.bias", "0.weight"]


# ---- between two programs ----


class Scaled(torch.autograd.Function):
    """A parameter as it is; its gradient is multiplied."""

    @staticmethod
    def forward(ctx, parameter, factor):
        ctx.factor = factor
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * ctx.factor if ctx.factor is not None else gradient), None


class Net(nn.Module):
    """A norm and two products; the gradient of one parameter is multiplied, unless the factor is None."""

    def __init__(self, factor, of):
        super().__init__()
        self.factor, self.of = factor, of
        self.norm, self.first, self.second = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        def used(name):
            parameter = self.get_parameter(name)
            return Scaled.apply(parameter, self.factor) if name == self.of else parameter

        x = nn.functional.layer_norm(x, (16,), used("norm.weight"), used("norm.bias"))
        x = nn.functional.linear(x, used("first.weight"), used("first.bias"))
        return self.second(nn.functional.gelu(x))


def traced(model, x, level="full"):
    model.zero_grad(set_to_none=True)
    with tap.trace(level=level) as trace:
        y = model(x)
        (y * torch.linspace(-1, 2, y.numel()).view(y.shape)).sum().backward()
    return trace


def both(model, other, backend, level="full"):
    """An eager model, and another that is compiled."""
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    return traced(model, x, level), traced(torch.compile(other, backend=backend), x, level)


PARAMETERS = ["norm.weight", "norm.bias", "first.weight", "first.bias"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_a_gradient_with_a_wrong_factor_is_found(parameter, backend):
    torch.manual_seed(0)
    model = Net(1.0, parameter)
    for factor, level in ((1.0, "full"), (1.01, "fingerprint"), (1.01, "full")):
        torch._dynamo.reset()
        other = copy.deepcopy(model)
        other.factor = factor
        found = tap.diff(*both(model, other, backend, level))
        assert found.same == (factor == 1.0), found
        assert found.verdict == "diverged" or found.same, found
        assert found.same or "backward" in found.first.key, found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("factors", [(0.5, None), (None, 0.5)], ids=["A", "B"])
def test_a_gradient_that_only_one_program_multiplies_is_found(factors, parameter, backend):
    torch.manual_seed(0)
    model = Net(factors[0], parameter)
    other = copy.deepcopy(model)
    other.factor = factors[1]
    found = tap.diff(*both(model, other, backend))
    assert found.verdict == "diverged", found


class Swapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, one, other):
        return one.view_as(one), other.view_as(other)

    @staticmethod
    def backward(ctx, one, other):
        return other, one


class Attention(nn.Module):
    """The gradient of its key's bias is zero, but for rounding."""

    def __init__(self, swapped):
        super().__init__()
        self.swapped = swapped
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        query, key = self.query.weight, self.key.weight
        if self.swapped:
            query, key = Swapped.apply(query, key)
        query = nn.functional.linear(x, query, self.query.bias)
        key = nn.functional.linear(x, key, self.key.bias)
        return torch.softmax(query @ key.transpose(-1, -2) * 0.25, -1) @ self.value(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_go_to_each_others_parameters_are_found(backend):
    torch.manual_seed(0)
    model, wrong = Attention(False), Attention(True)
    wrong.load_state_dict(model.state_dict())
    assert tap.diff(*both(model, copy.deepcopy(model), backend)).same
    torch._dynamo.reset()
    found = tap.diff(*both(model, wrong, backend))
    assert found.verdict == "diverged", found
    assert found.sentence.startswith("diverged: the gradient of key.weight is not the same: ")
    assert found.first.cause == "introduced"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_a_tensor_without_a_name_is_found_by_its_shape(backend):
    layer, x = nn.Linear(16, 16), torch.randn(4, 16, requires_grad=True)

    def trace_of(factor, compiled):
        def program(x):
            return torch.tanh(layer(Scaled.apply(x, factor)))

        x.grad = None
        layer.zero_grad(set_to_none=True)
        with tap.trace(level="full") as trace:
            (torch.compile(program, backend=backend) if compiled else program)(x).square().mean().backward()
        return trace

    assert tap.diff(trace_of(1.0, False), trace_of(1.0, True)).same
    torch._dynamo.reset()
    assert tap.diff(trace_of(1.0, False), trace_of(1.5, True)).verdict == "diverged"


def test_the_command_says_it_and_exits_with_one(tmp_path):
    torch.manual_seed(0)
    model, wrong = Attention(False), Attention(True)
    wrong.load_state_dict(model.state_dict())
    for each, name in ((model, "a"), (wrong, "b")):
        traced(each, torch.randn(4, 16, generator=torch.Generator().manual_seed(1))).save(tmp_path / name)
    result = run("diff", tmp_path / "a", tmp_path / "b")
    assert result.returncode == 1
    assert "the gradient of key.weight is not the same" in result.stdout
