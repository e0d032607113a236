"""The disk is full: flush() of a recording that is not strict raises nothing, and what was lost is counted."""

import resource
import signal
import sys

import tensortap as tap
import torch
from torch import nn

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = nn.Linear(64, 64)
with tap.record(model, sys.argv[1], report=False) as recording:
    model(torch.randn(100, 64))
    recording.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))  # as ENOSPC, for this process alone
    for _ in range(20):
        model(torch.randn(100, 64))
        recording.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
drops = [recorded.info["drops"] for recorded in tap.open(sys.argv[1]).ranks[0].passes.values()]
assert sum(sum(each.values()) for each in drops) > 0, "what was lost is not counted"
