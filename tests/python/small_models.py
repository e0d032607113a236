"""Small modules to record, and what was recorded of them."""

import tensortap as tap
import torch
from torch import nn


def passes_of(folder):
    (rank,) = tap.open(folder).ranks
    return rank.passes


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Returns(nn.Module):
    """A leaf that returns what it was made with."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, *_):
        return self.value


def record_output(folder, value, **options):
    model = nn.Sequential(Returns(value))
    with tap.record(model, folder, report=False, **options) as recording:
        model(torch.zeros(1))
    return passes_of(folder)[0], recording
