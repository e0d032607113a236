"""Four threads call their models for the first time at once, under `ttap run`: what is not recorded is counted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import tensortap as tap

PROGRAM = """
import threading, time, torch
from torch import nn
torch.set_num_threads(1)
models = [nn.Linear(4, 4) for _ in range(4)]
together = threading.Barrier(4)
counts = [0] * 4
def work(i):
    together.wait()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        models[i](torch.ones(1, 4))
        counts[i] += 1
        time.sleep(0.01)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(counts))
"""

folder = Path(sys.argv[1]) / "run"
command = [os.environ["TTAP_BIN"], "run", "--quiet", "-o", folder, "--", sys.executable, "-c", PROGRAM]
calls = int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
(rank,) = tap.open(folder).ranks
recorded = sum(len(each.records) for each in rank.passes.values())
notes = " ".join(rank.coverage["source"]["notes"])
missed = sum(int(count) for count in re.findall(r"(\d+) calls of modules were not recorded", notes))
assert recorded + missed == calls, (recorded, missed, calls, notes)
