"""Gradients seen by probes: of an activation, of a parameter as the backward makes it, and the final `.grad`.

With a GPU the forward and the backward are captured into one CUDA graph, and every replay records; without one the same
probes look at ordinary steps on the CPU.

    python probe_gradients.py
"""

import tensortap as tap
import torch
from torch import nn

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def probe(name: str) -> tap.Probe:
    return tap.Probe(name, [tap.RecordAction(capacity=4)], mode="capture" if GPU else "always")


def main() -> None:
    print("inside a CUDA graph" if GPU else "no GPU: on the CPU, step by step")
    torch.manual_seed(0)
    first, second = nn.Linear(8, 16, device=DEVICE), nn.Linear(16, 1, device=DEVICE)
    x = torch.randn(32, 8, device=DEVICE)
    value, gradient = probe("hidden"), probe("hidden.grad")
    produced, final = probe("weight.grad"), probe("weight.grad.final")
    # A parameter lives on: its hook is set once, and stays until it is removed.
    _, handle = produced.attach_grad(first.weight, return_handle=True)

    def step() -> None:
        for parameter in (*first.parameters(), *second.parameters()):
            if parameter.grad is not None:
                parameter.grad.zero_()
        hidden = value(torch.relu(first(x)))
        hidden = gradient.attach_grad(hidden)  # an activation is new in every step
        second(hidden).square().mean().backward()
        final(first.weight.grad)

    if GPU:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()  # a warm-up: the probes do nothing yet
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    else:
        run = step
    for factor in (1, 1, 10):
        x.mul_(factor)
        run()
    if GPU:
        torch.cuda.synchronize()

    for each in (value, gradient, produced, final):
        norms = ", ".join(f"{snapshot.stats['l2']:.4f}" for snapshot in each.records())
        print(f"{each.name:18} norms {norms}")
    made, held = produced.records()[-1].tensor, final.records()[-1].tensor
    assert made is not None  # level full, the default, keeps the bytes
    assert held is not None
    print(f"what the backward made is what .grad holds: {torch.equal(made, held)}")
    handle.remove()
    for each in (value, gradient, produced, final):
        each.close()


if __name__ == "__main__":
    main()
