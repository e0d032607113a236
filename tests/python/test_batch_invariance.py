"""Operators that give a request other bits alone than in a batch, found in one recording."""

import json
import os
import sys

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import run

REQUESTS, TOKENS = 4, 6


@torch.library.custom_op("batches_test::mean_of_rows", mutates_args=())
def mean_of_rows(x: torch.Tensor) -> torch.Tensor:
    """Each row by itself; of a batch its sum is made from the other end."""
    ordered = x.flip(-1) if len(x) > TOKENS else x
    total = torch.zeros_like(x[:, 0])
    for column in ordered.unbind(-1):
        total = total + column
    return total / x.shape[-1]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, 16), nn.LayerNorm(16)

    def forward(self, ids):
        hidden = self.norm(self.embed(ids))
        rows = hidden.flatten(0, 1)  # the tokens of one request behind those of the other
        return torch.tanh(torch.ops.batches_test.mean_of_rows(rows.exp()))


def traced(work, *given):
    with tap.trace(level="full", stacks=True) as trace, torch.no_grad():
        work(*given)
    return trace


def invariance(work, *given, requests=REQUESTS):
    return tap.batch_invariance(traced(work, *given), requests)


def ids():
    return torch.randint(50, (REQUESTS, TOKENS), generator=torch.Generator().manual_seed(3))


def test_the_operator_that_depends_on_the_batch_is_named():
    torch.manual_seed(0)
    found = invariance(Model(), ids())
    assert not found.ok
    assert [one.op for one in found.findings] == ["batches_test::mean_of_rows"]
    first = found.first
    assert first.call == "f32[24, 16]"
    assert 0 < first.relative < 1e-5
    assert 0 < first.unequal <= first.count == TOKENS
    assert "mean_of_rows" in first.line
    assert str(found).startswith("depends on the batch: ")


def test_what_comes_after_it_is_judged_with_what_it_was_given():
    torch.manual_seed(0)
    found = invariance(Model(), ids())
    assert found.judged >= 3  # the norm, the mean and tanh
    assert found.refused == []


def test_rows_that_are_computed_one_by_one_are_the_same_alone():
    found = invariance(lambda x: (x.exp() * 2 + x).cumsum(-1), torch.randn(REQUESTS, 8))
    assert found.ok
    assert found.judged == 4
    assert "0 of 4 calls give a request other bits alone" in str(found)


def test_a_result_that_mixes_requests_is_no_finding():
    found = invariance(lambda x: (x - x.mean(0)).exp(), torch.randn(REQUESTS, REQUESTS))
    assert found.ok
    assert [(one.op, one.reason) for one in found.refused] == [
        ("aten::mean.dim", "the rows of its result are not made one by one")
    ]


def test_a_tensor_of_another_origin_with_a_row_for_each_is_cut_too():
    def work(x):
        return x.exp() + torch.arange(REQUESTS * 2.0).view(REQUESTS, 2)

    found = invariance(work, torch.randn(REQUESTS, 2))
    assert (found.ok, found.judged, found.refused) == (True, 2, [])


def test_a_matrix_with_as_many_rows_as_requests_is_not_taken_for_one_of_them():
    torch.manual_seed(0)
    found = invariance(nn.Linear(REQUESTS, REQUESTS), torch.randn(REQUESTS, REQUESTS))
    assert found.judged == 1
    assert found.refused == []


def test_what_is_written_in_place_is_judged():
    def work(x):
        x = x.clone()
        x.add_(torch.ones(REQUESTS, 1)).mul_(3)
        return x

    found = invariance(work, torch.randn(REQUESTS, 5))
    assert (found.ok, found.judged) == (True, 3)


def test_random_numbers_are_not_judged():
    found = invariance(lambda x: torch.dropout(x, 0.5, True) + 1, torch.randn(REQUESTS, 8))
    assert found.ok
    assert any("random" in one.reason for one in found.refused)


def test_passes_and_ranks_are_chosen(tmp_path):
    model = Model()
    with tap.record(model, tmp_path / "run", ops=True, level="full"), torch.no_grad():
        model(ids())
        model(ids())
    assert {one.pass_number for one in tap.batch_invariance(tmp_path / "run", REQUESTS).findings} == {0, 1}
    assert {one.pass_number for one in tap.batch_invariance(tmp_path / "run", REQUESTS, passes=1).findings} == {1}


@pytest.mark.parametrize(
    ("requests", "message"), [(1, "2 or more"), (7, "no operator of .* takes a tensor that entered with 7 rows")]
)
def test_what_is_no_batch_is_said(requests, message):
    with pytest.raises(ValueError, match=message):
        invariance(lambda x: x + 1, torch.randn(REQUESTS, 3), requests=requests)


def test_a_program_of_which_nothing_is_judged_is_not_fine():
    with pytest.raises(ValueError, match="no operator could be judged: the rows of its result are not made one by one"):
        invariance(lambda x: x.mean(0), torch.randn(REQUESTS, REQUESTS))


PROGRAM = """
import torch
x = torch.randn(4, 300, generator=torch.Generator().manual_seed(0))
print(((x * 3).exp() + 1).sum(-1))
"""


def twice(*words, program):
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return run("twice", *words, "--", sys.executable, *program, PATH=path)


def test_the_command_runs_a_program_once(tmp_path):
    result = twice("--batch-invariance", "4", "--json", "-o", tmp_path, program=["-c", PROGRAM])
    answer = json.loads(result.stdout)
    assert result.returncode == (0 if answer["ok"] else 1), result.stderr
    assert (answer["command"], answer["requests"]) == ("twice --batch-invariance", 4)
    assert answer["judged"] >= 4
    assert result.stderr.count("tensor(") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--batch-invariance", "1"], "2 or more"),
        (["--batch-invariance", "4", "--times", "3"], "--batch-invariance"),
        (["--batch-invariance", "4", "--why"], "--batch-invariance"),
        (["--batch-invariance", "5"], "entered with 5 rows"),
    ],
)
def test_the_command_says_what_does_not_go_together(words, message):
    result = twice(*words, program=["-c", PROGRAM])
    assert result.returncode == 2
    assert message in result.stderr
    assert "what to do" in result.stderr
