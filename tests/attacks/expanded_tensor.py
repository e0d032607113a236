"""A file of a kilobyte that describes a tensor of a terabyte by a stride of zero: commands refuse it, unless told."""

import os
import subprocess
import sys
from pathlib import Path

import torch

folder = Path(sys.argv[1])
torch.save({"w": torch.ones(1).expand(1 << 40)}, folder / "bomb.pt")
torch.save({"mask": torch.zeros(1).expand(64, 16, 512, 512)}, folder / "mask.pt")  # 1 GiB, as programs make them
ttap = os.environ.get("TTAP_BIN", "ttap")
for command in (["ls"], ["check"], ["show", "w"], ["export", "--format", "pt", "-o", str(folder / "out")]):
    words = [ttap, command[0], folder / "bomb.pt", *command[1:]]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    is_refused = result.returncode == 2 and "TTAP_ALLOW_EXPANDED" in result.stderr
    assert is_refused, (command, result.returncode, result.stderr)
allowed = {**os.environ, "TTAP_ALLOW_EXPANDED": "1"}
for name, environment in (("bomb.pt", allowed), ("mask.pt", os.environ)):
    result = subprocess.run([ttap, "ls", folder / name], capture_output=True, text=True, env=environment, timeout=60)
    assert result.returncode == 0, result.stderr
