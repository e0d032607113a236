"""A program closes every descriptor above 2 and opens files of its own, which get the numbers of ours."""

import os
import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

torch.set_num_threads(1)
folder = Path(sys.argv[1])
model = nn.Linear(64, 64)
recording = tap.record(model, folder / "run", step="manual", report=False)
with recording.step():
    model(torch.randn(100, 64))
    recording.flush()
    os.closerange(3, 256)
    mine = [(folder / f"results{number}.txt").open("w+") for number in range(12)]
    for file in mine:
        file.write("my own results\n")
        file.flush()
    for _ in range(50):
        model(torch.randn(100, 64))
    recording.flush()
    child = os.fork()
    if child == 0:  # what a child closes of ours must not be the program's, either
        os._exit(0 if all(os.fstat(file.fileno()).st_ino for file in mine) else 1)
    assert os.waitpid(child, 0)[1] == 0, "a forked child has lost files of the program"
recording.close()
for file in mine:
    file.seek(0)
    assert file.read() == "my own results\n", f"{file.name} was overwritten"
    os.fstat(file.fileno())
os._exit(0)  # what PyTorch had open is closed too
