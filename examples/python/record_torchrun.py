"""Trains with DistributedDataParallel in two processes on the CPU. It does not know of TensorTap.

    ttap run -o run --steps 0-1 --roles out,grad_out -- torchrun --nproc-per-node 2 record_torchrun.py
    ttap ls run

Each process records into a directory of its own, `rank0_pid…` and `rank1_pid…`. The keys are those of the model without
its wrapper, so a run on one process has the same.
"""

from collections import OrderedDict

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)  # the same weights everywhere
    layers = {"up": nn.Linear(8, 16), "act": nn.ReLU(), "down": nn.Linear(16, 1)}
    model = DistributedDataParallel(nn.Sequential(OrderedDict(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    batches = torch.Generator().manual_seed(1 + rank)  # other data in each process
    for step in range(3):
        x = torch.randn(32, 8, generator=batches)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()  # the gradients are averaged over the processes here
        optimizer.step()
        dist.all_reduce(loss.detach_().div_(dist.get_world_size()))
        if rank == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
