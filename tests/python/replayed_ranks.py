"""Ranks that exchange values: every collective as it should be, and some that are wrong.

    torchrun --nproc-per-node N replayed_ranks.py FOLDER

Each program has a folder of its own: FOLDER/NAME is a run of all ranks.
"""

import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import tensortap as tap
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

BAD_RANK = 1
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def given(count: int = 240, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What this rank gives."""
    generator = torch.Generator().manual_seed(7 + dist.get_rank())
    return torch.randn(count, generator=generator).to(dtype)


def reductions(dtype):
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        dist.all_reduce(given(dtype=dtype), op)
    dist.reduce(given(dtype=dtype), BAD_RANK)
    part = torch.zeros(240 // dist.get_world_size(), dtype=dtype)
    dist.reduce_scatter_tensor(part, given(dtype=dtype))
    dist.reduce_scatter(torch.zeros_like(part), list(given(dtype=dtype).chunk(dist.get_world_size())))


def moves(dtype):
    ranks, here = dist.get_world_size(), dist.get_rank()
    x = given(dtype=dtype)
    dist.all_gather_into_tensor(torch.zeros(240 * ranks, dtype=dtype), x)
    dist.all_gather([torch.zeros_like(x) for _ in range(ranks)], x)
    dist.broadcast(given(dtype=dtype), BAD_RANK)
    dist.gather(x, [torch.zeros_like(x) for _ in range(ranks)] if here == 0 else None, 0)
    parts = list(x.chunk(ranks))
    dist.scatter(torch.zeros_like(parts[0]), parts if here == BAD_RANK else None, BAD_RANK)
    dist.all_to_all([torch.zeros_like(each) for each in parts], parts)
    dist.all_to_all_single(torch.zeros_like(x), x)
    # To rank k go k + 1 rows, and each gets as many from all.
    sent = given(ranks * (ranks + 1) // 2, dtype)
    dist.all_to_all_single(
        torch.zeros((here + 1) * ranks, dtype=dtype), sent, [here + 1] * ranks, [k + 1 for k in range(ranks)]
    )


def functional_collectives(dtype):
    group = dist.group.WORLD
    x = given(dtype=dtype)
    functional.all_reduce(x, "sum", group) + 1
    functional.all_reduce(x, "sum", group).view(12, 20) + 1  # as a row-wise parallel layer does
    functional.all_gather_tensor(x, 0, group) + 1
    functional.reduce_scatter_tensor(x, "sum", 0, group) + 1
    functional.broadcast(x, BAD_RANK, group) + 1
    functional.all_to_all_single(x, None, None, group) + 1
    one, two = functional.all_reduce_coalesced([x, x * 2], "sum", group)
    _ = one + two
    one, two = functional.all_gather_into_tensor_coalesced([x, x * 2], group)
    _ = one + two
    one, two = functional.reduce_scatter_tensor_coalesced([x, x * 2], "sum", [0, 0], group)
    _ = one + two


@program
def reductions_f32():
    reductions(torch.float32)


@program
def reductions_bf16():
    reductions(torch.bfloat16)


@program
def moves_f32():
    moves(torch.float32)


@program
def moves_bf16():
    moves(torch.bfloat16)


@program
def functional_f32():
    functional_collectives(torch.float32)


@program
def functional_bf16():
    functional_collectives(torch.bfloat16)


@program
def bits():
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR, dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        dist.all_reduce(torch.arange(16, dtype=torch.int32) * (3 + dist.get_rank()), op)


@program
def waited_for_later():
    x = given()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    _ = x + 1
    never_used = given()
    dist.all_reduce(never_used, async_op=True).wait()


@program
def sent():
    if dist.get_rank() == BAD_RANK:
        dist.send(given(), 0)
    elif dist.get_rank() == 0:
        received = torch.zeros(240)
        dist.recv(received, BAD_RANK)
        _ = received + 1


@program
def subgroups():
    groups = [dist.new_group([2 * k, 2 * k + 1]) for k in range(dist.get_world_size() // 2)]
    dist.all_reduce(given(), group=groups[dist.get_rank() // 2])


# ---- what is wrong ----


@contextmanager
def wrong_all_reduce(change):
    """`change` makes the result, from what this rank gave and from what the sound all-reduce is asked for."""

    def all_reduce(tensors, group, op, sparse, asynchronous=True, timeout=-1):
        backend = dist.ProcessGroup.unbox(group)._get_backend(torch.device("cpu"))
        work = None

        def sound(tensor, reduction=dist.ReduceOp.SUM):
            nonlocal work
            options = dist.AllreduceOptions()
            options.reduceOp = reduction
            work = backend.allreduce([tensor], options)
            work.wait()

        for each in tensors:
            change(each, sound)
        return tensors, work.boxed()

    library = torch.library.Library("c10d", "IMPL")
    library.impl("allreduce_", all_reduce, "CPU", allow_override=True)
    try:
        yield
    finally:
        library._destroy()


def scaled(tensor, sound):
    if dist.get_rank() == BAD_RANK:
        tensor.mul_(1.01)
    sound(tensor)


def forgotten(tensor, sound):
    if dist.get_rank() == BAD_RANK:
        tensor.zero_()
    sound(tensor)


def narrow(tensor, sound):
    made = tensor.bfloat16()
    sound(made)
    tensor.copy_(made)


def averaged(tensor, sound):
    sound(tensor)
    tensor.div_(dist.get_world_size())


def other_op(tensor, sound):
    sound(tensor, dist.ReduceOp.MAX)


WRONG = {each.__name__: each for each in (scaled, forgotten, narrow, averaged, other_op)}


def wrong(name):
    with wrong_all_reduce(WRONG[name]):
        x = given().sin()
        dist.all_reduce(x)
        return x + 1


# ---- training ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 24)
        self.last = nn.Linear(24, 8)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def train(folder: Path, change=None, **options) -> None:
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Net(), **options)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    torch.manual_seed(dist.get_rank())

    def steps():
        with tap.record(net, folder, ops=True, level="full", report=False):
            for _ in range(2):
                loss = net(torch.randn(8, 16)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    if change is None:
        steps()
    else:
        with wrong_all_reduce(change):
            steps()


# ---- recordings that lack something ----


def hashes_on_one_rank(folder: Path) -> None:
    with tap.trace(**({"hashes": True} if dist.get_rank() == BAD_RANK else {"level": "full"})) as t:
        dist.all_reduce(given())
    t.save(folder)


def started_late(folder: Path) -> None:
    """The trace of one rank has a call more than that of the other."""
    x = given()
    if dist.get_rank() != BAD_RANK:
        dist.all_reduce(x)
    with tap.trace(level="full") as t:
        if dist.get_rank() == BAD_RANK:
            dist.all_reduce(x)
        dist.all_reduce(given())
    t.save(folder)


def twice(folder: Path) -> None:
    """Two runs in one directory, with other values."""
    for factor in (1, 2):
        with tap.trace(level="full") as t:
            dist.all_reduce(given() * factor)
        dist.barrier()
        t.save(folder)
        dist.barrier()


LACKING = (hashes_on_one_rank, started_late, twice)


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    for name, function in PROGRAMS.items():
        dist.barrier()
        with tap.trace(level="full", stacks=True) as t:
            function()
        t.save(folder / name)
    for name in WRONG:
        dist.barrier()
        with tap.trace(level="full", stacks=True) as t:
            wrong(name)
        t.save(folder / name)
    dist.barrier()
    train(folder / "train")
    dist.barrier()
    train(folder / "train_views", gradient_as_bucket_view=True)
    dist.barrier()
    train(folder / "train_scaled", scaled)
    for each in LACKING:
        dist.barrier()
        each(folder / each.__name__)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
