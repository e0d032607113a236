"""Daemon threads still run the recorded model when the main thread ends: no exception of ours reaches them.

PyTorch itself may abort such a program, also without the tap.
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, threading, time, torch, tensortap as tap
from torch import nn
torch.set_num_threads(1)
sys.setswitchinterval(1e-5)
model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(10)])
def work():
    while True:
        model(torch.randn(4, 16))
recording = tap.record(model, sys.argv[1], ops=sys.argv[2] == "ops", report=False)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[3]))
"""

folder = Path(sys.argv[1])
for number in range(4):
    kind = ["modules", "ops"][number % 2]
    arguments = [str(folder / str(number)), kind, str(0.05 * number)]
    result = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode in (0, -6) and "tensortap" not in result.stderr, f"{result.returncode}: {result.stderr}"
