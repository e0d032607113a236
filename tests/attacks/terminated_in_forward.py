"""SIGTERM in the middle of a forward, with and without a handler: the pass is not passed off as complete."""

import subprocess
import sys
from pathlib import Path

import tensortap as tap

PROGRAM = """
import os, signal, sys, tensortap as tap, torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        recording.flush()
        os.kill(os.getpid(), signal.SIGTERM)
        return self.b(x)

def fail(*_):
    raise RuntimeError("terminated")

how = {"default": signal.SIG_DFL, "exit": lambda *_: sys.exit(3), "leave": lambda *_: os._exit(3), "raise": fail}
signal.signal(signal.SIGTERM, how[sys.argv[2]])
model = Model()
recording = tap.record(model, sys.argv[1], report=False)
model(torch.ones(1, 4))
"""

for how, expected in (("default", "incomplete"), ("leave", "incomplete"), ("exit", "aborted"), ("raise", "aborted")):
    folder = Path(sys.argv[1]) / how
    done = subprocess.run([sys.executable, "-c", PROGRAM, folder, how], capture_output=True, timeout=60)
    assert done.returncode != 0
    (rank,) = tap.open(folder).ranks
    (only,) = rank.passes.values()
    assert (only.ending, len(only.records)) == (expected, 1), (how, only.ending, len(only.records))
