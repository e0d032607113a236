"""How much of an output's error each operator's own error explains."""

import json
import os
import sys
import warnings

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn import functional
from ttap_command import ROOT, run

sys.path.insert(0, str(ROOT / "bench/verdicts"))
sys.path.insert(0, str(ROOT / "bench/blame"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from architectures import architecture
    from wrong_kernels import Fault, planted


def recorded(work, fault=None, at=None):
    with planted(fault, at) as seen, tap.trace(level="full", stacks=True) as trace:
        work()
    assert fault is None or seen.changed
    return trace


def shares_of(found):
    return {one.op: one.share for one in found.calls}


# ---- the shares ----


def test_shares_are_what_a_change_of_one_result_does_to_the_output():
    """Computed a second way: each error added to its result, and the rest of the network run in float64."""
    torch.manual_seed(1)
    x, first, second = (torch.randn(16, 16).bfloat16() for _ in range(3))
    with tap.trace(level="full") as trace:
        up = x @ first
        bent = torch.tanh(up)
        sum_ = bent + x
        output = sum_ @ second
    found = tap.sensitivity(trace)

    xd, fd, sd = x.double(), first.double(), second.double()
    tails = {
        "aten::mm": lambda value: (torch.tanh(value) + xd) @ sd,
        "aten::tanh": lambda value: (value + xd) @ sd,
        "aten::add.Tensor": lambda value: value @ sd,
        "": lambda value: value,
    }
    heads = {
        "aten::mm": (up, xd @ fd),
        "aten::tanh": (bent, torch.tanh(up.double())),
        "aten::add.Tensor": (sum_, bent.double() + xd),
        "": (output, sum_.double() @ sd),
    }
    error = output.double() - (torch.tanh(xd @ fd) + xd) @ sd
    expected = {}
    for op, (made, exact) in heads.items():
        own = made.double() - exact
        _, moved = torch.func.jvp(tails[op], (made.double(),), (own,))
        expected[op] = float((moved * error).sum() / error.square().sum())
    by_event = {one.event: one.share for one in found.calls}
    ops = [i for i, event in enumerate(trace.events) if event.kind == "op"]
    assert len(ops) == 4
    assert [by_event[i] for i in ops] == pytest.approx(list(expected.values()), rel=0.02)
    assert found.explained == pytest.approx(sum(expected.values()), rel=0.02)
    assert found.explained == pytest.approx(1, abs=0.05)
    assert found.relative == pytest.approx(
        float(error.square().mean().sqrt() / (output.double() - error).square().mean().sqrt()), rel=1e-6
    )


def test_the_operator_that_lost_most_is_the_first():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8))
    narrow = Fault("gelu in bf16", "gelu", lambda right, x, **_: right(x).bfloat16().float())
    with planted(narrow, 1), tap.trace(model, level="full", stacks=True) as trace:
        model(torch.randn(4, 32))
    found = tap.sensitivity(trace)
    assert (found.first.op, found.first.module) == ("aten::gelu", "3")
    assert found.first.share == pytest.approx(1, abs=0.01)
    assert "model(torch.randn(4, 32))" in found.first.line
    assert next(iter(found.modules)) == "3"
    assert found.output.startswith("4:aten::addmm")


def test_a_value_that_is_used_twice_counts_twice():
    x = torch.randn(64)
    narrow = Fault("exp in bf16", "exp", lambda right, x: right(x).bfloat16().float())

    def work():
        y = torch.exp(x)
        return y * 3 + y

    found = tap.sensitivity(recorded(work, narrow, 0))
    assert shares_of(found)["aten::exp"] == pytest.approx(1, abs=1e-3)


def test_in_place_writes_views_casts_and_detached_values_are_followed():
    torch.manual_seed(3)
    x = torch.randn(6, 8)
    narrow = Fault("exp in bf16", "exp", lambda right, x: right(x).bfloat16().float())

    def work():
        y = torch.exp(x).view(2, 3, 8).transpose(0, 1).detach()
        z = y.to(torch.float64).to(torch.float32) * 2
        z.add_(1).mul_(y)
        return torch.cat([z, z], -1).sum(-1)

    found = tap.sensitivity(recorded(work, narrow, 0))
    assert found.first.op == "aten::exp"
    assert found.explained == pytest.approx(1, abs=0.01)
    assert found.cut == []


@pytest.mark.parametrize("name", ["llama", "bert", "convnext"])
def test_first_order_explains_the_error_of_models_in_bf16(name):
    of = architecture(name)
    model, inputs = of.model(1, "bf16"), of.sample(2, "bf16")
    with tap.trace(model, level="full") as trace, torch.no_grad():
        model(**inputs)
    found = tap.sensitivity(trace, top=1000)
    assert 0.97 < found.explained < 1.03
    assert found.cut == []
    assert found.count == len(found.calls) > 20
    assert sum(found.modules.values()) == pytest.approx(found.explained)
    assert 1e-4 < found.relative < 0.2


def test_a_gradient_has_shares_too():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).bfloat16()
    with tap.trace(model, level="full") as trace:
        model(torch.randn(8, 16).bfloat16()).float().square().mean().backward()
    found = tap.sensitivity(trace, output="0:backward:aten::mm")
    assert found.explained == pytest.approx(1, abs=0.1)
    assert {one.backward for one in found.calls} == {True, False}


def test_the_last_result_of_the_forward_is_asked_for_where_a_backward_follows():
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).bfloat16()
    with tap.trace(model, level="full") as trace:
        model(torch.randn(8, 16).bfloat16()).float().square().mean().backward()
    assert any(event.name == "aten::ones_like" for event in trace.events)
    assert tap.sensitivity(trace).output == "aten::pow.Tensor_Scalar"  # the loss is one value


