"""Two ranks' recordings of the block of examples/python/record_tensor_parallel.py, split by hand and by PyTorch.

    torchrun --nproc-per-node 2 tensor_parallel.py FOLDER

Each recording has a folder of its own, named after how the block is split and what is wrong with it.
"""

import sys
from pathlib import Path

import tensortap as tap
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples/python"))
from record_tensor_parallel import WIDTH, Block, split

FAULTY_RANK = 1
FAULTS = ["mlp.up", "attention.k", "norm2"]  # split, split, and held by every rank


def column_parallel(layer: nn.Linear) -> nn.Linear:
    """This rank's share of the outputs."""
    mine = slice_of_mine(layer.out_features)
    part = nn.Linear(layer.in_features, mine.stop - mine.start)
    part.weight.data, part.bias.data = layer.weight.data[mine], layer.bias.data[mine]
    return part


class RowParallel(nn.Module):
    """This rank's share of the inputs; the ranks' results are added up."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.data[:, slice_of_mine(layer.in_features)].clone())
        self.bias = layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.linear(x, self.weight)
        dist.all_reduce(y)
        return y + self.bias


class PartialMlp(nn.Module):
    """Its last layer leaves the ranks' results apart: their sum is made outside of it."""

    def __init__(self, mlp: nn.Sequential) -> None:
        super().__init__()
        self.up, self.act = column_parallel(mlp.up), mlp.act
        mine = slice_of_mine(mlp.down.in_features)
        self.down = nn.Linear(mine.stop - mine.start, WIDTH)
        self.down.weight.data = mlp.down.weight.data[:, mine].clone()
        self.down.bias.data = mlp.down.bias.data / dist.get_world_size()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(self.act(self.up(x)))
        dist.all_reduce(y)
        return y


def slice_of_mine(count: int) -> slice:
    each = count // dist.get_world_size()
    return slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)


def split_by_hand(model: Block) -> None:
    """As Megatron does it."""
    for name in "qkv":
        setattr(model.attention, name, column_parallel(getattr(model.attention, name)))
    model.attention.out = RowParallel(model.attention.out)
    model.mlp = PartialMlp(model.mlp)


def plant(model: Block, name: str) -> None:
    """One weight of one rank is wrong."""
    weight = model.get_submodule(name).weight
    local = weight.to_local() if hasattr(weight, "to_local") else weight
    if dist.get_rank() == FAULTY_RANK:
        local.data.view(-1)[3] += 1


def record(folder: Path, *, by_hand: bool, fault: str = "", level: str = "full") -> None:
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 8, WIDTH)
    if by_hand:
        split_by_hand(model)
    else:
        split(model, init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",)))
    if fault:
        plant(model, fault)
    with tap.record(model, folder, roles=("in", "out"), level=level, report=False, strict=True), torch.no_grad():
        model(x)


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    for style in ("hand", "dtensor"):
        record(folder / style, by_hand=style == "hand")
        record(folder / f"{style}-fingerprint", by_hand=style == "hand", level="sketch")
        for fault in FAULTS:
            record(folder / f"{style}-{fault}", by_hand=style == "hand", fault=fault)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
