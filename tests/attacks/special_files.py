"""FIFOs, devices, directories, links to themselves and huge files in the place of a run's files: every command ends."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

TTAP = os.environ["TTAP_BIN"]
FILES = ("coverage.json", "model.json", "rank.json", "placements.json", "pass00000.ttap", "pass00000.pt")
SECONDS = 10
folder = Path(sys.argv[1])
sound, run = folder / "sound", folder / "run"
model = nn.Linear(4, 4)
with tap.record(model, sound, ops=True, level="full", report=False):
    model(torch.ones(2, 4))
(rank,) = tap.open(sound).ranks

PLANTED = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "directory": Path.mkdir,
    "loop": lambda path: path.symlink_to(path.name),
    "huge": lambda path: (path.touch(), os.truncate(path, 3 << 30)),
}
COMMANDS = (
    ("ls", run, "--coverage"),
    ("ls", run, "--passes"),
    ("log", run),
    ("check", run),
    ("diff", sound, run),
    ("recover", run),
    ("export", run, "--format", "npy", "-o", folder / "exported"),
)
problems = []
for what, plant in PLANTED.items():
    for name in FILES:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(rank.path, run / "rank0_pid7")
        place = run / "rank0_pid7" / name
        place.unlink(missing_ok=True)
        plant(place)
        for command in COMMANDS:
            shutil.rmtree(folder / "exported", ignore_errors=True)
            try:
                done = subprocess.run([TTAP, *command], capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                problems.append(f"{what} {name}: {command[0]} did not end")
                continue
            if done.returncode not in (0, 1, 2) or "std::" in done.stderr or "bad_alloc" in done.stderr:
                problems.append(f"{what} {name}: {command[0]} gave {done.returncode}: {done.stderr[-200:]}")
        for each in tap.open(run).ranks:
            for member in ("coverage", "model", "placements", "metadata"):
                try:
                    getattr(each, member)
                except (OSError, tap.FormatError, json.JSONDecodeError):
                    pass
                except Exception as error:
                    problems.append(f"{what} {name}: Rank.{member}: {error!r}")
assert not problems, "\n".join(problems)
