"""A signal handler begins and ends recordings, and runs the model, while the program does the same."""

import faulthandler
import signal
import sys
import time
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

faulthandler.dump_traceback_later(60, exit=True)
torch.set_num_threads(1)
folder = Path(sys.argv[1])
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)])
current = None
count = 0


def toggle(number, frame):
    global current, count
    signal.setitimer(signal.ITIMER_REAL, 0)
    count += 1
    if current is None:
        current = tap.record(model, folder, report=False, ops=count % 4 == 0)
    else:
        closing, current = current, None
        closing.close()
    model(torch.ones(1, 8))
    signal.setitimer(signal.ITIMER_REAL, 0.003)


tap.record(model, folder, report=False).close()  # imports the rest of the package, which no handler may interrupt
signal.signal(signal.SIGALRM, toggle)
signal.setitimer(signal.ITIMER_REAL, 0.003)
end = time.monotonic() + 4
while time.monotonic() < end:
    with tap.record(model, folder, report=False):
        model(torch.randn(2, 8))
signal.setitimer(signal.ITIMER_REAL, 0)
if current is not None:
    current.close()
assert count > 50, count
assert not list(folder.glob("*/*.incomplete"))
