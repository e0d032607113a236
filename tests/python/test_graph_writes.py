"""Nodes that write without saying so, and inputs that a backend writes to though the graph does not."""

import pytest
import tensortap as tap
import torch
from checked_graphs import Checking, compiled
from compiled_graphs import compiled_afresh, node_of_target, nodes_of, only_pass, record, values_of  # noqa: F401
from torch import nn


@torch.library.custom_op("ttap_tests::count_up", mutates_args=("x",))
def count_up(x: torch.Tensor) -> None:
    x.add_(1)


@pytest.mark.parametrize("inference", [False, True])
def test_an_operator_called_without_its_overload(tmp_path, inference):
    def function(x):
        y = x * 2
        torch.ops.ttap_tests.count_up(y)
        return y * 3

    with torch.inference_mode(inference):
        record(tmp_path, function, (torch.zeros(2),))
    recorded = only_pass(tmp_path)
    count = node_of_target(recorded, "count_up")
    assert values_of(recorded, count)["/0"].tolist() == [0, 0]
    assert values_of(recorded, count, "after")["/0"].tolist() == [1, 1]
    last = list(nodes_of(recorded).values())[-1]
    assert values_of(recorded, last)["/0"].tolist() == [1, 1]


@pytest.mark.parametrize("by_name", [False, True])
def test_running_statistics_are_there_before_and_after(tmp_path, by_name):
    def function(x, mean, variance):
        if by_name:
            y = nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.5)
        else:
            y = nn.functional.batch_norm(x, mean, variance, None, None, True, 0.5)
        return y, mean * 1

    x = torch.tensor([[1.0], [3.0]])
    _, ((_, after),) = record(tmp_path, function, (x, torch.zeros(1), torch.ones(1)))
    assert after.tolist() == [1]
    recorded = only_pass(tmp_path)
    norm = node_of_target(recorded, "batch_norm")
    assert values_of(recorded, norm)["/1"].tolist() == [0]
    assert values_of(recorded, norm, "after")["/1"].tolist() == [1]
    assert values_of(recorded, node_of_target(recorded, r"operator\.mul"))["/0"].tolist() == [1]


def test_running_statistics_of_instances_are_updated_unless_it_is_said_otherwise(tmp_path):
    def function(x, mean, variance):
        return nn.functional.instance_norm(x, mean, variance), mean * 1

    x = torch.tensor([[[1.0, 3.0]]])
    _, ((_, after),) = record(tmp_path, function, (x, torch.zeros(1), torch.ones(1)))
    assert after.item() == pytest.approx(0.2)
    recorded = only_pass(tmp_path)
    norm = node_of_target(recorded, "instance_norm")
    assert values_of(recorded, norm)["/1"].tolist() == [0]
    assert torch.equal(values_of(recorded, norm, "after")["/1"], after)
    assert torch.equal(values_of(recorded, node_of_target(recorded, r"operator\.mul"))["/0"], after)


def test_statistics_that_are_only_read_are_not_recorded_anew(tmp_path):
    record(tmp_path, nn.BatchNorm1d(3).eval(), (torch.randn(2, 3),))
    assert not [key for key in only_pass(tmp_path) if "@after" in key]


def test_an_embedding_that_shortens_its_rows(tmp_path):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding.from_pretrained(torch.full((2, 4), 2.0), max_norm=1.0)

        def forward(self, which):
            return self.words(which), self.words.weight * 1

    record(tmp_path, Words(), (torch.tensor([1]),))
    recorded = only_pass(tmp_path)
    lookup = node_of_target(recorded, "embedding")
    assert values_of(recorded, lookup)["/1"][1, 0] == 2
    assert values_of(recorded, lookup, "after")["/1"][:, 0].tolist() == pytest.approx([2, 0.5])
    copied = values_of(recorded, node_of_target(recorded, r"operator\.mul"))["/0"]
    assert copied[:, 0].tolist() == pytest.approx([2, 0.5])


def test_tensors_of_torch_func_are_counted_and_their_nodes_are_whole(tmp_path):
    def function(x):
        return torch.func.vmap(torch.func.grad(lambda row: (row**2).sum()))(x)

    x = torch.randn(3, 2)
    backend, (result,) = record(tmp_path, function, (x,), strict=False)
    assert torch.equal(result, 2 * x)
    assert backend.coverage["notes"] == []
    (unseen,) = backend.coverage["unsupported"]
    assert unseen["why"] == "a tensor within vmap or grad of torch.func" and unseen["count"] > 3
    events = nodes_of(only_pass(tmp_path)).values()
    assert all(event.results for event in events)
    assert not [event for event in events if "pybind11" in event.notes.get("target", "")]


def adds_to_inputs(module, inputs):
    """A backend that takes the memory of its inputs for its own, without PyTorch's noticing."""

    def run(*given):
        results = module.forward(*given)
        for value in given:
            value.data.add_(1)
        return results

    return run


def test_a_backend_that_writes_to_what_the_graph_only_reads_is_found(tmp_path):
    backend = Checking(adds_to_inputs, tmp_path)
    compiled(lambda x: (x * 2).relu(), backend)(torch.ones(3))
    (mismatch,) = backend.mismatches
    assert str(mismatch.differences[0]) == "input l_x_ was written to, which the graph does not do"
    assert len(mismatch.reduced.nodes) == 1 and mismatch.script.exists()


def test_what_a_graph_writes_to_without_saying_so_is_written_once():
    weight = torch.full((2, 4), 2.0)
    backend = Checking("eager")
    compiled(lambda which, rows: nn.functional.embedding(which, rows, max_norm=1.0), backend)(torch.tensor([1]), weight)
    assert backend.lines == [] and weight[:, 0].tolist() == pytest.approx([2, 0.5])


@pytest.mark.parametrize(("nothing", "count"), [(0, 0), ("", 0), (False, 0), (None, 0), (1, 2), ("yes", 2)])
def test_a_filter_may_say_no_with_anything_false(tmp_path, nothing, count):
    with tap.graph_backend(tmp_path, filter=lambda node: nothing, report=False) as backend, torch.no_grad():
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        assert backend.graphs[0].selected == count


def test_a_graph_that_runs_backward_twice_is_not_missed(tmp_path):
    with tap.graph_backend(tmp_path, stage="aot", report=False) as backend:
        loss = torch.compile(nn.Linear(2, 2), backend=backend)(torch.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert backend.coverage["notes"] == []
