"""Commands and Python read a run while large tensors are written to it and taken back, being there already."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

torch.set_num_threads(1)
folder = Path(sys.argv[1])


class Identity(nn.Module):
    def forward(self, x):
        return x


model = nn.Sequential(Identity(), Identity())
recording = tap.record(model, folder / "run", step="manual", staging="256K", report=False)
done = False


def write():
    large = torch.randn(1 << 20)
    while not done:
        with recording.step():
            for _ in range(20):
                model(large)
            model(torch.randn(4))


writer = threading.Thread(target=write)
writer.start()
time.sleep(0.5)
ttap = os.environ.get("TTAP_BIN", "ttap")
end = time.monotonic() + 5
count = 0
while time.monotonic() < end:
    newest = f"{max(0, len(list((folder / 'run').glob('*/pass*'))) - 2)}-99999"
    for command in (["ls", "--pass", newest], ["check", "--pass", newest]):
        result = subprocess.run([ttap, command[0], folder / "run", *command[1:]], capture_output=True, text=True)
        assert result.returncode in (0, 2), f"{command} died: {result.returncode} {result.stderr[-300:]}"
        count += 1
    for path in sorted((folder / "run").glob("*/*.ttap"))[:-3]:
        path.unlink()
done = True
writer.join()
recording.close()
assert tap.check(folder / "run", verify=True).ok
