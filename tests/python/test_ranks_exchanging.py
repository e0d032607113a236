"""NaN and wrong values that collectives bring from one rank to others: `ttap check` and `ttap diff` name the rank."""

import re
import shutil

import pytest
import tensortap as tap
import torch.distributed as dist
from exchanging_ranks import BAD_RANK, CASES, CASES_OF_FOUR
from rank_recordings import recordings_of
from ttap_command import read_json, run

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no distributed package")

# What spreads the value, as the recording calls it.
SPREAD_BY = {
    "all_reduce": "c10d::allreduce_",
    "all_reduce_later": "c10d::allreduce_",
    "functional_all_reduce": "_c10d_functional::all_reduce",
    "broadcast": "c10d::broadcast_",
    "all_gather": "c10d::_allgather_base_",
    "all_gather_list": "c10d::allgather_",
    "all_to_all": "c10d::alltoall_",
    "reduce": "c10d::reduce_",
    "gather": "c10d::gather_",
    "scatter": "c10d::scatter_",
    "send": "c10d::send",
}
# Those in which both ranks do the same.
BOTH = {"overflow", "inf_less_inf", "other_reduction"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function from the number of ranks to the folder of their recordings."""
    return recordings_of("exchanging_ranks.py", tmp_path_factory)


def folder_of(case, recorded):
    folder = recorded(2) / case
    if not folder.exists():
        pytest.skip(f"skipped: gloo of this PyTorch has no {case}")
    return folder


def without_rank(folder, number, to):
    """A copy of a run without one of its ranks."""
    shutil.copytree(folder, to)
    (gone,) = (rank for rank in tap.open(to).ranks if rank.number == number)
    shutil.rmtree(gone.path)
    return to


def test_every_case_is_in_a_test():
    assert {case.__name__ for case in CASES} == {*SPREAD_BY, *BOTH}
    assert {case.__name__ for case in CASES_OF_FOUR} == {"subgroups", "two_hops", "reduce_scatter"}


# ---- check ----


@pytest.mark.parametrize("case", SPREAD_BY)
def test_nan_is_followed_to_the_op_of_the_rank_that_made_it(recorded, case):
    found = tap.check(folder_of(case, recorded) / "nan")
    assert (found.first.rank, found.first.call, found.first.origin) == (
        BAD_RANK,
        "aten::log(f32[4]) -> f32[4]",
        "made",
    )
    (spread,) = found.first.spread
    assert (spread.op, spread.from_rank, spread.to_ranks) == (SPREAD_BY[case], BAD_RANK, (0,))
    others = [tensor for tensor in found.found if tensor.rank == 0 and tensor.fault]
    assert others
    assert all(tensor.from_rank == BAD_RANK and tensor.origin == "from_rank" and tensor.inherited for tensor in others)
    assert "made here" not in re.sub(r"(?s)^FIRST.*?\n\n", "", str(found))


def test_the_collective_is_told_by_group_and_number(recorded):
    text = run("check", recorded(2) / "all_reduce" / "nan").stdout
    spread = "by c10d::allreduce_ of group 0 (default_pg), its 2nd: from rank 1 to rank 0"
    assert f"  spread   {spread}\n" in text
    found, _ = read_json("check", recorded(2) / "all_reduce" / "nan")
    (told,) = found["first"]["origin"]["spread"]
    assert told == {
        "op": "c10d::allreduce_",
        "group": "0 (default_pg)",
        "number": 2,
        "from_rank": 1,
        "to_ranks": [0],
    }


def test_the_rank_that_made_it_is_found_from_another_one_alone(recorded):
    assert tap.check(recorded(2) / "all_reduce" / "nan", ranks=0).first.rank == BAD_RANK


def test_training_with_ddp(recorded):
    found = tap.check(recorded(2) / "train" / "nan")
    assert (found.first.rank, found.first.pass_number, found.first.module) == (BAD_RANK, 1, "Net")
    assert found.first.call.startswith("aten::log(")
    assert [(spread.op, spread.to_ranks) for spread in found.first.spread] == [("c10d::allreduce_", (0,))]


def test_a_subgroup_is_followed_within_itself(recorded):
    found = tap.check(recorded(4) / "subgroups" / "nan")
    assert found.first.rank == BAD_RANK
    assert [spread.to_ranks for spread in found.first.spread] == [(0,)]
    assert {tensor.rank for tensor in found.found} == {0, 1}


def test_over_several_collectives(recorded):
    found = tap.check(recorded(4) / "two_hops" / "nan")
    assert found.first.rank == BAD_RANK
    assert [(spread.from_rank, spread.to_ranks) for spread in found.first.spread] == [(1, (0,)), (0, (2,))]
    assert {tensor.from_rank for tensor in found.found if tensor.rank == 2} == {BAD_RANK}


def test_to_every_other_rank(recorded):
    (spread,) = tap.check(recorded(4) / "reduce_scatter" / "nan").first.spread
    assert (spread.from_rank, spread.to_ranks) == (1, (0, 2, 3))


def test_an_overflow_of_the_sum_is_made_by_the_collective(recorded):
    result = run("check", recorded(2) / "overflow" / "nan")
    assert result.stdout.startswith("FIRST  c10d::allreduce_/0/0\n")
    assert (
        "made here: all 2 contributions to c10d::allreduce_ of group 0 (default_pg), its 1st, were finite (ranks 0, 1)"
        in result.stdout
    )
    (collective,) = tap.check(recorded(2) / "overflow" / "nan").first.collectives
    assert [(each.rank, each.known, each.finite) for each in collective.contributions] == [
        (0, True, True),
        (1, True, True),
    ]


def test_inf_less_inf_is_told_with_both(recorded):
    text = run("check", recorded(2) / "inf_less_inf" / "nan").stdout
    assert text.startswith("FIRST  aten::mul.Tensor\n")
    assert "  NaN in   c10d::allreduce_/0/0" in text


def test_without_the_other_rank_nothing_is_made_here(recorded, tmp_path):
    alone = without_rank(recorded(2) / "all_reduce" / "nan", BAD_RANK, tmp_path / "alone")
    found = tap.check(alone)
    assert (found.first.rank, found.first.origin) == (0, "unknown")
    (collective,) = found.first.collectives
    assert [each.missing for each in collective.contributions] == [
        None,
        "rank 1 of group 0 (default_pg) was not recorded",
    ]
    assert "made here" not in str(found)
    assert "rank 1 of group 0 (default_pg) was not recorded" in str(found)


def test_a_contribution_of_which_nothing_was_recorded_is_named(recorded):
    found = tap.check(recorded(2) / "without_arguments" / "nan")
    assert found.first.origin == "unknown"
    assert "what rank 1 gave was not recorded" in str(found)
    assert "made here" not in str(found)


def test_ranks_with_differing_counts_are_not_paired(recorded):
    found = tap.check(recorded(2) / "started_late" / "nan")
    # The one that is known to have made it comes first; nothing says that it is what came out on the other rank.
    assert (found.first.rank, found.first.origin, found.first.spread) == (BAD_RANK, "made", ())
    (result,) = (tensor for tensor in found.found if tensor.rank == 0)
    assert (result.origin, result.from_rank) == ("unknown", None)
    alone = run("check", recorded(2) / "started_late" / "nan", "--rank", "0").stdout
    assert "the ranks do not pair: of group 0 (default_pg) this pass has 1 on rank 0 and 2 on rank 1" in alone
    assert "made here" not in alone


def test_a_clean_run_is_clean(recorded):
    for case in ("all_reduce", "train"):
        assert tap.check(recorded(2) / case / "good").clean


# ---- diff ----


def rows(result, rank):
    """The tensors of a rank, pass by pass."""
    told = result["passes"]
    return [tensor for each in told if each["a"].startswith(f"rank {rank},") for tensor in each["tensors"]]


@pytest.mark.parametrize("case", SPREAD_BY)
def test_a_wrong_value_is_followed_to_the_op_of_the_rank_that_made_it(recorded, case):
    folder = folder_of(case, recorded)
    result = run("diff", folder / "good", folder / "wrong")
    assert result.stdout.startswith(f"diverged: aten::mul.Tensor introduced the error in rank {BAD_RANK}, pass 0\n")
    told, _ = read_json("diff", folder / "good", folder / "wrong")
    differing = [tensor for tensor in rows(told, 0) if tensor["verdict"] == "diverged"]
    assert differing
    assert {tensor["cause"] for tensor in differing} == {"inherited"}
    came = differing[0]
    received_by = "c10d::recv_" if case == "send" else SPREAD_BY[case]
    assert came["reason"].startswith(f"what rank {BAD_RANK} gave to {received_by} of group 0 (default_pg)")
    assert came["reason"].endswith(", differs: aten::log")
    source = told["passes"][came["from_pass"]]["tensors"][came["from"]]
    assert (came["from_pass"], source["key"]) == (BAD_RANK, "aten::mul.Tensor")


def test_a_wrong_step_of_ddp_is_told_before_the_weights_that_it_spoilt(recorded):
    folder = recorded(2) / "train"
    result = run("diff", folder / "good", folder / "wrong")
    assert result.stdout.startswith("diverged: Net:aten::mul.Tensor introduced the error in rank 1, pass 1\n")
    assert re.search(
        r"first seen at .* in rank 0, pass 1: what rank 1 gave to c10d::allreduce_ .*its 3rd", result.stdout
    )


@pytest.mark.parametrize("case", ["subgroups", "two_hops", "reduce_scatter"])
def test_so_it_is_on_four_ranks(recorded, case):
    folder = recorded(4) / case
    result = run("diff", folder / "good", folder / "wrong")
    assert result.stdout.startswith("diverged: aten::mul.Tensor introduced the error in rank 1, pass 0\n")
    if case == "two_hops":
        told, _ = read_json("diff", folder / "good", folder / "wrong")
        came = next(tensor for tensor in rows(told, 2) if tensor["verdict"] == "diverged")
        assert came["from_pass"] == BAD_RANK
        assert came["reason"].startswith("what rank 0 gave to c10d::allreduce_")


def test_a_collective_that_reduces_otherwise_introduced_it(recorded):
    folder = recorded(2) / "other_reduction"
    result = run("diff", folder / "good", folder / "wrong")
    assert result.stdout.startswith("diverged: c10d::allreduce_/0/0 introduced the error in rank 0, pass 0\n")
    assert (
        "all 2 contributions to c10d::allreduce_ of group 0 (default_pg), its 1st, agree bit for bit" in result.stdout
    )


def test_a_rank_that_was_not_compared_is_named(recorded):
    folder = recorded(2) / "all_reduce"
    result = run("diff", folder / "good", folder / "wrong", "--rank", "0")
    assert "whether it introduced the error is unknown" in result.stdout
    assert "not all was compared: rank 1 of group 0 (default_pg)" in result.stdout


def test_a_diff_pairs_no_ranks_with_differing_counts(recorded):
    folder = recorded(2) / "started_late"
    told, _ = read_json("diff", folder / "good", folder / "wrong")
    (came,) = (tensor for tensor in rows(told, 0) if tensor["verdict"] == "diverged")
    assert came["cause"] == "unknown"
    assert "the ranks do not pair" in came["reason"]
