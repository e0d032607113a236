"""Every attack of tests/attacks comes to nothing."""

import os
import subprocess
import sys

import pytest
from ttap_command import ROOT, TTAP

ATTACKS = sorted((ROOT / "tests/attacks").glob("*.py"))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda path: path.stem)
def test_nothing_comes_of(attack, tmp_path):
    result = subprocess.run(
        [sys.executable, attack, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TTAP_BIN": str(TTAP)},
    )
    assert result.returncode == 0, f"{attack.name}: {result.returncode}\n{result.stdout[-1000:]}{result.stderr[-3000:]}"
