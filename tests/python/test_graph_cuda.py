"""Graphs whose tensors are on a GPU: the same records, and the same bits, as anywhere."""

import pytest
import tensortap as tap
import torch
from compiled_graphs import compiled_afresh, graphs_of, nodes_of, only_pass, record, values_of  # noqa: F401
from small_models import passes_of
from torch import nn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).cuda()


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
@pytest.mark.parametrize("level", ["full", "fingerprint", "meta"])
def test_every_node_is_recorded_and_the_result_is_eager_s(tmp_path, stage, level):
    model, x = small_net(), torch.randn(3, 8, device="cuda")
    with torch.no_grad():
        expected = model(x)
    backend, (result,) = record(tmp_path, model, (x,), stage=stage, level=level)
    if stage == "dynamo":
        assert torch.equal(result, expected)
    recorded = only_pass(tmp_path)
    assert len(nodes_of(recorded)) == backend.graphs[0].nodes
    if level == "full":
        last = [event for event in recorded.events if event.kind == "module" and event.name == "3"]
        assert len(last) == 1 and torch.equal(recorded["3"], result.cpu())
        assert all(r.device.startswith("cuda") or r.dtype == "i64" for r in recorded.records)


def test_a_node_that_writes_in_place_leaves_earlier_records_alone(tmp_path):
    def function(x):
        y = x * 2
        z = y.sin()
        y.add_(1)
        return y + z

    x = torch.randn(1 << 16, device="cuda")
    _, (result,) = record(tmp_path, function, (x,))
    recorded = only_pass(tmp_path)
    nodes = nodes_of(recorded)
    assert torch.equal(values_of(recorded, nodes["z"])["/0"], (x * 2).cpu())
    assert torch.equal(result, x * 2 + 1 + (x * 2).sin())


def test_a_training_step_with_its_backward_graph(tmp_path):
    model, x = small_net(), torch.randn(3, 8, device="cuda")
    with tap.graph_backend(tmp_path, stage="aot", report=False, strict=True) as backend:
        torch.compile(model, backend=backend)(x).square().sum().backward()
    (recorded,) = passes_of(tmp_path).values()
    assert [graph.notes["part"] for graph in graphs_of(recorded)] == ["forward", "backward"]
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for found, parameter in zip(grads, model.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.grad)


def test_inductor_s_kernels_are_held_against_the_interpreted_graph():
    model, x = small_net(), torch.randn(3, 8, device="cuda")
    with tap.graph_backend(None, inner="inductor") as backend, torch.no_grad():
        result = torch.compile(model, backend=backend)(x)
        expected = model(x)
    assert not backend.mismatches
    torch.testing.assert_close(result, expected)
