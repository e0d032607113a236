"""Eight threads trace for the first time at once: the extension that observes operators is loaded once, and whole."""

import subprocess
import sys

PROGRAM = """
import sys, threading, tensortap as tap, torch
sys.setswitchinterval(1e-6)
torch.set_num_threads(1)
tap.trace  # its modules are imported
together = threading.Barrier(8)
counts = []
def work():
    together.wait()
    with tap.trace(other_threads=False) as trace:
        torch.ones(2) + 1
    counts.append(len(trace))
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(counts)
"""
for _ in range(4):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[2, 2, 2, 2, 2, 2, 2, 2]\n" and not done.stderr, done.stdout + done.stderr
