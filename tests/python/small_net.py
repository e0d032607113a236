"""Two layers for tests of operators, and what their forward runs."""

import torch
from torch import nn

FORWARD = ["aten::t", "aten::addmm", "aten::relu", "aten::t", "aten::addmm"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
