"""To which pass a run of a graph belongs: breaks, recompilations, training, steps, threads and forks."""

import os

import pytest
import tensortap as tap
import torch
from compiled_graphs import compiled_afresh, graphs_of, nodes_of, only_pass, record, values_of  # noqa: F401
from small_models import Model, passes_of
from torch import nn


class Broken(nn.Module):
    """A graph break in the middle, and one inside a part."""

    def __init__(self):
        super().__init__()
        self.model, self.last = Model(), nn.Linear(3, 3)

    def forward(self, x):
        x = self.model(x * 2)
        torch._dynamo.graph_break()
        return self.last(x) + 1


def test_a_step_of_several_graphs_is_one_pass(tmp_path):
    model, x = Broken(), torch.randn(2, 4)
    backend, results = record(tmp_path, model, (x,), (x,))
    with torch.no_grad():
        assert torch.equal(results[0], model(x))
        last = model.last(model.model(x * 2))
    assert len({graph.id for graph in backend.graphs}) == len(backend.graphs) == 2
    passes = passes_of(tmp_path)
    assert len(passes) == 2
    for step, recorded in passes.items():
        assert [event.notes["step"] for event in graphs_of(recorded)] == [step, step]
        assert torch.equal(recorded["last"], last) and recorded.ending == "complete"
        assert "model.blocks.1.down" in recorded and "model.head" in recorded


def test_a_part_that_breaks_has_its_full_names(tmp_path):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x)
            print(end="")
            torch._dynamo.graph_break()
            return self.layer(x)

    model = nn.Sequential(Part(), nn.Sequential(Part()))
    x = torch.randn(2, 4)
    with torch.no_grad(), tap.record(model, tmp_path / "modules", report=False):
        model(x)
    record(tmp_path / "graphs", model, (x,))
    theirs, ours = only_pass(tmp_path / "modules"), only_pass(tmp_path / "graphs")
    assert set(theirs) == {"0.layer", "0.layer::call2", "1.0.layer", "1.0.layer::call2"}
    for key in theirs:
        assert torch.equal(ours[key], theirs[key]), key
    parameters = {event.notes.get("parameter") for event in nodes_of(ours).values()} - {None}
    assert parameters <= {"0.layer.weight", "0.layer.bias", "1.0.layer.weight", "1.0.layer.bias"}


def test_a_functions_graph_is_a_pass_of_its_own_and_model_names_begin_at_the_model(tmp_path):
    model = Model()

    def function(x):
        return model(x) * 2

    x = torch.randn(2, 4)
    record(tmp_path, function, (x,), (x,))
    passes = passes_of(tmp_path)
    assert len(passes) == 2 and {recorded.ending for recorded in passes.values()} == {"complete"}
    with torch.no_grad():
        assert torch.equal(passes[1]["head"], model(x))
    parameters = {event.notes.get("parameter") for event in nodes_of(passes[0]).values()} - {None}
    assert parameters == set(dict(model.named_parameters()))


def test_a_recompiled_graph_has_another_id_and_dynamic_sizes_are_scalars(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Flatten(0))
    runs = [(torch.randn(size, 4),) for size in (2, 3, 5, 7)]
    backend, results = record(tmp_path, model, *runs)
    with torch.no_grad():
        assert all(torch.equal(result, model(*run)) for result, run in zip(results, runs))
    assert len(backend.graphs) == 2 and len({graph.id for graph in backend.graphs}) == 2
    passes = passes_of(tmp_path)
    ids = [graphs_of(recorded)[0].name for recorded in passes.values()]
    assert ids[0] != ids[1] == ids[2] == ids[3]
    assert [graphs_of(recorded)[0].notes["step"] for recorded in passes.values()] == [0, 0, 1, 2]
    sizes = [event.results for event in nodes_of(passes[3]).values() if event.notes["op"] == "placeholder"]
    assert "7" in sizes


def test_a_graph_that_is_compiled_again_keeps_its_id_and_counts_on(tmp_path):
    model, x = Model(), torch.randn(2, 4)
    with tap.graph_backend(tmp_path, report=False) as backend, torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            torch.compile(model, backend=backend)(x)
    assert len(backend.graphs) == 2 and len({graph.id for graph in backend.graphs}) == 1
    assert [graphs_of(recorded)[0].notes["step"] for recorded in passes_of(tmp_path).values()] == [0, 1]


def test_steps_and_warm_up_are_left_out(tmp_path):
    model, x = Model(), torch.randn(2, 4)
    record(tmp_path / "steps", model, *[(x,)] * 5, steps="1,3-")
    assert list(passes_of(tmp_path / "steps")) == [1, 3, 4]
    torch._dynamo.reset()
    record(tmp_path / "skip", model, *[(x,)] * 5, skip=3)
    steps = [graphs_of(recorded)[0].notes["step"] for recorded in passes_of(tmp_path / "skip").values()]
    assert steps == [3, 4]


