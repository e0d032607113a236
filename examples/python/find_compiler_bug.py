"""Is it the compiler? A backend with a mistake, found and cut down to the node that shows it.

    python find_compiler_bug.py [DIRECTORY]

A small transformer is compiled by a backend that fuses an activation wrongly. Every graph runs twice, compiled and
node by node; they differ, and what is left in the end is a script of one node. For a real compiler it is one word:
`tap.graph_backend("dump/", inner="inductor")`.
"""

import subprocess
import sys
import tempfile

import tensortap as tap
import torch
from torch import nn


class Block(nn.Module):
    """Attention and a feed-forward part, each added to what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.attention(self.norm(x)).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(query, key, value)
        out: torch.Tensor = x + self.down(nn.functional.gelu(self.up(x)))
        return out


def fast_but_wrong(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
    """Compiles gelu as if it were asked for its cheap approximation by a sigmoid."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is nn.functional.gelu:
            with module.graph.inserting_after(node):
                scaled = module.graph.call_function(torch.mul, (node.args[0], 1.702))
            with module.graph.inserting_after(scaled):
                gate = module.graph.call_function(torch.sigmoid, (scaled,))
            node.target, node.args = torch.mul, (node.args[0], gate)
            gate.append(node)  # behind what it uses now
    module.recompile()
    return module.forward


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ttap-")
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(32) for _ in range(4))).eval()
    backend = tap.graph_backend(directory, inner=fast_but_wrong)
    with torch.no_grad():
        torch.compile(model, backend=backend)(torch.randn(2, 6, 32))
    backend.close()
    (mismatch,) = backend.mismatches
    assert mismatch.reduced is not None
    assert mismatch.script is not None
    print(f"{backend.graphs[0].nodes} nodes, of which these show it: {', '.join(mismatch.reduced.nodes)}")
    alone = subprocess.run([sys.executable, str(mismatch.script)], capture_output=True, text=True)
    print(f"{mismatch.script.name} exits with {alone.returncode}:")
    print(alone.stdout.splitlines()[-1].strip())


if __name__ == "__main__":
    main()
