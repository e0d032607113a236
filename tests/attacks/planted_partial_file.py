"""A link with the name of a half-written file, planted beforehand, must not be followed."""

import os
import subprocess
import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

folder = Path(sys.argv[1])
model = nn.Linear(4, 4)
with tap.record(model, folder / "run", report=False) as recording:
    model(torch.ones(1, 4))
rank = recording.rank_directory.name
ttap = os.environ.get("TTAP_BIN", "ttap")
victim = folder / "victim"
for format in ("pt", "safetensors", "npy"):
    victim.write_text("precious")
    out = folder / f"out_{format}" / rank
    out.mkdir(parents=True)
    for name in (f"pass00000.{format}.partial", "pass00000.partial"):
        (out / name).symlink_to(victim)
    subprocess.run([ttap, "export", folder / "run", "--format", format, "-o", out.parent], capture_output=True)
    assert victim.read_text() == "precious", format
(torn,) = (folder / "run").glob("*/pass00000.ttap")
victim.write_bytes(torn.read_bytes()[:-100])
content = victim.read_bytes()
other = folder / "other" / rank
other.mkdir(parents=True)
(other / "pass00000.ttap.incomplete").symlink_to(victim)
subprocess.run([ttap, "recover", folder / "other"], capture_output=True)
assert victim.read_bytes() == content, "recover has followed a link"
