"""Closes the recording between a call's event and its tensors: by an output that does it when it is looked at."""

import collections.abc
import faulthandler
import gc
import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

faulthandler.enable()
folder = Path(sys.argv[1])
recording = None


class ClosingMapping(collections.abc.Mapping):
    def __init__(self, tensor):
        self.tensor = tensor

    def __getitem__(self, key):
        return self.tensor

    def __len__(self):
        return 2

    def __iter__(self):
        global recording
        if recording is not None:
            closing, recording = recording, None
            closing.close()
            del closing
            gc.collect()
            self.garbage = [torch.ones(50) for _ in range(500)]  # takes the memory that was given back
        return iter(["a", "b"])


class Model(nn.Module):
    def forward(self, x):
        return ClosingMapping(x)


model = nn.Sequential(Model())
for number in range(10):
    for options in ({}, {"ops": True}, {"roles": ["in", "out"], "modules": "all"}):
        recording = tap.record(model, folder / f"{number}_{len(options)}", report=False, **options)
        model(torch.ones(4))
left = list(folder.glob("*/*/*.incomplete"))
assert not left, f"a writer was made after close(): {left[0]}"
