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


def test_an_answer_is_written_as_utf8_in_any_locale():
    code = r"""
import sys
from tensortap.commands.answering import answered, print_answer
sys.exit(answered("blame", lambda: print_answer("\u221e in \udcff.py", "auto") or 1))
"""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (ended.returncode, ended.stdout) == (1, b"\xe2\x88\x9e in \xff.py\n"), ended.stderr


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


@pytest.fixture
def own_operator(tmp_path):
    """A folder with a library that registers an operator, and a run of a program that calls it."""
    (tmp_path / "my_ops.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('ttap_imported::double', mutates_args=())\n"
        "def double(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\n"
    )
    program = "import my_ops, torch; torch.ops.ttap_imported.double(torch.ones(3))"
    words = ["--quiet", "--ops", "--level", "full", "-o", tmp_path / "run", "--", sys.executable, "-c", program]
    result = run("run", *words, PYTHONPATH=str(tmp_path), PATH=PATH)
    assert result.returncode == 0, result.stderr
    return tmp_path


@pytest.mark.parametrize("name", ["my_ops", "my_ops.py"])
def test_operators_of_a_library_are_called_where_it_is_imported(own_operator, name):
    words = ["replay", own_operator / "run", "ttap_imported::double", "--python", sys.executable]
    without = run(*words)
    assert without.returncode == 2
    assert "ttap_imported::double is not here: import the library that registers it (--import)" in without.stderr
    if name.endswith(".py"):
        result = run(*words, "--import", own_operator / name)
    else:
        result = run(*words, "--import", name, PYTHONPATH=str(own_operator))
    assert result.returncode == 0, result.stderr
    assert "the recorded bits" in result.stdout


def test_a_library_that_cannot_be_imported_is_an_error(own_operator):
    (own_operator / "torn.py").write_text("import nowhere_at_all")
    for name, why in [("absent", "cannot import absent"), (own_operator / "torn.py", "nowhere_at_all"),
                      (own_operator / "gone.py", "there is no file")]:  # fmt: skip
        result = run("blame", own_operator / "run", "--python", sys.executable, "--import", name)
        assert result.returncode == 2
        assert f"--import {name}: " in result.stderr
        assert why in result.stderr


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
