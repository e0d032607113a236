"""Collectives made again from what all ranks gave to them, and those that are wrong."""

import shutil
import sys

import pytest
import tensortap as tap
import torch
import torch.distributed as dist
from rank_recordings import recordings_of
from replayed_ranks import BAD_RANK, DTYPES, PROGRAMS, WRONG
from tensortap.reading import pass_of
from tensortap.replaying.operators import OpName, is_collective, is_wait
from ttap_command import read_json, run

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no distributed package")

RANKS = (2, 4)
TRAINED = ("train", "train_views")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function from the number of ranks to the folder of their recordings."""
    return recordings_of("replayed_ranks.py", tmp_path_factory)


def collectives(path):
    """The calls of all ranks and passes with a result: (rank, event)."""
    for rank in tap.open(path).ranks:
        for kept in rank.passes.values():
            for event in kept.events:
                name = OpName.of(event.name)
                has_result = any(use.role in ("out", "after") for use in event.uses)
                if event.kind == "op" and is_collective(name) and has_result and not is_wait(name):
                    yield rank.number, event


def only(path, rank, op):
    (event,) = (event for number, event in collectives(path) if number == rank and event.name.endswith(op))
    return event


# ---- the recorded bits ----

REDUCED = {"c10d::allreduce_", "c10d::reduce_", "c10d::_reduce_scatter_base_", "c10d::reduce_scatter_"}
MOVED = {"c10d::_allgather_base_", "c10d::allgather_", "c10d::broadcast_", "c10d::gather_", "c10d::scatter_",
         "c10d::alltoall_", "c10d::alltoall_base_"}  # fmt: skip
FUNCTIONAL = {
    f"_c10d_functional::{name}"
    for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "all_to_all_single",
                 "all_reduce_coalesced", "all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced")
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("program", "ops"), [("reductions", REDUCED), ("moves", MOVED), ("functional", FUNCTIONAL)])
def test_two_ranks_give_the_recorded_bits(recorded, program, ops, dtype):
    calls = list(collectives(recorded(2) / f"{program}_{dtype}"))
    assert {event.name for _, event in calls} == ops
    assert {rank for rank, _ in calls} == {0, 1}
    for rank, event in calls:
        again = tap.replay(event)
        if event.name == "c10d::reduce_" and rank != BAD_RANK:
            assert "a reduction to another rank" in again.reason
            continue
        assert isinstance(again, tap.Replayed), again.reason
        assert again.same_bits is True, event.name
        assert all(each.recorded is not None and each.same_bits for each in again.tensors), event.name


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_four_ranks_what_only_moves_has_the_recorded_bits(recorded, dtype):
    for _, event in collectives(recorded(4) / f"moves_{dtype}"):
        assert tap.replay(event).same_bits is True, event.name


def test_integers_are_combined_bit_by_bit(recorded):
    for ranks in RANKS:
        calls = list(collectives(recorded(ranks) / "bits"))
        assert len(calls) == 5 * ranks
        assert [tap.replay(event).same_bits for _, event in calls] == [True] * len(calls)


def test_the_exact_result_is_that_of_all_contributions(recorded):
    calls = [event for _, event in collectives(recorded(4) / "reductions_f32") if event.name == "c10d::allreduce_"]
    sums = [event for event in calls if event.call == 1]
    exact = torch.stack([value(event, "in") for event in sums]).double().sum(0)
    assert len(sums) == 4
    for event in sums:
        (made,) = tap.replay(event, dtype=torch.float64).tensors
        assert torch.allclose(made.value, exact, rtol=1e-14, atol=0)
        (narrow,) = tap.replay(event, dtype=torch.bfloat16).tensors
        assert narrow.value.dtype == torch.bfloat16


def value(event, role):
    kept = pass_of(event)
    (use,) = (use for use in event.uses if use.role == role)
    return kept[kept.records[use.record].key]


def test_a_result_that_was_waited_for_is_read_where_it_was_used(recorded):
    for ranks in RANKS:
        calls = list(collectives(recorded(ranks) / "waited_for_later"))
        used = [tap.replay(event) for _, event in calls if event.call == 1]
        unused = [tap.replay(event) for _, event in calls if event.call == 2]
        assert len(used) == len(unused) == ranks
        assert all(each.tensors[0].recorded is not None for each in used)
        assert all(each.tensors[0].recorded is None and each.same_bits is None for each in unused)
    assert all(each.same_bits for each in used) or ranks > 2
    blamed = tap.blame(recorded(2) / "waited_for_later", all=True)
    assert sum(count for reason, count in blamed.reasons.items() if "waited for its result later" in reason) == 2


def test_a_wait_gives_what_its_collective_makes(recorded):
    kept = tap.open(recorded(2) / "functional_f32").ranks[0].passes[0]
    waits = [event for event in kept.events if event.name == "_c10d_functional::wait_tensor"]
    assert len(waits) == 12
    assert [tap.replay(event).same_bits for event in waits] == [True] * len(waits)


def test_a_receive_is_what_was_sent(recorded):
    calls = list(collectives(recorded(2) / "sent"))
    assert [(rank, event.name) for rank, event in calls] == [(0, "c10d::recv_")]
    assert tap.replay(calls[0][1]).same_bits is True


def test_a_subgroup_has_its_own_ranks(recorded):
    sums = dict(collectives(recorded(4) / "subgroups"))
    for rank, event in sums.items():
        (made,) = tap.replay(event).tensors
        assert made.same_bits is True
        assert torch.equal(made.value, value(event, "in") + value(sums[rank ^ 1], "in"))


# ---- blame ----


@pytest.mark.parametrize("ranks", RANKS)
def test_sound_runs_have_nothing_above_the_line(recorded, ranks):
    judged = set()
    for name in [*PROGRAMS, *TRAINED]:
        blamed = tap.blame(recorded(ranks) / name, top=1000)
        assert [(one.place, one.error) for one in blamed.findings] == [], name
        judged |= {one.op for one in blamed.calls}
    assert judged >= REDUCED | MOVED | FUNCTIONAL


def test_a_wait_is_judged_with_its_collective(recorded):
    blamed = tap.blame(recorded(2) / "functional_f32")
    assert blamed.nothing_to_judge["waits for collectives"] > 24  # and operators on what they wait for
    assert set(blamed.reasons) == {"it draws random numbers, which are others in float64"}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_all_reduce_is_ranked_first(recorded, fault, ranks):
    blamed = tap.blame(recorded(ranks) / fault)
    assert {one.op for one in blamed.findings} == {"c10d::allreduce_"}
    assert {one.rank for one in blamed.findings} == set(range(ranks))
    assert blamed.first.error.kind == "error"
    assert "in wrong: dist.all_reduce(x)" in blamed.first.line


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", TRAINED)
def test_the_gradients_of_ddp_are_judged(recorded, name, ranks):
    blamed = tap.blame(recorded(ranks) / name, top=1000)
    sums = [(one.rank, one.pass_number) for one in blamed.calls if one.op == "c10d::allreduce_"]
    assert sorted(sums) == [(rank, number) for rank in range(ranks) for number in range(2)]


def test_a_wrong_sum_of_gradients_is_blamed(recorded):
    blamed = tap.blame(recorded(2) / "train_scaled")
    assert {one.op for one in blamed.findings} == {"c10d::allreduce_"}
    assert len(blamed.findings) == 4


# ---- what cannot be made again ----


def without_rank(folder, number, to):
    """A copy of a run without one of its ranks."""
    shutil.copytree(folder, to)
    (gone,) = (rank for rank in tap.open(to).ranks if rank.number == number)
    shutil.rmtree(gone.path)
    return to


def test_a_rank_that_is_missing_is_named(recorded, tmp_path):
    folder = without_rank(recorded(2) / "reductions_f32", 1, tmp_path / "run")
    for _, event in collectives(folder):
        refused = tap.replay(event)
        assert isinstance(refused, tap.NotReplayable)
        assert "rank 1 of group 0 (default_pg) was not recorded" in refused.reason
        assert "the recordings of all its ranks" in refused.reason
    alone = tap.Pass(shutil.copy(tap.open(folder).ranks[0].passes[0].path, tmp_path / "pass00000.ttap"))
    event = next(event for event in alone.events if event.name == "c10d::allreduce_")
    assert "rank 1 of group 0 (default_pg) was not recorded" in tap.replay(event).reason


def test_bytes_that_are_missing_are_named_with_their_rank(recorded):
    event = only(recorded(2) / "hashes_on_one_rank", 0, "c10d::allreduce_")
    reason = tap.replay(event).reason
    assert reason.startswith("of what rank 1 gave, the bytes of the argument /0/0 were not kept")
    assert "--level full" in reason


def test_ranks_that_do_not_pair_are_told(recorded):
    event = only(recorded(2) / "started_late", 0, "c10d::allreduce_")
    assert "the ranks do not pair: of group 0 (default_pg) this pass has 1 on rank 0 and 2" in tap.replay(event).reason


def test_the_first_of_several_runs_of_a_directory_has_its_own_ranks(recorded):
    folder = recorded(2) / "twice"
    runs = tap.runs(folder)
    assert len(runs) == 2
    for each in runs:
        for _, event in collectives(each):
            assert tap.replay(event).same_bits is True


# ---- the command ----


def test_the_command_makes_a_collective_again(recorded):
    words = "c10d::allreduce_", "--rank", "1", "--python", sys.executable
    document, code = read_json("replay", recorded(2) / "scaled", *words)
    assert (code, document["op"], document["ok"]) == (1, "c10d::allreduce_", False)
    assert document["error"]["kind"] == "error"
    sound = run("replay", recorded(2) / "reductions_f32", *words)
    assert sound.returncode == 0
    assert "the recorded bits" in sound.stdout


def test_other_bits_of_four_ranks_are_no_finding(recorded):
    result = run("replay", recorded(4) / "reductions_f32", "c10d::allreduce_", "--python", sys.executable)
    assert result.returncode == 0
    assert "other bits than recorded, as ranks are added in any order" in result.stdout
    assert "no more than rounding explains" in result.stdout
