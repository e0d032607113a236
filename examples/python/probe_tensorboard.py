"""TensorBoard summaries of what probes recorded: statistics as curves, values as histograms.

    pip install tensorboard
    python probe_tensorboard.py runs/probes && tensorboard --logdir runs

The statistics come with every snapshot, taken where the tensor was; at level `fingerprint` they are all that leaves the
GPU. Without tensorboard it prints what it would write; without a GPU the probes look at ordinary calls on the CPU.
"""

import importlib
import sys
import tempfile
from typing import Protocol

import tensortap as tap
import torch
from torch import nn

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SHOWN: tuple[tap.literals.Statistic, ...] = ("mean", "std", "max_abs", "nan")


class Writer(Protocol):
    """What is needed of torch.utils.tensorboard.SummaryWriter, which has no types."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...
    def add_histogram(self, tag: str, values: torch.Tensor, global_step: int) -> None: ...
    def close(self) -> None: ...


def open_writer(folder: str) -> Writer | None:
    """A writer into the folder; None without tensorboard."""
    try:
        writer: Writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(folder)
    except ImportError:
        return None
    return writer


def export(probe: tap.Probe, writer: Writer | None) -> int:
    """Writes and forgets what a probe has recorded."""

    def consume(snapshot: tap.Snapshot) -> None:
        for what in SHOWN:
            value = float(snapshot.stats[what])
            if writer is None:
                print(f"{snapshot.probe_name}/{what} step {snapshot.replay_index}: {value:.4g}")
            else:
                writer.add_scalar(f"{snapshot.probe_name}/{what}", value, snapshot.replay_index)
        if writer is not None and snapshot.tensor is not None:
            writer.add_histogram(snapshot.probe_name, snapshot.tensor, snapshot.replay_index)

    return tap.drain_records(probe, consume)


@torch.no_grad()
def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probes-")
    print("inside a CUDA graph" if GPU else "no GPU: on the CPU, call by call")
    torch.manual_seed(0)
    mode: tap.literals.ProbeMode = "capture" if GPU else "always"
    hidden = tap.Probe("hidden", [tap.RecordAction(capacity=8)], mode=mode)
    out = tap.Probe("out", [tap.RecordAction(capacity=8, level="fingerprint")], mode=mode)
    first, second = nn.Linear(16, 32, device=DEVICE), nn.Linear(32, 4, device=DEVICE)
    x = torch.randn(8, 16, device=DEVICE)

    def step() -> None:
        out(second(hidden(torch.relu(first(x)))))

    if GPU:
        step()  # a warm-up: the probes do nothing yet
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        step = graph.replay
    for _ in range(3):
        x.mul_(1.5)
        step()

    writer = open_writer(folder)
    if writer is None:
        print("tensorboard is not installed: this is what would be written")
    count = export(hidden, writer) + export(out, writer)
    if writer is not None:
        writer.close()
    print(f"{count} snapshots exported" + (f" to {folder}" if writer is not None else ""))
    hidden.close()
    out.close()


if __name__ == "__main__":
    main()
