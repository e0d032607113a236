"""Recordings that come and go while models run, from threads and signal handlers: chaos.py, for some seconds.

`make chaos` runs it for MINUTES.
"""

import os
import subprocess
import sys

from ttap_command import ROOT

SECONDS = float(os.environ.get("TTAP_CHAOS_SECONDS", "6"))


def test_recordings_come_and_go_while_models_run(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tests/python/chaos.py", tmp_path / "runs", str(SECONDS)],
        capture_output=True,
        text=True,
        timeout=SECONDS + 280,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}{done.stderr[-6000:]}"
    assert " 0 recordings" not in done.stdout and " 0 signals" not in done.stdout, done.stdout
