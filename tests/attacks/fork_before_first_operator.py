"""A thread forks that has run no operator since the recording began, while others run their first: PyTorch takes a lock
for a thread's first operator, and the child must not find it locked for ever."""

import os
import sys
import threading
import time
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

torch.set_num_threads(1)
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 5
folder = Path(sys.argv[1])
model = nn.Linear(4, 4)
hung = 0
stop = threading.Event()


def first_operators():
    def call():
        torch.ones(2)

    while not stop.is_set():
        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


recording = tap.record(model, folder, ops=True, level="meta", report=False)
spawner = threading.Thread(target=first_operators)
spawner.start()
end = time.monotonic() + SECONDS
forks = 0
while time.monotonic() < end and hung == 0:
    child = os.fork()
    if child == 0:
        torch.ones(2)
        os._exit(0)
    forks += 1
    patience = time.monotonic() + 4
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.0005)
        if time.monotonic() > patience:
            hung += 1
            os.kill(child, 9)
            os.waitpid(child, 0)
            break
stop.set()
spawner.join()
recording.close()
assert hung == 0, f"a child hung after {forks} forks"
assert forks > 20, forks
