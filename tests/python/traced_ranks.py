"""Two ranks' traces of DTensors and collectives.

    torchrun --nproc-per-node 2 traced_ranks.py FOLDER

Each case has a folder of its own, named after its function.
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from tensortap.tracing import trace
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

CASES = []


def case(function):
    CASES.append(function)
    return function


def mine(*shape: int) -> torch.Tensor:
    """Ones on the first rank, twos on the second."""
    return torch.full(shape, float(dist.get_rank() + 1))


@case
def product(mesh):
    a = distribute_tensor(torch.ones(4, 4), mesh, [Shard(1)])
    b = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    return lambda: torch.sin(a) @ b


@case
def product_again(mesh):
    return product(mesh)


@case
def redistribute(mesh):
    a = distribute_tensor(torch.arange(16.0).view(4, 4), mesh, [Shard(0)])
    return lambda: a.redistribute(mesh, [Replicate()]).to_local() + 1


@case
def backward(mesh):
    a = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]).requires_grad_()
    w = distribute_tensor(torch.ones(4, 4), mesh, [Replicate()]).requires_grad_()
    return lambda: torch.relu(a @ w).sum().full_tensor().backward()


@case
def all_reduce(mesh):
    def run():
        x = mine(3)
        dist.all_reduce(x)
        return x + 1

    return run


@case
def all_reduce_later(mesh):
    def run():
        x = mine(3)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        return x + 1

    return run


@case
def all_reduce_promised(mesh):
    def run():
        for _ in range(20):
            x = mine(3)
            work = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)
            work.get_future().wait()
            torch.neg(x)

    return run


@case
def all_reduce_crossed(mesh):
    group = dist.new_group([0, 1])

    def run():
        x = mine(3)
        if dist.get_rank() == 0:
            work = dist.all_reduce(x, async_op=True)
            dist.send(torch.ones(1), 1, group=group)
            work.wait()
        else:
            dist.recv(torch.zeros(1), 0, group=group)
            dist.all_reduce(x)
        return x + 1

    return run


@case
def all_gather(mesh):
    def run():
        gathered = torch.zeros(4)
        dist.all_gather_into_tensor(gathered, mine(2))
        return gathered + 1

    return run


@case
def all_gather_list(mesh):
    def run():
        gathered = [torch.zeros(2), torch.zeros(2)]
        dist.all_gather(gathered, mine(2))
        return gathered[1] + 1

    return run


@case
def broadcast(mesh):
    def run():
        x = mine(3)
        dist.broadcast(x, 1)
        return x + 1

    return run


@case
def functional_all_reduce(mesh):
    def run():
        y = functional.all_reduce(mine(3), "sum", mesh)
        assert type(y) is functional.AsyncCollectiveTensor
        return y + 1

    return run


@case
def functional_waited(mesh):
    def run():
        y = functional.all_gather_tensor(mine(2), 0, mesh)
        return functional.wait_tensor(y) + 1

    return run


@case
def send_and_receive(mesh):
    def run():
        other = 1 - dist.get_rank()
        received = torch.zeros(3)
        works = [dist.isend(mine(3), other), dist.irecv(received, other)]
        for work in works:
            work.wait()
        return received + 1

    return run


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    for each in CASES:
        run = each(mesh)
        dist.barrier()
        with trace(level="full") as t:
            result = run()
        t.save(folder / each.__name__)
        if isinstance(result, torch.Tensor) and each is not product and each is not product_again:
            torch.save(result, folder / f"{each.__name__}-{dist.get_rank()}.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
