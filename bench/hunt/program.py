"""The programs that a hunt compares: a decoder, the same with an edit or a wrong kernel, and a port of it.

python program.py                        the reference
python program.py --kernel "mm too large" --at 20
python program.py --edit eps
python program.py --port rope            a port with other names, which has the fault; --port "" is sound
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent / "blame"))
from wrong_kernels import FAULTS, planted

WIDTH, HEADS, LAYERS, WORDS, TOKENS, STEPS = 128, 4, 16, 200, 64, 4
WRONG_LAYER = 5


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def rotated(x: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[2]).float(), base ** (-torch.arange(half).float() / half))
    one, other = x[..., :half], x[..., half:]
    return torch.cat([one * angle.cos() - other * angle.sin(), other * angle.cos() + one * angle.sin()], -1)


class Layer(nn.Module):
    """`edit` is what somebody changed in this one."""

    def __init__(self, edit: str) -> None:
        super().__init__()
        self.edit = edit
        self.input_norm = nn.LayerNorm(WIDTH, eps=1e-2 if edit == "eps" else 1e-5)
        self.post_norm = nn.LayerNorm(WIDTH)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.down_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        normed = self.input_norm(hidden)
        q, k, v = (heads(each(normed)) for each in (self.q_proj, self.k_proj, self.v_proj))
        base = 500.0 if self.edit == "rope" else 10000.0
        mixed = F.scaled_dot_product_attention(
            rotated(q, base),
            rotated(k, base),
            v,
            is_causal=self.edit != "mask",
            scale=0.2 if self.edit == "scale" else None,
        )
        hidden = hidden + self.o_proj(mixed.transpose(1, 2).reshape(hidden.shape))
        normed = self.post_norm(hidden)
        gate = self.gate_proj(normed)
        if self.edit == "half":
            gate = gate.bfloat16().float()
        gate = (
            F.silu(gate) if self.edit == "act" else F.gelu(gate, approximate="none" if self.edit == "gelu" else "tanh")
        )
        return hidden * (0.99 if self.edit == "residual" else 1) + self.down_proj(gate * self.up_proj(normed))


class Reference(nn.Module):
    def __init__(self, edit: str = "") -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(edit if i == WRONG_LAYER else "") for i in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(self.norm(hidden))


class Block(nn.Module):
    """A layer of the port: fused projections, other names, another order of the same sums."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, eps=1e-2 if fault == "eps" else 1e-5), nn.LayerNorm(WIDTH)
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads(each) for each in self.qkv(self.ln_1(x)).chunk(3, -1))
        base = 500.0 if self.fault == "rope" else 10000.0
        scale = 0.2 if self.fault == "scale" else None
        mixed = F.scaled_dot_product_attention(rotated(q, base), rotated(k, base), v, is_causal=True, scale=scale)
        x = x + self.mix(mixed.transpose(1, 2).reshape(x.shape))
        gate, up = self.wide(self.ln_2(x)).chunk(2, -1)
        gate = (
            F.silu(gate)
            if self.fault == "act"
            else F.gelu(gate, approximate="none" if self.fault == "gelu" else "tanh")
        )
        return x + self.narrow(gate * up)


class Port(nn.Module):
    def __init__(self, fault: str, model: Reference) -> None:
        super().__init__()
        self.tok = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList(Block(fault if i == WRONG_LAYER else "") for i in range(LAYERS))
        self.end = nn.LayerNorm(WIDTH)
        self.words = nn.Linear(WIDTH, WORDS, bias=False)
        self.tok.load_state_dict(model.embed.state_dict())
        self.words.load_state_dict(model.lm_head.state_dict())
        self.end.load_state_dict(model.norm.state_dict())
        for i, (block, layer) in enumerate(zip(self.h, model.layers, strict=True)):
            block.ln_1.load_state_dict(layer.input_norm.state_dict())
            block.ln_2.load_state_dict(layer.post_norm.state_dict())
            block.mix.load_state_dict(layer.o_proj.state_dict())
            block.narrow.load_state_dict(layer.down_proj.state_dict())
            parts = [layer.q_proj, layer.k_proj, layer.v_proj]
            if fault == "weights" and i == WRONG_LAYER:
                parts = [layer.q_proj, layer.k_proj, model.layers[i + 1].v_proj]
            fused(block.qkv, parts)
            fused(block.wide, [layer.gate_proj, layer.up_proj])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tok(ids)
        for block in self.h:
            x = block(x)
        return self.words(self.end(x))


def fused(into: nn.Linear, parts: list[nn.Linear]) -> None:
    with torch.no_grad():
        into.weight.copy_(torch.cat([each.weight for each in parts]))
        into.bias.copy_(torch.cat([each.bias for each in parts]))


def wrong_backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
    """Takes silu for gelu, in the wrong layer only."""
    found = [node for node in module.graph.nodes if getattr(node.target, "__name__", "") == "gelu"]
    node = found[WRONG_LAYER]
    node.target, node.kwargs = F.silu, {}
    module.recompile()
    return module.forward


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", default="")
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--edit", default="")
    parser.add_argument("--port")
    parser.add_argument("--backend", action="store_true")
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    reference = Reference()
    for parameter in reference.parameters():  # a fault shows where norms and biases are not those of the beginning
        torch.nn.init.normal_(parameter, std=0.06 if parameter.dim() > 1 else 0.3)
    edited = Reference(options.edit)
    edited.load_state_dict(reference.state_dict())
    model: nn.Module = edited if options.port is None else Port(options.port, reference)
    called = torch.compile(model, backend=wrong_backend) if options.backend else model
    batches = torch.randint(WORDS, (STEPS, 2, TOKENS), generator=torch.Generator().manual_seed(1))
    fault = next((each for each in FAULTS if each.name == options.kernel), None)
    if options.kernel and fault is None:
        sys.exit(f"program.py: there is no fault {options.kernel!r}")
    with planted(fault, options.at) as seen, torch.set_grad_enabled(options.train):
        for ids in batches:
            logits = called(ids)
            if options.train:
                F.cross_entropy(logits.flatten(0, 1), ids.roll(-1, 1).flatten()).backward()
    if fault is not None and not seen.changed:
        sys.exit(f"program.py: {fault.name} changed nothing in call {options.at} of {seen.calls}")


main()
