"""Programs do with the tap what they do without it: output, exit code, exceptions; and none hangs.

A tenth of them is run, each with one source. With TTAP_DIFFERENTIAL=all (`make differential`) every one with each.
"""

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from ttap_command import ROOT, TTAP

SOURCES = ("record", "ops", "trace", "run", "run ops")
RUNNER = ROOT / "tests/python/differential_runner.py"


def names():
    found = []
    for path in sorted((ROOT / "tests/differential").glob("*.py")):
        found += [f"{path.stem}: {line[3:]}" for line in path.read_text().splitlines() if line.startswith("#: ")]
    return found


NAMES = names()
ALL = os.environ.get("TTAP_DIFFERENTIAL") == "all"


def chosen_for(source):
    """Evenly over the files, and in every run the same."""
    if ALL:
        return NAMES
    return [name for name in NAMES if zlib.crc32(name.encode()) % 50 == 5 * SOURCES.index(source)]


def results_of(source, chosen, folder):
    """By name: how each program ended, and what it printed."""
    results = folder / f"{source.replace(' ', '_')}.jsonl"
    command = [sys.executable, RUNNER, source if source in ("none", "record", "ops", "trace") else "none", results]
    if source.startswith("run"):
        ops = ["--ops", "--level", "full"] if source == "run ops" else []
        command = [TTAP, "run", "--quiet", *ops, "-o", folder / source.replace(" ", "_"), "--", *command]
    variables = {name: text for name, text in os.environ.items() if not name.startswith("TTAP_")}
    done = subprocess.run([*command, *chosen], env=variables, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    return {line["name"]: line for line in map(json.loads, Path(results).read_text().splitlines())}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    wanted = {name for source in SOURCES for name in chosen_for(source)}
    return results_of("none", [name for name in NAMES if name in wanted], tmp_path_factory.mktemp("alone"))


def test_there_are_enough_programs(alone):
    assert len(NAMES) == len(set(NAMES)) >= 150
    assert len(alone) >= (len(NAMES) if ALL else 15)
    assert [name for name, result in alone.items() if result["ended"] is None] == []


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(" ")]
    return lines[-1] if lines else ""


@pytest.mark.parametrize("source", SOURCES)
def test_programs_do_what_they_do_without_the_tap(source, alone, tmp_path):
    chosen = chosen_for(source)
    differing = []
    for name, result in results_of(source, chosen, tmp_path).items():
        expected = alone[name]
        for what in ("ended", "stdout"):
            if result[what] != expected[what]:
                differing.append(f"{name}: {what} {expected[what]!r} -> {result[what]!r}\n{result['stderr'][-1500:]}")
        if expected["ended"] != 0 and last_line(result["stderr"]) != last_line(expected["stderr"]):
            differing.append(f"{name}: {last_line(expected['stderr'])!r} -> {last_line(result['stderr'])!r}")
        if "tensortap" in result["stderr"] and "tensortap" not in expected["stderr"]:
            differing.append(f"{name}: {result['stderr'][-1500:]}")
    assert not differing, f"{len(differing)} of {len(chosen)}:\n" + "\n".join(differing)
