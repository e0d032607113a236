"""A program that is run and recorded from Python."""

import os
import sys

import pytest
import tensortap as tap
from tensortap.programs.recorded_program import ProgramNotRecorded, run_recorded
from ttap_command import TTAP

ADD = "import torch; print('hello', torch.ones(2) + 1)"
OPS = ("--ops", "--level", "fingerprint")


def recorded(folder, code, *options, **more):
    return run_recorded([sys.executable, "-c", code], folder, options or OPS, ttap=TTAP, **more)


def test_the_recording_has_what_the_program_ran(tmp_path, capfd):
    made = recorded(tmp_path / "run", ADD)
    assert (made.status, made.path, made.ending) == (0, tmp_path / "run", "exit code 0")
    names = [event.name for event in tap.open(made.path).ranks[0].passes[0].events]
    assert "aten::add.Tensor" in names
    printed = capfd.readouterr()
    assert printed.out == ""  # that is for what is found
    assert "hello" in printed.err
    assert "ttap run" not in printed.err


def test_status_is_that_of_the_program(tmp_path):
    assert recorded(tmp_path / "three", f"{ADD}; raise SystemExit(3)").status == 3
    killed = recorded(tmp_path / "killed", f"{ADD}; import os; os.kill(os.getpid(), 9)")
    assert (killed.status, killed.ending) == (-9, "killed by signal 9")


def test_the_program_has_the_environment_and_no_input(tmp_path):
    code = f"{ADD}; import os, sys; raise SystemExit(os.environ['WORD'] + sys.stdin.read() != 'given')"
    assert recorded(tmp_path / "run", code, environment={"WORD": "given"}).status == 0
    assert "WORD" not in os.environ


def test_a_program_that_records_nothing_is_an_error_with_its_ending(tmp_path):
    with pytest.raises(ProgramNotRecorded, match=r"nothing was recorded of .* \(exit code 4\)") as raised:
        recorded(tmp_path / "run", "raise SystemExit(4)")
    assert "ttap doctor" in raised.value.hint


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ProgramNotRecorded, match="cannot run /no/such/program --fast"):
        run_recorded(["/no/such/program", "--fast"], tmp_path / "run", OPS, ttap=TTAP)
    with pytest.raises(ValueError, match="no program"):
        run_recorded([], tmp_path / "run", OPS, ttap=TTAP)


def test_a_command_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ProgramNotRecorded, match="cannot run /no/such/ttap: No such file"):
        run_recorded(["true"], tmp_path / "run", ttap="/no/such/ttap")


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    recorded(tmp_path / "run", ADD)
    with pytest.raises(ValueError, match=r"a run lies in .* already"):
        recorded(tmp_path / "run", ADD)
