"""Whole models, every node of every graph, at both stages."""

import models
import pytest
import tensortap as tap
import torch
from compiled_graphs import compiled_afresh, graphs_of, nodes_of, only_pass  # noqa: F401
from small_models import passes_of
from torch.utils import _pytree as pytree

WHICH = ["minilm", "llama", "moe", "vit"]


def tensors(output):
    return [leaf for leaf in pytree.tree_leaves(tuple(output.to_tuple())) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
@pytest.mark.parametrize("which", WHICH)
def test_all_nodes_are_recorded_and_the_result_is_eagers(tmp_path, which, stage):
    model, inputs = models.ALL[which]()
    inputs |= {"use_cache": False} if which in ("llama", "moe") else {}
    with torch.no_grad(), tap.record(model, tmp_path / "modules", report=False):
        expected = tensors(model(**inputs))
    folder = tmp_path / "graphs"
    with tap.graph_backend(folder, stage=stage, report=False, strict=True) as backend, torch.no_grad():
        found = tensors(torch.compile(model, backend=backend)(**inputs))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert torch.equal(ours, theirs) if stage == "dynamo" else torch.allclose(ours, theirs, atol=1e-4)

    recorded = only_pass(folder)
    executed = graphs_of(recorded)
    by_id = {f"graph_{graph.id}": graph for graph in backend.graphs}
    assert sum(event.notes["nodes"] for event in executed) == sum(event.kind == "node" for event in recorded.events)
    assert all(by_id[event.name].nodes == by_id[event.name].selected for event in executed)
    assert all(event.returned for event in recorded.events)
    assert backend.coverage["notes"] == [] and backend.coverage["unsupported"] == []

    # What a module source sees of the same model, the graph run has under the same keys.
    theirs, ours = only_pass(tmp_path / "modules"), recorded
    # Of several results a graph does not say which is which; attention is a function, of which it has the nodes.
    single = [key for key in theirs if "/" not in key and not key.endswith(".self_attn.attn")]
    assert len(single) > 10 and not [key for key in single if key not in ours]
    for key in single:
        if stage == "dynamo":
            assert torch.equal(ours[key], theirs[key]), key
        else:
            assert torch.allclose(ours[key].float(), theirs[key].float(), atol=1e-4), key


@pytest.mark.parametrize("which", ["llama", "vit"])
def test_a_training_step_has_forward_and_backward(tmp_path, which):
    model, inputs = models.ALL[which]()
    model.train()
    inputs |= {"use_cache": False} if which == "llama" else {}
    with tap.graph_backend(tmp_path, stage="aot", report=False, strict=True) as backend:
        compiled = torch.compile(model, backend=backend)
        for _ in range(2):
            model.zero_grad()
            tensors(compiled(**inputs))[0].square().mean().backward()
    passes = passes_of(tmp_path)
    assert len(passes) == 2
    for recorded in passes.values():
        parts = [event.notes["part"] for event in graphs_of(recorded)]
        assert parts.count("forward") == parts.count("backward") > 0
        assert sum(event.notes["nodes"] for event in graphs_of(recorded)) == sum(
            event.kind == "node" for event in recorded.events
        )
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)
    assert nodes_of(passes[1])
