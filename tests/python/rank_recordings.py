"""Recordings of a program that several ranks run: made once for each number of ranks, and only read."""

import os
import subprocess
import sys
from pathlib import Path


def recordings_of(program, tmp_path_factory):
    """A function from the number of ranks to the folder of their recordings; the program lies beside this file."""
    folders = {}

    def record(ranks):
        if ranks not in folders:
            folder = folders[ranks] = tmp_path_factory.mktemp(f"ranks{ranks}")
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
            words = [*torchrun, Path(__file__).with_name(program), folder]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            found = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
            assert found.returncode == 0, found.stdout + found.stderr
        return folders[ranks]

    return record
