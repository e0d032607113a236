"""A training loop with gradient accumulation, and what its layers really had, written down by the loop itself."""

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    """Two linear layers, whose work is done by hand so that everything in between can be kept."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(32, 48), nn.Linear(48, 16)

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x)))


def train(model, *, steps, microbatches=2, after_step=lambda: None, seed=0):
    """Trains, and gives the batches and the weights of each step before it."""
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches, weights = [], []
    for _ in range(steps):
        weights.append({name: value.detach().clone() for name, value in model.named_parameters()})
        batches.append([torch.randn(4, 32) for _ in range(microbatches)])
        for x in batches[-1]:
            model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        after_step()
    return batches, weights


def by_hand(weights, x):
    """What an Mlp with these weights has in a microbatch, by layer and tensor."""
    w1, b1, w2, b2 = (weights[name] for name in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"))
    w1, w2 = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    first = functional.linear(x, w1, b1)
    first.retain_grad()
    middle = functional.gelu(first)
    middle.retain_grad()
    last = functional.linear(middle, w2, b2)
    last.retain_grad()
    last.square().mean().backward()
    found = {
        "fc1": {"activation": x, "weight": w1, "output": first, "gradient": first.grad, "wgrad": w1.grad},
        "fc2": {"activation": middle, "weight": w2, "output": last, "gradient": last.grad, "wgrad": w2.grad,
                "dgrad": middle.grad},
    }  # fmt: skip
    return {layer: {name: value.detach() for name, value in of.items()} for layer, of in found.items()}


def config(tensors="all", layers=".*", **settings):
    """A config of one section."""
    return {
        "section": {
            "enabled": True,
            "layers": {"layer_name_regex_pattern": layers},
            "transformer_engine": {"DumpTensors": {"enabled": True, "tensors": tensors, **settings}},
        }
    }
