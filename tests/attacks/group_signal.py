"""A signal to the whole process group reaches the program once under `ttap run`, one to the command alone, too."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import signal, time
count = 0
def handler(number, frame):
    global count
    count += 1
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(number, handler)
print("ready", flush=True)
end = time.monotonic() + 1
while time.monotonic() < end:
    time.sleep(0.02)
print(count)
"""

ttap = os.environ.get("TTAP_BIN", "ttap")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
    for send in (os.killpg, os.kill):
        command = [ttap, "run", "-o", Path(sys.argv[1]) / "run", "--quiet", "--", sys.executable, "-c", PROGRAM]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.1)
        send(program.pid, number)
        came = program.communicate(timeout=30)[0].strip()
        assert came == "1", f"{number.name} by {send.__name__} came {came} times"