def test_manual_steps(tmp_path):
    model, x = Model(), torch.randn(2, 4)
    with tap.graph_backend(tmp_path, step="manual", report=False) as backend, torch.no_grad():
        compiled = torch.compile(model, backend=backend)
        compiled(x)
        with backend.step() as number:
            compiled(x)
            compiled(x)
    assert number == 0 and backend.coverage["outside_steps"] == 1
    assert len(graphs_of(only_pass(tmp_path))) == 2


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
def test_a_training_step(tmp_path, stage):
    model, x = Model(), torch.randn(2, 4)
    model(x).square().sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    with tap.graph_backend(tmp_path, stage=stage, report=False, strict=True) as backend:
        compiled = torch.compile(model, backend=backend)
        for _ in range(3):
            model.zero_grad()
            compiled(x).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-6), name
    passes = passes_of(tmp_path)
    assert len(passes) == 3 and {recorded.ending for recorded in passes.values()} == {"complete"}
    parts = [[event.notes["part"] for event in graphs_of(recorded)] for recorded in passes.values()]
    assert parts == [["forward", "backward"] if stage == "aot" else ["forward"]] * 3
    if stage == "aot":
        recorded = passes[1]
        backward = next(number for number, event in enumerate(recorded.events) if event.notes.get("part") == "backward")
        ours = [event for event in recorded.events if event.parent == backward]
        assert {event.kind for event in ours} == {"node"}
        assert "blocks.0.up" in {event.notes.get("module") for event in ours}
        values = [recorded[list(recorded)[event.uses[-1].record]] for event in ours if event.uses]
        assert any(value.shape == expected["head.weight"].shape and torch.allclose(value, expected["head.weight"])
                   for value in values)  # fmt: skip
        assert backend.coverage["notes"] == []


def test_backwards_that_come_later_find_the_pass_of_their_forward(tmp_path):
    model = Model()
    with tap.graph_backend(tmp_path, stage="aot", report=False, strict=True) as backend:
        compiled = torch.compile(model, backend=backend)

        def function(x):
            return compiled(x).sum()

        other = torch.compile(nn.Linear(4, 2), backend=backend)
        first = function(torch.full((2, 4), 1.0))
        second = other(torch.full((2, 4), 2.0)).sum()
        second.backward()
        first.backward()
    passes = passes_of(tmp_path)
    assert len(passes) == 2
    for recorded in passes.values():
        assert [event.notes["part"] for event in graphs_of(recorded)] == ["forward", "backward"]


def test_inputs_that_a_graph_writes_to_are_written_at_both_stages(tmp_path):
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(x)
            x.mul_(2)
            return self.seen * x

    for stage in ("dynamo", "aot"):
        torch._dynamo.reset()
        model, eager = Cache(), Cache()
        ours, theirs = torch.arange(3.0), torch.arange(3.0)
        _, results = record(tmp_path / stage, model, (ours,), (ours,), stage=stage)
        with torch.no_grad():
            for result in results:
                assert torch.equal(result, eager(theirs))
        assert torch.equal(model.seen, eager.seen) and torch.equal(ours, theirs)


def test_a_forked_child_writes_into_its_own_directory(tmp_path):
    model, x = Model(), torch.randn(2, 4)
    with tap.graph_backend(tmp_path, report=False) as backend, torch.no_grad():
        compiled = torch.compile(model, backend=backend)
        compiled(x)
        child = os.fork()
        if child == 0:
            try:
                compiled(x)
                compiled(x)
                backend.close()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        compiled(x)
    counts = sorted(len(rank.passes) for rank in tap.open(tmp_path).ranks)
    assert counts == [2, 2]


def test_what_is_flushed_can_be_read_while_the_backend_is_open(tmp_path):
    with tap.graph_backend(tmp_path, report=False) as backend, torch.no_grad():
        torch.compile(Model(), backend=backend)(torch.randn(2, 4))
        backend.flush()
        assert only_pass(tmp_path).ending == "complete"  # its call is over


def test_decompositions(tmp_path):
    from torch._decomp import get_decompositions

    model, x = nn.Sequential(nn.LayerNorm(4), nn.GELU()), torch.randn(2, 4)
    chosen = get_decompositions([torch.ops.aten.native_layer_norm, torch.ops.aten.gelu])
    _, (result,) = record(tmp_path, model, (x,), stage="aot", decompositions=chosen)
    targets = {event.notes.get("target") for event in nodes_of(only_pass(tmp_path)).values()}
    assert "aten.erf.default" in targets and not {"aten.gelu.default", "aten.native_layer_norm.default"} & targets
    with torch.no_grad():
        assert torch.allclose(result, model(x), atol=1e-6)
