"""Several ranks of an engine, each with a part of the model, against one process: token by token, as they declare."""

import json
import shutil

import pytest
import tensortap as tap
import torch
from packed_rows import PROMPTS, VOCABULARY, WHOLE, WIDTH, run_packed
from tensortap.session import metadata
from torch import nn
from torch.nn.functional import linear

RANKS = 2
HALF = 4  # columns of q_proj in one rank; all of k_proj, of which both have a copy


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.q_proj = nn.Linear(WIDTH, RANKS * HALF, bias=False)
        self.k_proj = nn.Linear(WIDTH, HALF, bias=False)
        self.o_proj = nn.Linear(RANKS * HALF, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.embed(ids)
        return self.norm(x + self.o_proj(self.q_proj(x) * self.k_proj(x).repeat(1, 1, RANKS)))


class RowParallel(nn.Linear):
    """Adds what the other ranks have."""

    others = 0

    def forward(self, x):
        return super().forward(x) + self.others


class OneRank(nn.Module):
    def __init__(self, plain, rank):
        super().__init__()
        mine = slice(rank * HALF, (rank + 1) * HALF)
        self.embed = plain.embed
        self.qk_proj = nn.Linear(WIDTH, 2 * HALF, bias=False)
        self.o_proj = RowParallel(HALF, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.others = []
        with torch.no_grad():
            self.qk_proj.weight.copy_(torch.cat((plain.q_proj.weight[mine], plain.k_proj.weight)))
            self.o_proj.weight.copy_(plain.o_proj.weight[:, mine])

    def share_of(self, x):
        q, k = linear(x, self.qk_proj.weight).chunk(2, -1)
        return linear(q * k, self.o_proj.weight)

    def forward(self, ids, last):
        x = self.embed(ids)
        q, k = self.qk_proj(x).chunk(2, -1)
        self.o_proj.others = sum(other.share_of(x) for other in self.others)
        return self.norm(x + self.o_proj(q * k))


def declare(model, name, module):
    pieces = {"sizes": [HALF, HALF], "copies": [1, RANKS]}
    if name == "qk_proj":
        shards = {"out": pieces | {"concat": -1}, "param/weight": pieces | {"concat": 0}}
        return {"parts": ["q_proj", "k_proj"], "shards": shards}
    if isinstance(module, RowParallel):
        return {"shards": {"in": {"concat": -1}, "param/weight": {"concat": 1}}}
    return {}


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    monkeypatch.setattr(metadata, "describers", [declare])


@torch.no_grad()
def run_plain(plain, directory, prompts=PROMPTS, **options):
    with tap.record(plain, directory, report=False, **options):
        for number, prompt in enumerate(prompts):
            tap.batch(
                request_ids=[f"text {number}"],
                positions=torch.arange(len(prompt)),
                query_start=[0, len(prompt)],
                token_ids=torch.tensor(prompt),
            )
            plain(torch.tensor([prompt]))


def move_rank(recorded, directory, rank, pid):
    """Makes what one process recorded one rank of a run."""
    (folder,) = recorded.glob("rank0_pid*")
    moved = directory / f"rank{rank}_pid{pid}"
    directory.mkdir(exist_ok=True)
    shutil.move(folder, moved)
    facts = json.loads((moved / "rank.json").read_text())
    (moved / "rank.json").write_text(json.dumps(facts | {"rank": rank, "pid": pid}))


@torch.no_grad()
def run_ranks(plain, directory, fault=lambda ranks: None, chunks=(WHOLE,), **options):
    ranks = [OneRank(plain, rank) for rank in range(RANKS)]
    for rank in ranks:
        rank.others = [other for other in ranks if other is not rank]
    fault(ranks)
    for number, rank in enumerate(ranks):
        part = directory.with_name(f"{directory.name} {number}")
        run_packed(rank, part, chunks, **options)
        move_rank(part, directory, number, 100 + number)


CHUNKS = {"one step": [WHOLE], "chunked prefill": [[(0, 0, 2), (1, 0, 3)], [(0, 2, 5), (2, 0, 4)], [(2, 4, 7)]]}


@pytest.mark.parametrize("roles", ["out", "in,out,param"])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_ranks_are_put_together_as_they_declare(chunks, roles, tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a", roles=roles)
    run_ranks(plain, tmp_path / "b", chunks=CHUNKS[chunks], roles=roles)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    assert diff.to_json()["tokens"]["tokens"] == sum(map(len, PROMPTS))
    assert not [tensor.key for tensor in diff.tensors if tensor.verdict == "missing"]
    assert {tensor.key: tensor.key_b for tensor in diff.tensors if tensor.key in ("q_proj", "k_proj")} == {
        "q_proj": "qk_proj",
        "k_proj": "qk_proj",
    }


FAULTS = {
    "q_proj": lambda ranks: ranks[1].qk_proj.weight[1].mul_(1.5),
    "k_proj": lambda ranks: ranks[1].qk_proj.weight[HALF + 2].mul_(1.5),  # a copy, of which rank 0 has another
    "o_proj": lambda ranks: ranks[1].o_proj.weight[3].mul_(1.5),
    "norm": lambda ranks: ranks[1].norm.weight[5].mul_(1.5),
}


@pytest.mark.parametrize("roles", ["out", "in,out,param"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_rank_is_named(fault, roles, tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a", roles=roles)
    run_ranks(plain, tmp_path / "b", FAULTS[fault], roles=roles)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "diverged", diff
    assert diff.first.key.partition("@")[0] == fault, diff
    place = diff.to_json()["first"]
    first = diff.to_json()["passes"][place["pass"]]["tensors"][place["tensor"]]
    # Each rank has all of what was added up.
    assert first["ranks"] == ([0, 1] if (fault, roles) == ("o_proj", "out") else [1]), first


def test_processes_that_compute_no_tokens_are_passed_over(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    run_ranks(plain, tmp_path / "b")
    for side in "ab":
        with tap.record(other := nn.Linear(4, 4), tmp_path / "other", report=False):
            other(torch.ones(1, 4))
        move_rank(tmp_path / "other", tmp_path / side, 0, 7)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    assert diff.to_json()["tokens"]["requests"] == 3


def test_ranks_that_work_on_different_texts_are_not_put_together(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    for rank in range(RANKS):
        run_plain(plain, tmp_path / f"part {rank}", PROMPTS[rank : rank + 1])
        move_rank(tmp_path / f"part {rank}", tmp_path / "b", rank, rank)
    with pytest.raises(FileNotFoundError, match="the processes of B compute different tokens"):
        tap.diff(tmp_path / "a", tmp_path / "b", by_token=True)
    assert tap.diff(tmp_path / "a", tmp_path / "b", ranks="0:1", by_token=True).verdict == "identical"
