"""A transformer block with probes inside, switched by a small configuration; also inside a CUDA graph.

The block is written once. What is looked at, and how, is decided by a `ProbeConfig`: with everything off the probes
cost nothing and need no GPU.

    python probe_block.py            # records the hidden state, compares the output
    python probe_block.py --print    # also prints a line for each replay
    python probe_block.py --off      # the same model with every probe off

On a machine without a GPU the same probes look at ordinary calls on the CPU.
"""

import argparse
from dataclasses import dataclass

import tensortap as tap
import torch
from torch import nn

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@dataclass
class ProbeConfig:
    """What the probes of a block do."""

    record: bool = True
    show: bool = False
    compare: bool = True
    capacity: int = 4

    def probe(self, name: str, expected: torch.Tensor | None = None) -> tap.Probe:
        actions = [
            tap.Print(max_items=4, enabled=self.show),
            tap.RecordAction(capacity=self.capacity, enabled=self.record),
            tap.Compare(expected, rtol=1e-3, atol=1e-3, enabled=self.compare and expected is not None),
        ]
        # Without a GPU there are no graphs: then every call is looked at.
        return tap.Probe(name, actions, mode="capture" if GPU else "always")


class Block(nn.Module):
    """Attention and a feed-forward layer, with a probe behind each."""

    def __init__(self, width: int, hidden: tap.Probe, out: tap.Probe) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.hidden_probe, self.out_probe = hidden, out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = self.hidden_probe(x + self.attention(y, y, y, need_weights=False)[0])
        out: torch.Tensor = self.out_probe(x + self.mlp(x))
        return out


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description="A transformer block with probes inside.")
    parser.add_argument("--print", action="store_true", dest="show")
    parser.add_argument("--off", action="store_true")
    options = parser.parse_args()
    config = ProbeConfig(record=not options.off, show=options.show, compare=not options.off)
    print("inside a CUDA graph" if GPU else "no GPU: on the CPU, call by call")

    torch.manual_seed(0)
    off = tap.Probe("off")
    block = Block(32, off, off).to(DEVICE).eval()
    x = torch.randn(2, 5, 32, device=DEVICE)
    expected = block(x).cpu()  # what the first replay must give
    block.hidden_probe = config.probe("block.hidden")
    block.out_probe = config.probe("block.out", expected)

    if GPU:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            block(x)
        step = graph.replay
    else:
        step = lambda: block(x)  # noqa: E731
    for factor in (1, 1, 2):
        x.mul_(factor)
        step()
    if GPU:
        torch.cuda.synchronize()

    for snapshot in block.hidden_probe.records():
        largest = snapshot.stats["max_abs"]
        print(f"replay {snapshot.replay_index}: hidden {list(snapshot.shape)}, largest magnitude {largest:.2f}")
    try:
        block.out_probe.assert_ok()
        print("nothing was compared" if options.off else "the output is what was expected")
    except tap.CompareFailed as failed:
        print(
            f"replay {failed.replay_index} is the first that differs: {failed.differing} of {failed.elements} elements"
        )
    block.hidden_probe.close()
    block.out_probe.close()


if __name__ == "__main__":
    main()
