"""A compiled graph against the interpreted one: what is wrong is said, what is right is left alone."""

import copy

import pytest
import tensortap as tap
import torch
import wrong_backends
from checked_graphs import Checking, compiled
from tensortap import GraphMismatch, Tolerance
from tensortap.graph.check.closeness import compare


class Net(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.up = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.dropout = torch.nn.Dropout(dropout)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        return self.down(self.dropout(torch.nn.functional.gelu(self.norm(self.up(x)))))


def batch(rows=4):
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
@pytest.mark.parametrize("inner", ["eager", "aot_eager", "inductor"])
def test_a_right_backend_is_let_be(inner, stage):
    backend = Checking(inner, stage=stage)
    net = Net().eval()
    with torch.no_grad():
        result = compiled(net, backend)(batch())
        torch.testing.assert_close(result, net(batch()))
    assert backend.lines == []
    assert [graph.calls for graph in backend.graphs] == [1]


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
def test_a_training_step_is_that_of_the_backend_alone(stage):
    checked, plain = Net(), Net()
    backend = Checking("aot_eager", stage=stage)
    for net, own in ((checked, backend), (plain, "aot_eager")):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        step = compiled(net, own)
        for rows in (4, 4):
            optimizer.zero_grad()
            step(batch(rows)).square().mean().backward()
            optimizer.step()
    assert backend.lines == []
    assert [graph.calls for graph in backend.graphs] == ([2] if stage == "dynamo" else [2, 2])
    for name, value in plain.state_dict().items():
        assert torch.equal(checked.state_dict()[name], value), name  # running statistics too: counted once
    for ours, theirs in zip(checked.parameters(), plain.parameters()):
        assert torch.equal(ours.grad, theirs.grad)


def test_a_wrong_backend_is_found_and_its_result_is_kept():
    backend = Checking(wrong_backends.first_activation, limits=None)
    net = Net().eval()
    with torch.no_grad():
        result = compiled(net, backend)(batch())
        wrong = net.down(torch.nn.functional.silu(net.norm(net.up(batch()))))
        right = net(batch())
    torch.testing.assert_close(result, wrong)
    ((mismatch,), (line,)) = backend.mismatches, backend.lines
    assert mismatch.call == 0 and [difference.place for difference in mismatch.differences] == ["output 0"]
    assert mismatch.largest == pytest.approx((wrong - right).abs().max().item(), rel=1e-4)
    assert line.startswith(f"first_activation computes graph {mismatch.graph_id} otherwise than PyTorch: output 0 ")
    assert "\n" not in line


def test_each_mismatch_is_kept_and_the_first_is_told():
    backend = Checking(wrong_backends.first_activation, limits=None)
    net = compiled(Net().eval(), backend)
    with torch.no_grad():
        for _ in range(3):
            net(batch())
    assert [mismatch.call for mismatch in backend.mismatches] == [0, 1, 2]
    assert len(backend.lines) == 1


def test_strict_raises():
    backend = Checking(wrong_backends.first_activation, limits=None, strict=True)
    with torch.no_grad(), pytest.raises(GraphMismatch, match="otherwise than PyTorch") as raised:
        compiled(Net().eval(), backend)(batch())
    assert raised.value.mismatch is backend.mismatches[0]


def test_a_wrong_backward_graph_is_found():
    x = batch().requires_grad_()

    def other(module, inputs):
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.silu_backward.default:
                node.target = torch.ops.aten.mul.Tensor
        module.recompile()
        return module.forward

    backend = Checking(other, stage="aot", limits=None)
    compiled(torch.nn.functional.silu, backend)(x).sum().backward()
    assert [graph.mismatches != [] for graph in backend.graphs] == [False, True]


def test_an_input_that_is_written_is_compared_and_written_once():
    def update(x, state):
        state.add_(x)
        return x * 2

    state = torch.zeros(4, 8)
    backend = Checking("eager")
    compiled(update, backend)(batch(), state)
    assert torch.equal(state, batch()) and backend.lines == []
    wrong = Checking(wrong_backends.nothing_twice, limits=None)
    compiled(update, wrong)(batch(), torch.zeros(4, 8))
    assert [difference.place for difference in wrong.mismatches[0].differences] == ["input l_state_"]


def test_inputs_that_share_memory_are_copied_as_one():
    def shift(rows, first):
        rows.mul_(2)
        return first + 1

    memory = torch.arange(6.0).reshape(2, 3)
    backend = Checking("eager")
    result = compiled(shift, backend)(memory, memory[0])
    assert torch.equal(result, torch.tensor([1.0, 3.0, 5.0]))
    assert backend.lines == []


def test_tensors_of_inference_mode():
    def update(x, state):
        state.add_(x)
        return x * state

    with torch.inference_mode():
        state, backend = torch.zeros(3), Checking("aot_eager")
        assert torch.equal(compiled(update, backend)(torch.ones(3), state), torch.ones(3))
        assert torch.equal(state, torch.ones(3)) and backend.lines == []


def test_random_numbers_are_the_same_for_both():
    torch.manual_seed(3)
    expected = torch.rand(4, 8) + batch()
    after = torch.rand(1)
    backend = Checking("eager")
    torch.manual_seed(3)
    result = compiled(lambda x: torch.rand(4, 8) + x, backend)(batch())
    assert torch.equal(result, expected) and torch.equal(torch.rand(1), after)
    assert backend.lines == []


def test_a_graph_that_draws_other_random_numbers_is_said_to():
    def other_generator(module, inputs):
        def run(*given):
            torch.rand(1)
            return module.forward(*given)

        return run

    backend = Checking(other_generator)
    compiled(lambda x: (torch.nn.functional.dropout(x, 0.5), x + 1), backend)(batch())
    assert backend.mismatches == []
    (line,) = backend.lines
    assert "output 0 cannot be compared: %dropout draws random numbers" in line


def test_a_backend_that_cannot_compile_leaves_the_model_as_it_is():
    backend = Checking(wrong_backends.never)
    net = Net()
    expected = copy.deepcopy(net)(batch())
    result = compiled(net, backend)(batch())
    assert torch.equal(result, expected) and result.requires_grad
    (line,) = backend.lines
    assert "is interpreted only: never failed: RuntimeError: this backend cannot compile anything" in line
    with pytest.raises(Exception, match="cannot compile anything"):
        compiled(net, Checking(wrong_backends.never, strict=True))(batch())


def test_a_compiled_graph_that_fails_is_replaced_and_leaves_no_trace():
    def update(x, state):
        state.add_(x)
        return x * state

    backend = Checking(wrong_backends.fails_when_run)
    run = compiled(update, backend)
    state = torch.ones(4, 8)
    for _ in range(2):
        result = run(batch(), state)
    assert torch.equal(state, torch.ones(4, 8) + batch() + batch())
    assert torch.equal(result, batch() * state)
    (line,) = backend.lines
    assert "failed, and is interpreted from now on: RuntimeError: this graph cannot run" in line


def test_the_models_own_error_is_the_models():
    def look_up(table, rows):
        return table[rows] + 1

    backend = Checking("eager")
    run = compiled(look_up, backend)
    run(batch(), torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        run(batch(), torch.tensor([0, 99]))
    assert backend.lines == [] and torch.equal(run(batch(), torch.tensor([1, 2])), batch()[1:3] + 1)


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
def test_one_graph_for_all_sizes(stage):
    backend = Checking("inductor", stage=stage)
    run = compiled(lambda x: torch.softmax(x * 2, -1).cos(), backend, dynamic=True)
    with torch.no_grad():
        for rows in (3, 5, 9):
            run(batch(rows))
    assert [graph.calls for graph in backend.graphs] == [3]
    assert backend.lines == []


def test_an_unknown_backend_is_an_error_of_the_user():
    backend = Checking("inducter", strict=True)
    with pytest.raises(Exception, match=r"'inducter' is not a backend of torch\.compile; there are: .*inductor"):
        compiled(lambda x: x + 1, backend)(batch())


def test_what_is_close_is_what_diff_says():
    a = torch.linspace(1, 2, 8)
    assert compare([("output 0", a, a * (1 + 1e-6))]).differences == []
    (difference,) = compare([("output 0", a, a * 1.01)]).differences
    assert difference.largest == pytest.approx(0.02, rel=1e-3)
    assert compare([("output 0", a, a * 1.01)], Tolerance(rtol=0.1, atol=0)).differences == []
    (shape,) = compare([("output 0", a, a[:4])]).differences
    assert str(shape) == "output 0 is float32 [4], and interpreted float32 [8]"
    nan = torch.tensor([1.0, float("nan")])
    assert compare([("output 0", nan, nan)]).differences == []
    assert "NaN in 1 of 2" in str(compare([("output 0", nan, torch.ones(2))]).differences[0])
    assert compare([("output 0", torch.tensor([3]), torch.tensor([4]))]).differences != []
    with pytest.raises(ValueError, match="not negative"):
        Tolerance(rtol=-1)


def test_what_is_rounding_is_told_from_what_is_wrong():
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    ours, theirs = values.sum() - values.sum(), (values.flip(0).cumsum(0)[-1] - values.sum())  # nothing but rounding
    exact = {"output 0": torch.zeros((), dtype=torch.float64)}
    spread = torch.stack([ours + 3e-6, ours])
    seen = torch.stack([theirs, ours - 4e-6])
    assert compare([("output 0", spread, seen)]).differences != []
    exact = {"output 0": torch.zeros(2, dtype=torch.float64)}
    assert compare([("output 0", spread, seen)], exact=lambda: exact).differences == []
    assert compare([("output 0", spread, seen + 1e-3)], exact=lambda: exact).differences != []
    assert compare([("output 0", spread, seen)], Tolerance(atol=1e-9), lambda: exact).differences != []


# ---- through the backend of the package ----


def test_graphs_are_recorded_and_checked_at_once(tmp_path, capfd):
    net = Net().eval()
    with tap.graph_backend(tmp_path, inner=wrong_backends.first_activation) as backend, torch.no_grad():
        result = compiled(net, backend)(batch())
        wrong = net.down(torch.nn.functional.silu(net.norm(net.up(batch()))))
    torch.testing.assert_close(result, wrong)
    (mismatch,) = backend.mismatches
    assert f"tensortap: first_activation computes graph {mismatch.graph_id} otherwise" in capfd.readouterr().err
    assert mismatch.script.name == f"graph_{mismatch.graph_id}_mismatch.py" and tmp_path in mismatch.script.parents
    (rank,) = tap.open(tmp_path).ranks
    (recorded,) = rank.passes.values()
    gelu = torch.nn.functional.gelu(net.norm(net.up(batch())))
    (key,) = [record.key for record in recorded.records if record.name == "%gelu" and record.role == "out"]
    assert torch.equal(recorded[key], gelu)  # what was recorded is the interpreted graph


def test_the_backward_of_a_checked_graph_is_in_the_pass_of_its_forward(tmp_path):
    with tap.graph_backend(tmp_path, inner="aot_eager", stage="aot") as backend:
        step = compiled(Net(), backend)
        for _ in range(2):
            step(batch()).sum().backward()
    (rank,) = tap.open(tmp_path).ranks
    parts = {f"graph_{graph.id}": graph.part for graph in backend.graphs}
    for recorded in rank.passes.values():
        found = [parts[event.name] for event in recorded.events if event.kind == "graph"]
        assert found == ["forward", "backward"]
    assert len(rank.passes) == 2 and backend.mismatches == []


def test_nothing_need_be_recorded(capfd):
    backend = tap.graph_backend(inner="aot_eager", stage="aot")
    net = Net()
    compiled(net, backend)(batch()).sum().backward()
    assert backend.mismatches == [] and net.up.weight.grad is not None
    assert capfd.readouterr().err == ""


def test_tolerance_limits_and_strict_come_through(tmp_path):
    net, wide = Net().eval(), tap.Tolerance(rtol=1, atol=10)
    with torch.no_grad():
        lenient = tap.graph_backend(inner=wrong_backends.first_activation, tolerance=wide)
        compiled(net, lenient)(batch())
        assert lenient.mismatches == []
        strict = tap.graph_backend(inner=wrong_backends.first_activation, strict=True, limits=None)
        with pytest.raises(tap.GraphMismatch):
            compiled(net, strict)(batch())
    assert strict.mismatches[0].reduced is None
    with pytest.raises(ValueError, match="'inducter' is not a backend"):
        tap.graph_backend(inner="inducter")
