"""`ttap recover` of a run that is being written, where the file system has no locks: nothing may be lost."""

import os
import subprocess
import sys
import threading
from pathlib import Path

folder = Path(sys.argv[1])
if len(sys.argv) == 2:  # again, with a flock() that fails
    (folder / "no_locks.c").write_text("#include <errno.h>\nint flock(int a, int b) { errno = ENOLCK; return -1; }\n")
    library = folder / "no_locks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "no_locks.c"], check=True)
    preload = {**os.environ, "LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')} {library}"}
    raise SystemExit(subprocess.run([sys.executable, __file__, folder, "again"], env=preload).returncode)

import tensortap as tap  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
recording = tap.record(model, folder / "run", step="manual", report=False, staging="64K")
done = False


def write():
    while not done:
        with recording.step():
            for _ in range(100):
                model(torch.randn(64, 64))


writer = threading.Thread(target=write)
writer.start()
ttap = os.environ.get("TTAP_BIN", "ttap")
for _ in range(40):
    result = subprocess.run([ttap, "recover", folder / "run"], capture_output=True, text=True)
    assert "recovered " not in result.stdout, result.stdout
done = True
writer.join()
recording.close()
passes = tap.open(folder / "run").ranks[0].passes
assert all(len(each) == 200 and each.ending == "complete" for each in passes.values())
assert tap.check(folder / "run", verify=True).ok
