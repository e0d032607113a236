"""Results of operators put into another run of the program."""

import pytest
import tensortap as tap
import torch
from small_models import Model
from test_graft import InPlace, inputs, same_bits, seeded, value
from torch import nn


def record(model, folder, *given, backward=False, **options):
    """With every operator, in full."""
    with tap.record(model, folder, ops=True, level="full", report=False, **options):
        outs = [model(x) for x in given]
        if backward:
            outs[-1].square().sum().backward()
    return outs


@pytest.fixture
def good(tmp_path):
    record(seeded(), tmp_path / "good", *inputs(2), backward=True)
    return tmp_path / "good"


@pytest.fixture
def wrong_sum():
    """A kernel of addition that is wrong."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("relu", lambda x: torch.clamp(x, min=0) * 1.25, "CPU", allow_override=True)
    yield
    library._destroy()


def test_the_result_of_an_operator_is_written_over(good, wrong_sum, tmp_path):
    with tap.graft(model := seeded(), good, ["blocks.0:aten::relu", "blocks.1:aten::relu"]) as grafted:
        outs = record(model, tmp_path / "again", *inputs(2))
    assert [str(key) for key in grafted.keys] == [
        "blocks.0:aten::relu: put in twice",
        "blocks.1:aten::relu: put in twice",
    ]
    assert all(same_bits(out, value(good, "Model:aten::add.Tensor", n)) is False for n, out in enumerate(outs))
    assert all(same_bits(out, value(good, "head", n)) for n, out in enumerate(outs))
    assert same_bits(value(tmp_path / "again", "blocks.0:aten::relu", 1), value(good, "blocks.0:aten::relu", 1))


def test_its_gradients_are_those_of_the_new_result(good, wrong_sum):
    right = seeded()
    (out,) = [right(x) for x in inputs(2)][1:]
    del out
    model = seeded()
    with tap.graft(model, good, "blocks.1:aten::relu") as grafted:
        for x in inputs(2):
            out = model(x)
        out.square().sum().backward()
    assert grafted.placed == 2
    # The backward of relu looks at its result.
    mask = value(good, "blocks.1:aten::relu", 1) > 0
    seen = model.blocks[1].up.bias.grad
    assert torch.equal(seen != 0, mask.any(0))


def test_one_call_of_several_is_a_key_of_its_own(good):
    with tap.graft(model := seeded(), good, "Model:aten::add.Tensor::call2") as grafted:
        model.blocks[0].down.bias.data.add_(1)
        model(inputs()[0])
    assert grafted.placed == 1
    with tap.graft(model, good, "head:aten::addmm") as grafted:
        out = model(inputs()[0])
    assert grafted.placed == 1 and same_bits(out, value(good, "head"))


def test_an_operator_of_the_backward(good):
    model = seeded()
    (key,) = [k for k in tap.open(good).ranks[0].passes[1] if k == "head:backward:aten::mm::call2"]
    with tap.graft(model, good, key) as grafted:
        for x in inputs(2):
            out = model(x)
        out.square().sum().mul(3).backward()
    assert grafted.placed == 1, str(grafted)
    right = seeded()
    with torch.no_grad():
        right(inputs()[0])
    right(inputs(2)[1]).square().sum().backward()
    grads = [
        (model.head.weight.grad, right.head.weight.grad),
        (model.blocks[1].up.weight.grad, right.blocks[1].up.weight.grad),
    ]
    assert sorted(same_bits(one, other) for one, other in grads) == [False, True]


def test_what_an_operator_writes_to_in_place(tmp_path):
    record(seeded(InPlace), tmp_path, *inputs())
    wrong = seeded(InPlace, 1)
    with tap.graft(wrong, tmp_path, "relu:aten::relu_") as grafted:
        out = wrong(inputs()[0])
        out.sum().backward()
    assert grafted.ok and same_bits(out, value(tmp_path, "relu:aten::relu_"))


def test_several_results_each_with_its_path(tmp_path):
    class Best(nn.Module):
        def forward(self, x):
            return torch.max(x, 1)

    record(nn.Sequential(Best()), tmp_path, torch.tensor([[1.0, 2.0], [4.0, 3.0]]))
    model = nn.Sequential(Best())
    with tap.graft(model, tmp_path, "0:aten::max.dim") as grafted:
        values, places = model(torch.zeros(2, 2))
    assert grafted.placed == 2 and values.tolist() == [2, 4] and places.tolist() == [1, 0]
    with tap.graft(model, tmp_path, "0:aten::max.dim/1"):
        values, places = model(torch.zeros(2, 2))
    assert values.tolist() == [0, 0] and places.tolist() == [1, 0]


def test_a_view_is_refused(tmp_path):
    class Turned(nn.Module):
        def forward(self, x):
            return x.t() + 1

    record(nn.Sequential(Turned()), tmp_path, torch.ones(2, 2))
    x = torch.zeros(2, 2)
    with tap.graft(model := nn.Sequential(Turned()), tmp_path, "0:aten::t") as grafted:
        model(x)
    assert list(grafted.keys[0].refused) == [
        "it is a view, which has no memory of its own: graft the tensor that it shows"
    ]
    assert x.sum() == 0


def test_an_argument_of_an_operator_is_an_error(good):
    with pytest.raises(ValueError, match="an argument of an operator: graft the result of what made it"):
        tap.graft(seeded(), good, "head:aten::addmm@in/0")


def test_an_operator_that_never_runs_is_said_with_those_near_it(good):
    class Other(Model):
        def forward(self, x):
            return self.head(x) if x.sum() > 1e6 else x * 2

    with tap.graft(model := seeded(Other), good, "head:aten::addmm") as grafted:
        model(inputs()[0])
    assert grafted.keys[0].unmet.startswith("no such operator ran; near it: Other:aten::")
    with tap.graft(model := seeded(), good, "Model:aten::add.Tensor::call2") as grafted:
        model.blocks = model.blocks[:1]
        model(inputs()[0])
    assert grafted.keys[0].unmet == "no such call in the passes of this program"


def test_a_trace_is_one_pass(tmp_path):
    with tap.trace(right := seeded(), level="full") as trace:
        outs = [right(x) for x in inputs(2)]
    trace.save(tmp_path / "traced")
    wrong = seeded()
    wrong.head.bias.data.add_(1)
    with tap.graft(wrong, tmp_path / "traced", ["head:aten::addmm", "head:aten::addmm::call2"]) as grafted:
        again = [wrong(x) for x in inputs(2)]
    assert [key.placed for key in grafted.keys] == [1, 1]
    assert all(same_bits(one, other) for one, other in zip(outs, again))


def test_its_own_results_change_nothing_in_training(tmp_path):
    def gradients(model):
        for x in inputs(2):
            model(x).square().sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    with tap.record(model := seeded(), tmp_path, ops=True, level="full", report=False):
        plain = gradients(model)
    recorded = tap.open(tmp_path).ranks[0].passes[0]
    keys = [each.key for each in recorded.records if each.role == "out" and recorded.events[each.event].kind == "op"]
    with tap.graft(model := seeded(), tmp_path, keys) as grafted:
        again = gradients(model)
    assert all(same_bits(one, other) for one, other in zip(plain, again))
    refused = {reason for key in grafted.keys for reason in key.refused}
    assert grafted.placed > 40 and refused <= {
        "it is a view, which has no memory of its own: graft the tensor that it shows"
    }
    assert not [key for key in grafted.keys if key.unmet], str(grafted)
