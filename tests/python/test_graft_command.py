"""`ttap run --graft`: tensors of an earlier run put into a program that does not know of it."""

import os
import shutil
import sys

import pytest
import tensortap as tap
from test_graft import same_bits, value
from ttap_command import run

PROGRAM = """
import os, sys
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = Block(), Block(), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.second(self.first(x)))

torch.manual_seed(0)
model = Model()
x = torch.randn(5, 4)
if "wrong" in sys.argv:
    model.first.up.bias.data.add_(0.25)
if "records" in sys.argv:
    import tensortap as tap
    with tap.record(model, "own", modules="all", report=False):
        model(x)
elif "forks" in sys.argv:
    model(x)
    sys.stdout.flush()
    if os.fork() == 0:
        print("child", model(x).sum().item())
    else:
        os.wait()
else:
    for factor in 1, 2:
        print(model(factor * x).sum().item())
sys.exit(3 if "fails" in sys.argv else 0)
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A run of the program as it should be."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "program.py").write_text(PROGRAM)
    done = run("run", "-o", folder / "good", "--modules", "all", "--", sys.executable, folder / "program.py")
    (folder / "printed").write_text(done.stdout)
    return folder / "good"


@pytest.fixture
def printed(sound):
    """What the program prints then."""
    return (sound.parent / "printed").read_text()


@pytest.fixture
def program(sound, tmp_path, monkeypatch):
    """Runs the program under the command, in a directory of its own, where a run of it is already."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    shutil.copytree(sound, tmp_path / "good")

    def start(output, *words, options=(), **environment):
        all_options = ["-o", output, *(["--modules", "all"] if "--ops" not in options else []), *options]
        return run("run", *all_options, "--", sys.executable, "program.py", *words, **environment)

    return start


def test_a_module_of_another_run_is_put_in_and_it_is_said(program, printed):
    wrong = program("bad", "wrong")
    done = program("with", "wrong", options=["--graft", "good:first"])
    assert done.returncode == 0
    assert f"  graft of {os.getcwd()}/good:first: put in twice\n" in done.stderr
    assert wrong.stdout != done.stdout == printed
    assert tap.removed_error("good", "bad", "with") == 1
    # The recording has it, where it went in.
    assert same_bits(value("with", "first"), value("good", "first"))
    assert not same_bits(value("with", "first.down"), value("good", "first.down"))
    notes = tap.open("with").ranks[0].coverage["source"]["notes"]
    assert f"graft of {os.getcwd()}/good:first: put in twice" in notes


def test_an_argument_and_an_operator(program, printed):
    program("full", options=["--ops", "--level", "full"])
    done = program(
        "with", "wrong", options=["--graft", "good:second@in/0", "--ops", "--graft", "full:first:aten::relu"]
    )
    assert done.returncode == 0 and "second@in/0: " in done.stderr
    assert "full:first:aten::relu: put in twice" in done.stderr, done.stderr
    assert done.stdout == printed


def test_a_run_in_a_folder_with_a_colon(program, printed):
    os.mkdir("runs")
    os.mkdir("runs:old")
    os.rename("good", "runs:old/good")
    done = program("with", "wrong", options=["--graft", "runs:old/good:first"])
    assert "runs:old/good:first: put in twice" in done.stderr, done.stderr
    assert done.stdout == printed


def test_what_is_not_met_is_said_and_the_program_ends_as_it_does(program):
    done = program("with", "wrong", "fails", options=["--graft", "good:third", "--graft", "good:first.up"])
    assert done.returncode == 3
    assert "good:third: not met: third is not in " in done.stderr
    assert "good:first.up: put in twice" in done.stderr


def test_across_other_names(program, tmp_path):
    text = PROGRAM.replace("first", "encoder").replace("second", "decoder").replace("head", "classifier")
    (tmp_path / "program.py").write_text(text)
    program("bad", "wrong")
    done = program("with", "wrong", options=["--graft", "good:first.up", "--graft-names-of", "bad"])
    assert "good:first.up: put in twice" in done.stderr, done.stderr
    assert same_bits(value("with", "encoder.up"), value("good", "first.up"))
    assert tap.removed_error("good", "bad", "with") == 1


def test_a_program_that_records_by_itself_is_grafted_all_the_same(program):
    done = program("with", "wrong", "records", options=["--graft", "good:first"])
    assert done.returncode == 0
    assert "good:first: put in once" in done.stderr
    assert same_bits(value("with", "first"), value("good", "first"))


def test_a_forked_child_counts_its_own_passes(program, printed):
    done = program("with", "wrong", "forks", options=["--graft", "good:first"])
    (line,) = done.stdout.splitlines()
    assert line == f"child {printed.splitlines()[0]}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--graft", "better:first"], "--graft: there is no run in 'better:first'"),
        (["--graft", "good"], "--graft: there is no run in 'good'"),
        (["--graft", "program.py:first"], "program.py"),
        (["--graft-names-of", "good"], "--graft-names-of without --graft"),
    ],
)
def test_an_option_that_will_not_do_is_an_error_before_anything_is_run(options, message, program):
    done = program("with", options=options)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


def test_the_directory_of_the_run_itself_is_no_run_to_graft_from(program):
    done = program("good", options=["--graft", "good:first"])
    assert done.returncode == 2 and "'good' is where this run is to go" in done.stderr
