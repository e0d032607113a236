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
# Those that overlap in time are one run; another begins when none is under way.
passes = [recorded for run in tap.runs(folder) for rank in run.ranks for recorded in rank.passes.values()]
assert len(passes) == len(counts), (len(passes), len(counts))
assert all(list(recorded) == ["0"] and recorded.ending == "complete" for recorded in passes)
