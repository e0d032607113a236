"""Which operator does a compiler get wrong? Eager and compiled, operator by operator.

A backend decomposes the cosine into a sine. Both ways are traced, and the comparison names the operator:

    python trace_compiled.py [DIRECTORY]

With a directory, both traces are saved as runs below it, for `ttap log` and `ttap diff`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import get_nop_func


class Rotary(nn.Module):
    """A position code as attention layers use it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.arange(x.shape[-1], dtype=x.dtype) / x.shape[-1]
        return x * torch.cos(angle) + x.flip(-1) * torch.sin(angle)


class Model(nn.Module):
    """Two layers with the code between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.rotary, self.down = nn.Linear(8, 16), Rotary(), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(torch.relu(self.rotary(self.up(x))))
        return out


def main() -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(3, 8)
    wrong = aot_autograd(
        fw_compiler=get_nop_func(),
        bw_compiler=get_nop_func(),
        decompositions={torch.ops.aten.cos.default: lambda angle: torch.sin(angle)},
    )
    with tap.trace(model, hashes=True, stacks=True) as eager:
        model(x).sum().backward()
    model.zero_grad()
    with tap.trace(model, hashes=True) as compiled:
        torch.compile(model, backend=wrong)(x).sum().backward()

    print(eager.log(module="rotary"))
    print()
    print(tap.diff(eager, compiled))
    if len(sys.argv) > 1:
        for name, trace in (("eager", eager), ("compiled", compiled)):
            trace.save(Path(sys.argv[1]) / name)


if __name__ == "__main__":
    main()
