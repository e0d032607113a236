"""Three threads, each with a model and recordings of its own, all into one directory."""

import sys
import threading
import time
import traceback
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

torch.set_num_threads(1)
sys.setswitchinterval(1e-4)
folder = Path(sys.argv[1])
problems = []
counts = []


def work():
    model = nn.Sequential(nn.Linear(4, 4))
    end = time.monotonic() + 4
    while time.monotonic() < end:
        try:
            with tap.record(model, folder, report=False):
                model(torch.ones(1, 4))
            counts.append(1)
        except Exception:
            problems.append(traceback.format_exc())


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not problems, f"{len(problems)} of {len(counts)} raised: {problems[0]}"
passes = tap.open(folder).ranks[0].passes
assert len(passes) == len(counts), (len(passes), len(counts))
