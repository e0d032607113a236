"""Every node of a compiled graph: what it was given, what it gave, and from which line of the program it comes.

    python record_graph.py [DIRECTORY]

Records a small model as torch.compile sees it, once as Dynamo captured it and once as AOTAutograd hands it to a
compiler, with the backward. `DIRECTORY/dynamo` and `DIRECTORY/aot` are runs for `ttap ls`, `ttap log` and `ttap diff`;
beside the passes is each graph as code, `graph_{id}.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import tensortap as tap
import torch
from torch import nn


class Gate(nn.Module):
    """A layer that lets through what another one asks for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.value, self.gate = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.value(x) * torch.sigmoid(self.gate(x))
        return out


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    torch.manual_seed(0)
    model, x = nn.Sequential(Gate(8), Gate(8)), torch.randn(4, 8)

    with tap.graph_backend(folder / "dynamo", report=False) as backend:
        result = torch.compile(model, backend=backend)(x)
    (recorded,) = tap.open(folder / "dynamo").ranks[0].passes.values()
    for event in recorded.events:
        if event.kind == "node" and event.notes["op"] == "call_function":
            print(f"{event.notes.get('module', ''):8} {event.name} = {event.notes['target']}({event.arguments})")
    print(f"bit for bit what eager computes: {torch.equal(result, model(x))}")
    values = tap.load_pass(recorded.path)
    print(f"the module's value is its node's: {torch.equal(values['1.gate'], values['%linear_3'])}")

    torch.compiler.reset()
    with tap.graph_backend(folder / "aot", stage="aot", report=False) as backend:
        torch.compile(model, backend=backend)(x).sum().backward()
    for graph in backend.graphs:
        print(f"{graph.part}: {graph.nodes} nodes")


if __name__ == "__main__":
    main()
