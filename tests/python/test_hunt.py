"""The operator that makes one program differ from another: both run twice, suspects replayed, a program for each."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import tensortap as tap
import torch
from tensortap.hunting.script import NoScript, write_script
from tensortap.hunting.second_run import options_that_keep
from tensortap.hunting.suspects import CallPlace, SuspectPair, suspect_pairs
from tensortap.hunting.verdicts import judged
from tensortap.programs.recorded_program import ProgramNotRecorded
from tensortap.replaying.right.find_tensor import find_tensor
from ttap_command import TTAP, run

MODEL = """
import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 64), nn.LayerNorm(64, eps=eps), nn.Linear(64, 32)

    def forward(self, x):
        return self.down(torch.relu(self.norm(self.up(x))))


torch.manual_seed(0)
"""
STEPS = """
for _ in range(3):
    model(torch.randn(4, 32))
"""
GOOD = MODEL + "model = Model()\n" + STEPS
OTHER_EPSILON = MODEL + "model = Model(eps=0.1)\n" + STEPS
WRONG_KERNEL = (
    MODEL
    + """
def forgetful(bias, x, weight, *, beta=1, alpha=1):
    return bias + (x[:, :-4, None] * weight[None, :-4]).sum(1)


library = torch.library.Library("aten", "IMPL")
library.impl("addmm", forgetful, "CPU", allow_override=True)
model = Model()
"""
    + STEPS
)


@pytest.fixture
def programs(tmp_path):
    def written(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        return [[sys.executable, str(tmp_path / f"{name}.py")] for name in texts]

    return written


def hunted(a, b, folder, **options):
    return tap.hunt(a, b, folder, ttap=TTAP, **options)


def test_a_wrong_kernel_is_told_from_a_right_one(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=WRONG_KERNEL)
    found = hunted(good, bad, tmp_path / "hunt")
    assert not found.same
    first = found.first
    assert first.verdict == "b is wrong"
    assert first.key == "up:aten::addmm"
    assert first.places[1].pass_number == 0
    assert first.suspect.b.call.error.bounds > 1000
    assert first.suspect.a.call.error.bounds <= 1
    assert "B is wrong" in found.sentence


def test_each_suspect_has_a_program_that_shows_it_by_itself(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=WRONG_KERNEL)
    found = hunted(good, bad, tmp_path / "hunt")
    shown = shown_by(found.first.script)
    assert shown["A as recorded"] <= 1.5
    assert shown["B as recorded"] == pytest.approx(found.first.suspect.b.call.error.bounds, rel=0.01)
    assert shown["B with this PyTorch"] <= 1.5
    assert shown["A and B as recorded"] > 1000


def shown_by(script):
    """What the program of a suspect prints, by name."""
    ran = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    found = re.findall(r"^(.+?) +(\S+) times what rounding explains$", ran.stdout, re.M)
    return {name: float(times) for name, times in found}


def test_arguments_that_differ_are_no_mistake_of_the_operator(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=OTHER_EPSILON)
    first = hunted(good, bad, tmp_path / "hunt").first
    assert first.verdict == "other arguments"
    assert first.places[1].call == "norm:aten::native_layer_norm"
    assert first.arguments == ("eps: 1e-05 in A, 0.1 in B",)
    assert subprocess.run([sys.executable, first.script], capture_output=True).returncode == 1


MASKED = """
scores, mask = torch.randn(8, 8), torch.full((8, 8), float("-inf")).triu(1)
torch.add(mask, scores, alpha=ALPHA).softmax(-1)
"""


def test_behind_a_view_stands_the_call_that_made_what_it_shows(tmp_path):
    model = """
import torch
from torch import nn

