"""Your own code on what a probe recorded: how the distribution of an activation drifts over replays.

Python never runs inside a graph. A probe brings the values back, and `tap.drain_records` hands each to a function
after the fact, then forgets it; so a long loop needs no more memory than one round of it.

    python probe_consumer.py

Without a GPU the same probe looks at ordinary calls on the CPU.
"""

import tensortap as tap
import torch

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


class Drift:
    """Compares each snapshot with the first one."""

    def __init__(self) -> None:
        self.first: torch.Tensor | None = None
        self.seen = 0

    def __call__(self, snapshot: tap.Snapshot) -> None:
        assert snapshot.tensor is not None  # level full, the default, keeps the bytes
        values = snapshot.tensor.float()
        if self.first is None:
            self.first = values
        similarity = torch.nn.functional.cosine_similarity(values.flatten(), self.first.flatten(), dim=0)
        self.seen += 1
        if snapshot.replay_index % 4 == 0:
            print(f"replay {snapshot.replay_index:2}: similarity to the first {similarity:.3f}")


@torch.no_grad()
def main() -> None:
    print("inside a CUDA graph" if GPU else "no GPU: on the CPU, call by call")
    torch.manual_seed(0)
    weight = torch.randn(64, 64, device=DEVICE) / 8
    state = torch.randn(4, 64, device=DEVICE)
    probe = tap.Probe("state", [tap.RecordAction(capacity=4)], mode="capture" if GPU else "always")

    def step() -> None:
        state.copy_(probe(torch.tanh(state @ weight) + 0.5 * state))

    if GPU:
        step()  # a warm-up: the probe does nothing yet
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        step = graph.replay
    drift = Drift()
    for _ in range(4):  # rounds no longer than the capacity: nothing is overwritten
        for _ in range(4):
            step()
        tap.drain_records(probe, drift)  # waits for the GPU first
    status = probe.status()
    print(f"{drift.seen} snapshots, {status['overwritten']} overwritten")
    probe.close()


if __name__ == "__main__":
    main()
