"""After SIGKILL every pass that was flushed is whole: kill_runner.py. `make chaos` kills 1,000 times."""

import os
import subprocess
import sys

from ttap_command import ROOT

KILLS = int(os.environ.get("TTAP_KILLS", "15"))


def test_no_flushed_pass_is_lost(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tests/python/kill_runner.py", tmp_path, str(KILLS)],
        capture_output=True,
        text=True,
        timeout=120 + 3 * KILLS,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert " 0 flushed" not in done.stdout
