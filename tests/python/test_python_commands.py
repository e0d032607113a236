"""What the commands that Python does have in common: exit codes, errors, and what they leave behind."""

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
import tensortap as tap
import torch
from tensortap.commands.answering import answered
from ttap_command import TTAP, run

PATH = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"


@pytest.fixture
def wrong(tmp_path):
    """A folder with a run of an operator that is off, and with two runs of one that is not."""
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Tanh()
    for _ in range(2):
        with tap.record(model, tmp_path / "older", ops=True, level="full", report=False):
            model(x)
    library = torch.library.Library("aten", "IMPL")
    library.impl("tanh", lambda given: given * 0.5, "CPU", allow_override=True)
    try:
        with warnings.catch_warnings(), tap.trace(level="full") as trace:
            warnings.simplefilter("ignore")  # that a kernel is replaced
            torch.tanh(x)
    finally:
        library._destroy()
    trace.save(tmp_path / "run")
    return tmp_path


def test_an_answer_that_nobody_reads_keeps_its_exit_code(wrong):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as nobody:
        words = [TTAP, "blame", wrong / "run", "--python", sys.executable]
        ended = subprocess.run(words, stdout=nobody, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_of_several_runs_the_newest_is_taken_and_named(wrong):
    for words in (["blame", wrong / "older"], ["replay", wrong / "older", "Tanh:aten::tanh"]):
        result = run(*words, "--python", sys.executable)
        assert result.returncode == 0, result.stderr
        assert f"ttap {words[0]}: {wrong}/older holds 2 runs; this is the newest" in result.stderr


def test_a_mistake_of_ours_is_no_finding(capsys):
    def fails():
        raise AssertionError("unexpected")

    with pytest.raises(SystemExit) as ended:
        answered("twice", fails)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "AssertionError: unexpected" in printed
    assert "ttap twice: error: this is a bug in ttap" in printed


def test_it_is_no_part_of_a_program_that_is_recorded(wrong):
    words = ["--quiet", "--ops", "-o", wrong / "outer", "--", TTAP, "blame", wrong / "run", "--python", sys.executable]
    result = run("run", *words, PATH=PATH)
    assert result.returncode == 1, result.stderr
    assert not (wrong / "outer").exists() or not tap.runs(wrong / "outer")


WAITS = """
import os, signal, sys, time, torch
torch.ones(2) + 1
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(300)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_what_it_runs_ends_with_it_and_leaves_nothing(number, code, tmp_path):
    scratch, pid = tmp_path / "scratch", tmp_path / "pid"
    scratch.mkdir()
    words = [TTAP, "twice", "--python", sys.executable, "--", sys.executable, "-c", WAITS, pid]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    command = subprocess.Popen(words, env=environment, start_new_session=True, stderr=subprocess.PIPE)  # no terminal
    wait_until(lambda: pid.exists() and pid.read_text())
    assert len(list(scratch.iterdir())) > 0
    command.send_signal(number)
    _, printed = command.communicate(timeout=60)
    assert command.returncode == code
    assert b"ttap twice" not in printed
    wait_until(lambda: not os.path.exists(f"/proc/{pid.read_text()}"))
    assert [path for path in scratch.iterdir() if path.name.startswith("ttap-twice-")] == []


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
