"""DTensors and collectives in a trace, on two ranks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensortap as tap
import torch
import torch.distributed as dist
from traced_calls import uses

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no distributed package")

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
MESH = {"shape": [2], "names": ["tp"]}
RANKS = [0, 1]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A function from a case and a rank to its pass."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    program = Path(__file__).with_name("traced_ranks.py")
    # Ranks that wait for one another forever would show as a timeout.
    found = subprocess.run([*TORCHRUN, program, folder], env=environment, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr

    def read(case, rank):
        (found,) = (each for each in tap.open(folder / case).ranks if each.number == rank)
        return found.passes[0]

    read.folder = folder
    return read


def value(run, use):
    return run[run.records[use.record].key]


def called(run, name):
    (found,) = (event for event in run.events if event.name == name)
    return found


# ---- DTensor ----


def test_an_operator_has_its_placements_and_its_local_operators_beneath_it(traces):
    for rank in RANKS:
        run = traces("product", rank)
        sin, local_sin, mm, local_mm = run.events
        assert [event.name for event in run.events] == ["aten::sin", "aten::sin", "aten::mm", "aten::mm"]
        assert [event.parent for event in run.events] == [None, 0, None, 2]
        assert sin.notes["dtensor"]["/0"] == {"placements": ["S(1)"], "mesh": MESH}
        assert mm.notes["dtensor"] == {
            "/0": {"placements": ["S(1)"], "mesh": MESH},
            "/1": {"placements": ["S(0)"], "mesh": MESH},
            "out": {"placements": ["P(sum)"], "mesh": MESH},
        }
        assert mm.notes["unread"]["/0"] == "a tensor subclass"
        assert value(run, uses(local_sin, "in")[0]).shape == (4, 2)
        assert torch.equal(value(run, uses(local_mm, "in")[0]), torch.ones(4, 2).sin())


def test_the_first_call_of_a_kind_looks_like_the_second(traces):
    # The first one has to work out the shape of its result, on fake tensors.
    first, second = traces("product", 0), traces("product_again", 0)
    assert [(event.name, event.arguments, event.parent) for event in first.events] == [
        (event.name, event.arguments, event.parent) for event in second.events
    ]


def test_a_redistribution_shows_its_collective(traces):
    run = traces("redistribute", 1)
    gather = called(run, "_c10d_functional::all_gather_into_tensor")
    assert torch.equal(value(run, uses(gather, "in")[0]), torch.arange(16.0).view(4, 4)[2:])
    wait = called(run, "_c10d_functional::wait_tensor")
    assert torch.equal(value(run, uses(wait, "out")[0]), torch.arange(16.0).view(4, 4))


def test_a_backward_of_dtensors_is_seen(traces):
    for rank in RANKS:
        run = traces("backward", rank)
        outer = [event for event in run.events if event.name == "backward:aten::threshold_backward"]
        assert len(outer) == 2  # of the DTensor, and of what this rank has of it
        assert outer[1].parent == run.events.index(outer[0])
        assert run.events[outer[0].forward].name == "aten::relu"
        assert outer[0].notes["dtensor"]["/0"]["placements"] == ["R"]  # the gradient of a sum is the same everywhere
        assert outer[0].notes["dtensor"]["/1"]["placements"] == ["S(0)"]


# ---- collectives ----


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("all_reduce", "c10d::allreduce_"),
        ("broadcast", "c10d::broadcast_"),
        ("all_gather", "c10d::_allgather_base_"),
    ],
)
def test_the_result_of_a_collective_is_read_when_it_is_there(traces, case, name):
    expected = {"all_gather": [1.0, 1.0, 2.0, 2.0], "broadcast": [2.0] * 3}.get(case, [3.0] * 3)
    for rank in RANKS:
        run = traces(case, rank)
        collective = called(run, name)
        assert value(run, uses(collective, "out")[0]).tolist() == expected
        add = called(run, "aten::add.Tensor")
        assert value(run, uses(add, "in")[0]).tolist() == expected
        assert uses(add, "in")[0].record == uses(collective, "out")[0].record


def test_a_collective_that_the_program_waits_for_later_is_read_where_it_is_used(traces):
    for rank in RANKS:
        run = traces("all_reduce_later", rank)
        collective, add = called(run, "c10d::allreduce_"), called(run, "aten::add.Tensor")
        assert collective.notes["work"] == "not waited for"
        (result,) = uses(collective, "out")
        assert run.records[result.record].level == "meta"
        assert value(run, uses(add, "in")[0]).tolist() == [3.0] * 3
        assert [use.record for use in uses(add, "part")] == [result.record]


def test_so_is_one_whose_future_the_program_waits_for(traces):
    for rank in RANKS:
        run = traces("all_reduce_promised", rank)
        negations = [event for event in run.events if event.name == "aten::neg"]
        assert len(negations) == 20
        for event in negations:
            assert value(run, uses(event, "in")[0]).tolist() == [2.0] * 3


def test_a_collective_shows_what_it_reduces_by(traces):
    for case, operation in (("all_reduce_promised", "ReduceOp.MAX"), ("all_reduce_later", "ReduceOp.SUM")):
        calls = [event for event in traces(case, 0).events if event.name == "c10d::allreduce_"]
        assert calls
        assert all(operation in event.arguments for event in calls)


def test_nobody_waits_where_the_program_does_not(traces):
    """One rank goes on after it has begun a collective, and the other begins it only then."""
    for rank in RANKS:
        assert torch.load(traces.folder / f"all_reduce_crossed-{rank}.pt", weights_only=True).tolist() == [4.0] * 3


@pytest.mark.parametrize(
    "case",
    [
        "all_reduce",
        "all_reduce_later",
        "all_gather",
        "broadcast",
        "functional_all_reduce",
        "functional_waited",
        "send_and_receive",
    ],
)
def test_collectives_give_what_they_give_without_a_trace(traces, case):
    expected = {"all_gather": [2.0, 2.0, 3.0, 3.0], "functional_waited": [2.0, 2.0, 3.0, 3.0], "broadcast": [3.0] * 3}
    for rank in RANKS:
        plain = expected.get(case, [float(3 - rank)] * 3 if case == "send_and_receive" else [4.0] * 3)
        result = torch.load(traces.folder / f"{case}-{rank}.pt", weights_only=True)
        assert result.tolist() == plain


def test_lists_of_lists_are_seen(traces):
    for rank in RANKS:
        run = traces("all_gather_list", rank)
        gathered = uses(called(run, "c10d::allgather_"), "out")
        assert [value(run, use).tolist() for use in gathered] == [[1.0, 1.0], [2.0, 2.0]]
        add = called(run, "aten::add.Tensor")
        assert uses(add, "in")[0].record == gathered[1].record


@pytest.mark.parametrize("case", ["all_reduce", "functional_all_reduce"])
def test_a_collective_shows_its_group(traces, case):
    run = traces(case, 0)
    (collective,) = (event for event in run.events if "reduce" in event.name)
    assert collective.notes["group"]


def test_a_functional_collective_has_its_group_among_its_arguments(traces):
    arguments = called(traces("functional_all_reduce", 0), "_c10d_functional::all_reduce").arguments
    assert re.fullmatch(r"%0, 'sum', '\d+'", arguments)


@pytest.mark.parametrize("case", ["functional_all_reduce", "functional_waited"])
def test_a_functional_collective_is_not_read_before_it_is_waited_for(traces, case):
    expected = [3.0] * 3 if case == "functional_all_reduce" else [1.0, 1.0, 2.0, 2.0]
    for rank in RANKS:
        run = traces(case, rank)
        collective = next(event for event in run.events if event.name.startswith("_c10d_functional::all_"))
        assert collective.notes["unread"] == {"out": "a collective that has not been waited for"}
        wait = [event for event in run.events if event.name == "_c10d_functional::wait_tensor"][-1]
        assert value(run, uses(wait, "out")[0]).tolist() == expected
        adds = [event for event in run.events if event.name == "aten::add.Tensor"]
        assert value(run, uses(adds[-1], "in")[0]).tolist() == expected


@pytest.mark.parametrize("case", ["functional_all_reduce", "functional_waited"])
def test_nobody_reads_it_as_an_argument_before_either(traces, case):
    run = traces(case, 0)
    for event in run.events:
        if event.name.startswith("_c10d_functional::") and "all_" not in event.name:
            assert [run.records[use.record].level for use in uses(event, "in")] == ["meta"]
        if event.name == "_c10d_functional::wait_tensor":
            break  # now it is there, and whoever waits again may read it


def test_a_tensor_that_waits_by_itself_has_the_wait_beneath_its_operator(traces):
    run = traces("functional_all_reduce", 0)
    outer, inner = (event for event in run.events if event.name == "aten::add.Tensor")
    wait = called(run, "_c10d_functional::wait_tensor")
    assert outer.notes["classes"]["/0"] == "AsyncCollectiveTensor"
    assert wait.parent == inner.parent == run.events.index(outer)


def test_sends_and_receives_are_seen_and_not_waited_for(traces):
    run = traces("send_and_receive", 0)
    assert called(run, "c10d::send").notes["work"] == "not waited for"
    assert called(run, "c10d::recv_").notes["work"] == "not waited for"


def test_what_was_received_is_read_afterwards(traces):
    for rank in RANKS:
        run = traces("send_and_receive", rank)
        add = called(run, "aten::add.Tensor")
        assert value(run, uses(add, "in")[0]).tolist() == [float(2 - rank)] * 3


def test_what_a_collective_does_on_threads_of_its_own_is_not_the_programs(traces):
    run = traces("all_gather", 0)
    assert len({event.thread for event in run.events}) == 1