def test_errors_that_cancel_are_said_to():
    x = torch.tensor([1.0, 1.0 + 2**-7])
    up = Fault("exp up", "exp", lambda right, x: right(x) * 1.01)
    found = tap.sensitivity(recorded(lambda: torch.exp(x) * 3 - torch.exp(x) * 2.99, up, 0))
    assert found.magnitude > 0
    two = Fault("exp up, twice", "exp", lambda right, x: right(x) * 1.01)
    with planted(two, 0), planted(two, 0), tap.trace(level="full") as trace:
        a = torch.exp(x)
        b = torch.exp(x) * 1.01
        a - b * 0.5 - a * 0.5
    assert tap.sensitivity(trace).magnitude >= abs(tap.sensitivity(trace).explained)


# ---- what is not covered ----


def test_a_call_that_cannot_be_made_again_is_named_and_what_came_before_it_is_left_out():
    library = torch.library.Library("ttap_test_gone_since", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    x = torch.randn(64).bfloat16()
    trace = recorded(lambda: torch.ops.ttap_test_gone_since.twice(torch.exp(x)) * 3.1)
    delattr(torch.ops.ttap_test_gone_since, "twice")
    library._destroy()
    found = tap.sensitivity(trace)
    assert [(one.op, "import the library" in one.reason) for one in found.cut] == [
        ("ttap_test_gone_since::twice", True)
    ]
    assert set(shares_of(found)) == {"aten::mul.Tensor"}
    assert found.explained == pytest.approx(1, abs=1e-3)  # of the error beside what the library gave
    assert "errors are not followed through 1 call:\n     1  ttap_test_gone_since::twice: " in str(found)


def test_random_numbers_that_came_from_outside_bring_no_error():
    def work():
        return functional.dropout(torch.exp(torch.randn(64).bfloat16()), 0.5) * 3.1

    found = tap.sensitivity(recorded(work))
    assert "aten::rand" not in {one.op for one in found.cut}
    assert "aten::randn" not in {one.op for one in found.cut}


def test_an_operator_without_a_derivative_is_named():
    library = torch.library.Library("ttap_test_sensitivity", "DEF")
    library.define("round_up(Tensor x) -> Tensor")
    library.impl("round_up", lambda x: torch.from_numpy(x.detach().float().numpy() * 2).to(x.dtype), "CPU")
    x = torch.randn(64).bfloat16()
    trace = recorded(lambda: torch.ops.ttap_test_sensitivity.round_up(torch.exp(x)) * 3.1)
    found = tap.sensitivity(trace)
    assert [(one.op, "derivative" in one.reason) for one in found.cut] == [("ttap_test_sensitivity::round_up", True)]
    assert 0 < found.explained < 0.95
    library._destroy()


def test_values_that_changed_through_another_view_are_counted():
    x = torch.randn(8, 8).bfloat16()

    def work():
        y = torch.exp(x)
        part = y[0]
        part.mul_(3.1)
        return y * 2.3

    found = tap.sensitivity(recorded(work))
    assert found.lost == 1
    assert "changed through another view" in str(found)


def test_a_result_in_float64_has_no_error():
    x = torch.randn(8, dtype=torch.float64)
    found = tap.sensitivity(recorded(lambda: torch.exp(x) * 2), output="aten::mul.Tensor")
    assert (found.relative, found.calls, found.first) == (0, [], None)


@pytest.mark.parametrize(
    ("work", "options", "says"),
    [
        (lambda: torch.ones(3).exp(), {"output": "aten::nothing"}, "aten::nothing"),
        (lambda: torch.ones(3).exp(), {"passes": 7}, "no such pass"),
        (lambda: torch.rand(3), {"output": "aten::rand"}, "random"),
        (lambda: torch.arange(3), {}, "no operator's result"),
    ],
)
def test_what_cannot_be_told_is_an_error(work, options, says):
    trace = recorded(work)
    with pytest.raises((ValueError, LookupError), match=says):
        tap.sensitivity(trace, **options)


def test_nan_in_the_output_is_an_error_that_says_what_to_do():
    x = torch.full((4, 4), 300.0, dtype=torch.float16)
    with pytest.raises(ValueError, match="ttap blame"):
        tap.sensitivity(recorded(lambda: x @ x))


# ---- the command ----


@pytest.fixture(scope="module")
def narrow_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sensitivity") / "run"
    torch.manual_seed(6)
    model, x = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4)).bfloat16(), torch.randn(8, 16).bfloat16()
    with tap.trace(model, level="full", stacks=True) as trace:
        model(x)
    trace.save(folder)
    return folder


def command(*words):
    return run("blame", *words, PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


def test_the_command_says_what_the_call_says(narrow_run):
    found = tap.sensitivity(narrow_run, top=2)
    result = command(narrow_run, "--sensitivity", "--top", "2")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{found}\n"
    assert "the 2 largest of 3 calls" in result.stdout
    document = json.loads(command(narrow_run, "--sensitivity", "--json", "--output", "0:aten::addmm").stdout)
    expected = tap.sensitivity(narrow_run, output="0:aten::addmm").to_json()
    assert document == json.loads(json.dumps(expected))
    assert (document["command"], document["output"], document["count"]) == (
        "blame --sensitivity", "0:aten::addmm", 1)  # fmt: skip


def test_the_command_takes_only_what_goes_together(narrow_run):
    for words in (("--output", "x"), ("--sensitivity", "--all")):
        result = command(narrow_run, *words)
        assert result.returncode == 2
        assert "--sensitivity" in result.stderr
    result = command(narrow_run, "--sensitivity", "--output", "nothing")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("ttap blame: error: ")


def test_progress_counts_to_its_end(narrow_run):
    seen = []
    tap.sensitivity(narrow_run, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == len(seen)
