"""Running `ttap` in tests, and the program that makes runs for it to look at."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TTAP = Path(os.environ.get("TTAP_BIN", ROOT / "build/dev/cli/ttap"))
MAKE = TTAP.parents[1] / "tests/cli/make_sample_run"


def run(*words, **environment):
    variables = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM"}}
    return subprocess.run(
        [TTAP, *words], capture_output=True, text=True, env={**variables, "TZ": "UTC", **environment}, timeout=600
    )


def read_json(*words):
    result = run(*words, "--json")
    return json.loads(result.stdout), result.returncode
