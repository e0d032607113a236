"""Every system call of a recording of three passes fails once, in every way: the program does not notice, nothing that
can be read afterwards is wrong, and what is missing was said.

A sample of the cases is run. With TTAP_FAULTS=all (`make faults`) every one.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from ttap_command import ROOT

RUNNER = ROOT / "tests/python/fault_runner.py"
FAULTS = ROOT / "build/dev/tests/faults/libttap_faults.so"
ALL = os.environ.get("TTAP_FAULTS") == "all"
EVERY = 19  # of the cases, unless all are asked for

WRITES = {"write", "pwrite", "pwritev"}
READS = {"read", "pread"}
INTERRUPTED = WRITES | READS | {"open", "open64", "openat", "flock", "fsync", "fdatasync", "ftruncate", "close"}


def ways_of(call):
    """How the call may fail, and whether all after it do as well."""
    ways = [("EIO", False), ("EIO", True)]
    if call in WRITES | {"open", "open64", "mkdir", "rename", "renameat2", "fsync", "fdatasync", "close", "ftruncate"}:
        ways += [("ENOSPC", False), ("ENOSPC", True)]
    if call in INTERRUPTED:
        ways += [("EINTR", False)]
    if call in WRITES | READS:
        ways += [("short", False), ("short", True)]
    if call == "flock":
        ways += [("ENOLCK", False), ("ENOLCK", True)]
    if call in WRITES | {"open", "flock", "fdatasync"}:
        ways += [("stall", False)]
    return ways


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    if not FAULTS.exists():
        pytest.skip("skipped: libttap_faults.so is not built")
    process = subprocess.Popen(
        [sys.executable, RUNNER, tmp_path_factory.mktemp("faults")],
        env={**os.environ, "LD_PRELOAD": str(FAULTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(case):
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the runner ended with {process.wait()}"
        return json.loads(line)

    yield run
    process.stdin.close()
    assert process.wait(60) == 0


@pytest.fixture(scope="module")
def sound(runner):
    """Without a fault."""
    result = runner(None)
    assert result["status"] == 0 and not result["unreadable"], result
    return result


def test_the_calls_of_the_writer_are_seen(sound):
    assert sound["tensors"] >= 30
    assert {"open", "write", "close", "fstat", "mkdir", "flock"} | {"pwritev"} <= set(sound["calls"])
    assert len(sound["calls"]) >= 50


def problems(case, name, result, sound):
    where = f"{name} number {case[0]}: {case[1]}{' from then on' if case[2] else ''}"
    if result["status"] != 0 or "raised" in result:
        return [f"{where}: the program ended with {result['status']}: {result.get('raised')}"]
    found = []
    if result["sums"] != sound["sums"]:
        found.append(f"{where}: the model computed something else")
    if result["wrong"]:
        found.append(f"{where}: read back wrong: {result['wrong'][:3]}")
    if result["missing"] and result["said"] == sound["said"]:
        found.append(f"{where}: {len(result['missing'])} tensors are missing and nothing was said")
    if case[1] in ("EINTR", "short", "stall") and (result["missing"] or result["unreadable"]) and name != "close":
        found.append(f"{where}: {len(result['missing'])} tensors are missing, {result['unreadable']}, {result['said']}")
    return found


def test_a_system_call_that_fails_harms_neither_program_nor_data(runner, sound):
    cases = [((n, *way), name) for n, name in enumerate(sound["calls"]) for way in ways_of(name)]
    if not ALL:
        cases = [case for i, case in enumerate(cases) if i % EVERY == 0]
    found = [problem for case, name in cases for problem in problems(case, name, runner(case), sound)]
    assert not found, f"{len(found)} of {len(cases)}:\n" + "\n".join(found[:40])


HANGING = """
import ctypes, os, sys, torch, tensortap as tap
faults = ctypes.CDLL(None)
model = torch.nn.Linear(64, 64)
recording = tap.record(model, sys.argv[1], staging="64K", report=False)
model(torch.ones(64, 64))
recording.flush()
faults.ttap_faults_watch(os.fsencode(sys.argv[1]))
faults.ttap_faults_arm(ctypes.c_long(0), -3, 1)
print("hangs", flush=True)
try:
    for i in range(1000):
        model(torch.ones(64, 64))
except KeyboardInterrupt:
    print("interrupted", flush=True)
recording.close()
print(recording.recording, flush=True)
"""


def test_a_disk_that_hangs_does_not_keep_an_interrupt_from_the_program(tmp_path):
    if not FAULTS.exists():
        pytest.skip("skipped: libttap_faults.so is not built")
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, tmp_path],
        env={**os.environ, "LD_PRELOAD": str(FAULTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "hangs\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert out == "interrupted\nFalse\n" and process.returncode == 0, (out, err, process.returncode)
