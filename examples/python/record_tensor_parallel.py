"""Records a transformer block in one process, or split over several by PyTorch's tensor parallelism.

    python record_tensor_parallel.py run/one
    torchrun --nproc-per-node 2 record_tensor_parallel.py run/two
    ttap diff run/one run/two

Each process keeps its part of every tensor, and beside it how the parts belong together. `ttap diff` joins them and
compares the whole with the first recording.
"""

import sys
from collections import OrderedDict
from pathlib import Path

import tensortap as tap
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

WIDTH, HEADS = 32, 4


class Attention(nn.Module):
    """Self-attention. How many heads it has here, its input says."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (layer(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    """Attention and a multilayer perceptron, each behind a norm and beside a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        layers = {"up": nn.Linear(WIDTH, 4 * WIDTH), "act": nn.GELU(), "down": nn.Linear(4 * WIDTH, WIDTH)}
        self.mlp = nn.Sequential(OrderedDict(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


def split(model: Block, mesh: DeviceMesh) -> None:
    """Gives each process its share of the heads and of the hidden units."""
    plan: dict[str, ParallelStyle] = {
        **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
        "attention.out": RowwiseParallel(),
        "mlp.up": ColwiseParallel(use_local_output=False),  # a DTensor, which knows its placement
        "mlp.down": RowwiseParallel(),
    }
    parallelize_module(model, mesh, plan)


def main(folder: Path) -> None:
    """Runs the same block on the same input, in as many processes as there are."""
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 8, WIDTH)
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
        split(model, init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",)))
    with tap.record(model, folder, roles=("in", "out")), torch.no_grad():
        model(x)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