class Separate(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.q, self.v = nn.Linear(32, 32), nn.Linear(32, 32)
        self.q.weight.data, self.v.weight.data = weight[:32], weight[32:]
        nn.init.zeros_(self.q.bias), nn.init.zeros_(self.v.bias)

    def forward(self, x):
        return torch.tanh(self.q(x)) * torch.sigmoid(self.v(x))

class Fused(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.qv = nn.Linear(32, 64)
        self.qv.weight.data = weight.clone()
        self.qv.weight.data[40] *= 1.5
        nn.init.zeros_(self.qv.bias)

    def forward(self, x):
        q, v = self.qv(x).split(32, -1)
        return torch.tanh(q) * torch.sigmoid(v)

torch.manual_seed(0)
weight, x = torch.randn(64, 32) / 6, torch.randn(2, 4, 32)
"""
    for name, work in (("a", "Separate(weight)(x)"), ("b", "Fused(weight)(x)")):
        (tmp_path / f"{name}.py").write_text(model + work)
    a, b = ([sys.executable, str(tmp_path / f"{name}.py")] for name in "ab")
    found = tap.hunt(a, b, tmp_path / "out", ttap=TTAP)
    assert [place.call for place in found.first.places] == ["v:aten::addmm", "qv:aten::addmm"]
    assert (found.first.verdict, found.first.apart > 1000) == ("other arguments", True)
    shown = subprocess.run([sys.executable, found.first.script], capture_output=True, text=True)
    assert shown.returncode == 1
    assert re.search(r"A and B as recorded +\d\S*e\+04 times what rounding explains", shown.stdout)


def test_equal_infinities_are_not_apart(programs, tmp_path):
    good, bad = programs(**{name: MODEL + MASKED.replace("ALPHA", a) for name, a in (("good", "1.5"), ("bad", "1.7"))})
    first = hunted(good, bad, tmp_path / "hunt").first
    assert first.verdict == "other arguments"
    assert first.arguments == ("alpha: 1.5 in A, 1.7 in B",)
    assert 1000 < first.apart < float("inf")
    shown = shown_by(first.script)
    assert shown["A as recorded"] <= 1.5
    assert shown["B as recorded"] <= 1.5
    assert 1000 < shown["A and B as recorded"] < float("inf")


def test_a_program_that_cannot_be_written_does_not_cost_the_answer(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=OTHER_EPSILON)
    first = hunted(good, bad, tmp_path / "hunt", suspects=1).first
    pair = SuspectPair(first.key, *first.places, first.reason)
    again = judged(pair, tmp_path / "hunt/a.suspects", tmp_path / "hunt/b.suspects", torch.device("cpu"))
    with pytest.raises(NoScript, match=r"its tensors cannot be written: .*No such file"):
        write_script(again, tmp_path / "gone/suspect.py")


def test_programs_that_agree_are_not_run_again(programs, tmp_path):
    good, same = programs(good=GOOD, same=GOOD)
    found = hunted(good, same, tmp_path / "hunt")
    assert found.same
    assert found.suspects == []
    assert sorted(path.name for path in (tmp_path / "hunt").iterdir()) == ["a", "b"]


def test_the_second_run_keeps_the_suspects_alone(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=WRONG_KERNEL)
    found = hunted(good, bad, tmp_path / "hunt", suspects=1)
    assert len(found.suspects) == 1
    second = tap.open(tmp_path / "hunt/b.suspects")
    (kept,) = second.ranks[0].passes.values()
    assert {record.name for record in kept.records} == {"up:aten::addmm"}
    assert kept.number == 0
    assert all(record.has_bytes for record in kept.records)


def test_what_cannot_be_hunted_is_said(programs, tmp_path):
    good, nothing = programs(good=GOOD, nothing="print('no PyTorch here')")
    with pytest.raises(ProgramNotRecorded, match="nothing was recorded"):
        hunted(good, nothing, tmp_path / "hunt")
    with pytest.raises(ValueError, match="is not empty"):
        hunted(good, good, tmp_path / "hunt")


def test_the_second_run_has_the_options_of_the_first():
    place = CallPlace("up:aten::addmm", "up:aten::addmm", "op", 0, 1, 2)
    words = options_that_keep([place], ["--compiled", "--steps", "0-9", "--level=sketch", "--filter=up", "--append"])
    assert words[:2] == ["--compiled", "--append"]
    assert [words[words.index(name) + 1] for name in ("--steps", "--level", "--ranks")] == ["1", "full", "0"]
    assert words.count("--filter") == 1


def test_a_second_run_that_fails_costs_its_side_alone(programs, tmp_path):
    ran = str(tmp_path / "ran")
    once = f"import os, sys\nif os.path.exists({ran!r}): sys.exit(3)\nopen({ran!r}, 'w')\n"
    good, bad = programs(good=GOOD, bad=once + OTHER_EPSILON)
    (one,) = hunted(good, bad, tmp_path / "hunt", suspects=1).suspects
    assert one.suspect.a.call.error.kind == "rounding"
    assert one.suspect.b.reason.startswith("its second run failed: nothing was recorded of ")
    assert one.suspect.b.reason.endswith("(exit code 3)")
    assert one.verdict == "not known"
    assert subprocess.run([sys.executable, one.script], capture_output=True).returncode == 0  # of A, which is right


def test_an_operator_of_many_ranks_is_one_suspect(tmp_path):
    for name, eps in (("a", 1e-5), ("b", 0.1)):
        torch.manual_seed(0)
        model = torch.nn.LayerNorm(8, eps=eps)
        with tap.record(model, tmp_path / name, ops=True, level="full", report=False):
            model(torch.randn(4, 8))
        (rank,) = tap.open(tmp_path / name).ranks
        shutil.copytree(rank.path, rank.path.with_name("rank1_pid1"))
    a, b = tap.open(tmp_path / "a"), tap.open(tmp_path / "b")
    (pair,) = suspect_pairs(tap.diff(a, b), a, b, 3)
    assert (pair.key, pair.a.rank, pair.b.rank) == ("LayerNorm:aten::native_layer_norm/0", 0, 0)


def test_a_tensor_of_several_processes_is_not_guessed(tmp_path):
    model = torch.nn.ReLU()
    with tap.record(model, tmp_path / "run", ops=True, level="full"):
        model(torch.ones(2))
    (rank,) = tap.open(tmp_path / "run").ranks
    assert find_tensor(tap.open(tmp_path / "run"), 0, 0, "ReLU:aten::relu")[0].pid == rank.pid
    shutil.copytree(rank.path, rank.path.with_name("rank0_pid1"))
    with pytest.raises(LookupError, match="2 processes have ReLU:aten::relu in rank 0, pass 0: compare one with one"):
        find_tensor(tap.open(tmp_path / "run"), 0, 0, "ReLU:aten::relu")
    with pytest.raises(LookupError, match="no aten::mm in rank 0"):
        find_tensor(tap.open(tmp_path / "run"), 0, 0, "aten::mm")


TWO_WRONG = WRONG_KERNEL.replace("model = Model()", "model = Model(eps=0.1)")


def test_a_graft_proves_the_cause(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=OTHER_EPSILON)
    found = hunted(good, bad, tmp_path / "hunt", confirm=True)
    assert found.first.removed > 0.999
    assert found.first.is_cause
    assert "removes 100.0 % of the output's error" in found.sentence


def test_of_two_causes_none_is_all_of_it(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=TWO_WRONG)
    found = hunted(good, bad, tmp_path / "hunt", confirm=True)
    assert [one.is_cause for one in found.suspects] == [False] * len(found.suspects)
    assert found.first.verdict == "b is wrong"
    assert found.first.removed < 0.9


def test_the_command_prints_what_was_found(programs, tmp_path):
    good, bad = programs(good=GOOD, bad=WRONG_KERNEL)
    words = ["-o", str(tmp_path / "hunt"), "--steps", "0", "--json", "--", *good, "--against", "--", *bad]
    result = run("hunt", "--python", sys.executable, *words)
    assert result.returncode == 1, result.stderr
    answer = json.loads(result.stdout)
    assert answer["suspects"][answer["first"]]["verdict"] == "b is wrong"
    assert answer["suspects"][answer["first"]]["b"]["place"]["key"] == "up:aten::addmm"
    words = ["-o", str(tmp_path / "again"), "--", *good, "--against", *good]
    assert run("hunt", "--python", sys.executable, *words).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no programs to run"),
        (["--", "true", "--against"], "a program is missing"),
        (["--", "/no/such/program", "--against", "true"], "cannot run"),
    ],
)
def test_the_command_says_what_is_missing(words, message, tmp_path):
    result = run("hunt", "--python", sys.executable, "-o", str(tmp_path / "hunt"), *words)
    assert result.returncode == 2
    assert message in result.stderr
    assert "what to do" in result.stderr
