"""Ranks that exchange values, one of which gives something bad.

    torchrun --nproc-per-node N exchanging_ranks.py FOLDER

Records each case three times: FOLDER/CASE/good; FOLDER/CASE/nan, where a rank makes NaN; and FOLDER/CASE/wrong, where
it multiplies by another number. CASES are for two ranks, CASES_OF_FOUR for four.
"""

import sys
import warnings
from pathlib import Path

import tensortap as tap
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

BAD_RANK = 1
CASES = []
CASES_OF_FOUR = []


def two(function):
    CASES.append(function)
    return function


def four(function):
    CASES_OF_FOUR.append(function)
    return function


def given(fault: str) -> torch.Tensor:
    """What this rank gives: finite, unless it is the bad one."""
    bad = dist.get_rank() == BAD_RANK
    x = torch.full((4,), 1.0 + dist.get_rank())
    scaled = x * (3.0 if bad and fault == "wrong" else 2.0)
    return torch.log(-scaled if bad and fault == "nan" else scaled)


@two
def all_reduce(fault):
    dist.all_reduce(torch.ones(4))
    x = given(fault)
    dist.all_reduce(x)
    return x + 1


@two
def all_reduce_later(fault):
    x = given(fault)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x + 1


@two
def functional_all_reduce(fault):
    return functional.all_reduce(given(fault), "sum", dist.group.WORLD) + 1


@two
def broadcast(fault):
    x = given(fault)
    dist.broadcast(x, BAD_RANK)
    return x + 1


@two
def all_gather(fault):
    # Memory that the collective fills: what stood there does not matter.
    gathered = torch.full((8,), float("nan"))
    dist.all_gather_into_tensor(gathered, given(fault))
    return gathered @ torch.ones(8)


@two
def all_gather_list(fault):
    gathered = [torch.zeros(4), torch.zeros(4)]
    dist.all_gather(gathered, given(fault))
    return gathered[BAD_RANK] + 1


@two
def all_to_all(fault):
    sent = [torch.ones(4), given(fault)] if dist.get_rank() == 0 else [given(fault), torch.ones(4)]
    received = [torch.zeros(4), torch.zeros(4)]
    dist.all_to_all(received, sent)
    return received[BAD_RANK] + 1


@two
def reduce(fault):
    x = given(fault)
    dist.reduce(x, 0)
    return x + 1


@two
def gather(fault):
    gathered = [torch.zeros(4), torch.zeros(4)] if dist.get_rank() == 0 else None
    dist.gather(given(fault), gathered, 0)


@two
def scatter(fault):
    received = torch.zeros(4)
    parts = [given(fault), torch.ones(4)] if dist.get_rank() == BAD_RANK else None
    dist.scatter(received, parts, BAD_RANK)
    return received + 1


@two
def send(fault):
    if dist.get_rank() == BAD_RANK:
        dist.send(given(fault), 0)
        return None
    received = torch.zeros(4)
    dist.recv(received, BAD_RANK)
    return received + 1


@two
def overflow(fault):
    x = torch.full((4,), 1.0) if fault == "good" else torch.full((4,), 3e38)
    dist.all_reduce(x)
    return x + 1


@two
def inf_less_inf(fault):
    x = torch.full((4,), 1.0) if fault == "good" else torch.full((4,), 3e38) * (10.0 * (1 - 2 * dist.get_rank()))
    dist.all_reduce(x)
    return x + 1


@two
def other_reduction(fault):
    x = given("good")
    dist.all_reduce(x, op=dist.ReduceOp.MAX if fault == "wrong" else dist.ReduceOp.SUM)
    return x + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x, scale):
        return self.last(torch.log(torch.sigmoid(self.first(x)) * scale))


def started_late(folder: Path, fault: str) -> None:
    """The trace of one rank has a call less than that of the other."""
    late = dist.get_rank() == 0
    if late:
        dist.all_reduce(torch.ones(4))
    with tap.trace(level="full") as t:
        if not late:
            dist.all_reduce(torch.ones(4))
        x = given(fault)
        dist.all_reduce(x)
    t.save(folder)


def without_arguments(folder: Path, fault: str) -> None:
    """Nothing is recorded but what collectives returned."""
    with tap.trace(level="full", filter="c10d::", inputs=False) as t:
        x = given(fault)
        dist.all_reduce(x)
    t.save(folder)


def train(folder: Path, fault: str) -> None:
    """Three steps of DistributedDataParallel; the second one is bad."""
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    torch.manual_seed(dist.get_rank())
    with tap.record(net, folder, ops=True, level="full"):
        for step in range(3):
            bad = step == 1 and dist.get_rank() == BAD_RANK
            scale = {"good": 1.0, "nan": -1.0, "wrong": 2.0}[fault] if bad else 1.0
            loss = net(torch.randn(8, 4), scale).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@four
def subgroups(fault):
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    x = given(fault)
    dist.all_reduce(x, group=groups[dist.get_rank() // 2])
    return x + 1


@four
def two_hops(fault):
    groups = [dist.new_group([0, 1]), dist.new_group([0, 2])]
    x = given(fault)
    if dist.get_rank() in (0, 1):
        dist.all_reduce(x, group=groups[0])
    if dist.get_rank() in (0, 2):
        dist.all_reduce(x, group=groups[1])
    return x + 1


@four
def reduce_scatter(fault):
    received = torch.zeros(1)
    dist.reduce_scatter_tensor(received, given(fault))
    return received + 1


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    for case in CASES if dist.get_world_size() == 2 else CASES_OF_FOUR:
        for fault in ("good", "nan", "wrong"):
            dist.barrier()
            try:
                with tap.trace(level="full") as t:
                    case(fault)
            except RuntimeError as error:  # gloo of PyTorch 2.11 has no alltoall
                if "gloo does not support" not in str(error):
                    raise
                continue
            t.save(folder / case.__name__ / fault)
    if dist.get_world_size() == 2:
        for program in (started_late, without_arguments, train):
            for fault in ("good", "nan", "wrong"):
                dist.barrier()
                program(folder / program.__name__ / fault, fault)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
