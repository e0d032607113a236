"""Which side of a difference is wrong, told by calling both again."""

import json
import os
import subprocess
import sys

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import ROOT, TTAP, run

sys.path.insert(0, str(ROOT / "bench/blame"))
from wrong_kernels import Fault, planted


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 32)

    def forward(self, x):
        return self.down(torch.relu(self.norm(self.up(x))))


TOO_LARGE = Fault("addmm too large", "addmm", lambda right, *args, **kwargs: right(*args, **kwargs) * 1.02)

RELU_ADDS = Fault("relu adds", "relu", lambda right, x: right(x) + 10)


def traced(fault=None, at=None, level="full", eps=1e-5, change=None):
    torch.manual_seed(1)
    model, x = Model(), torch.randn(8, 32)
    model.norm.eps = eps
    if change is not None:
        change(model)
    with planted(fault, at), tap.trace(model, level=level, stacks=True) as trace, torch.no_grad():
        model(x)
    return trace


@pytest.fixture(scope="module")
def good():
    return traced()


@pytest.fixture(scope="module")
def bad():
    return traced(TOO_LARGE, 1)


# ---- the answer ----


def test_the_wrong_side_is_named_whichever_it_is(good, bad):
    found = tap.who_is_right(tap.diff(good, bad))
    assert (found.first.key, found.first.wrong) == ("down:aten::addmm", "b")
    assert found.first.sentence.startswith("B is wrong: ")
    assert "rounding bounds from the exact result of its own inputs; A is 0." in found.first.sentence
    assert found.first.b.call.error.bounds > 1000
    assert found.first.a.call.error.bounds < 1.5
    swapped = tap.who_is_right(tap.diff(bad, good))
    assert (swapped.first.wrong, swapped.first.a.is_wrong, swapped.first.b.is_wrong) == ("a", True, False)
    assert swapped.first.sentence.startswith("A is wrong: ")


def test_both_may_be_wrong(bad):
    larger = Fault("addmm larger", "addmm", lambda right, *args, **kwargs: right(*args, **kwargs) * 1.05)
    found = tap.who_is_right(tap.diff(bad, traced(larger, 1)))
    assert found.first.wrong == "both"
    assert found.first.sentence.startswith("both are wrong: A ")


def test_neither_is_wrong_where_they_were_asked_for_other_things(good):
    found = tap.who_is_right(tap.diff(good, traced(eps=0.1)))
    assert (found.first.key, found.first.wrong) == ("norm:aten::native_layer_norm/0", "neither")
    assert "both are within rounding of the exact result of their own inputs" in found.first.sentence
    assert found.first.note.startswith("they are called differently: A aten::native_layer_norm(")
    assert "1e-05), B aten::native_layer_norm(" in found.first.note
    assert found.first.note.endswith(", 0.1)")


def test_neither_is_wrong_where_terms_cancel():
    def work(order):
        terms = torch.cat([torch.full((2, 64), 1000.0), torch.full((2, 64), -1000.0)], 1)
        terms = terms + torch.arange(256).reshape(2, 128) * 1e-4
        with tap.trace(level="full") as trace:
            terms.sum(-1)
        return trace

    backwards = Fault("sum backwards", "sum.dim_IntList", lambda right, x, *args, **kw: right(x.flip(-1), *args, **kw))
    a = work(1)
    with planted(backwards, 0):
        b = work(-1)
    difference = tap.diff(a, b, rtol=0, atol=0)
    if difference.same:
        pytest.skip("both orders round alike here")
    found = tap.who_is_right(difference)
    assert found.first.wrong == "neither"
    assert found.first.note.startswith("terms cancel there")


def test_nan_on_one_side_is_said():
    broken = Fault("relu with NaN", "relu", lambda right, x: torch.full_like(x, torch.nan))
    found = tap.who_is_right(tap.diff(traced(), traced(broken, 0)))
    assert (found.first.key, found.first.wrong) == ("Model:aten::relu", "b")
    assert "B is wrong: it has NaN or Inf where the exact result of its own inputs is finite" in found.first.sentence


def test_runs_that_agree_have_nothing_to_replay(good):
    found = tap.who_is_right(tap.diff(good, traced()))
    assert (found.suspects, found.first, found.to_json()) == ([], None, [])
    assert "nothing to replay" in str(found)


def test_top_bounds_how_many_are_looked_at(good):
    with planted(TOO_LARGE, 0), planted(RELU_ADDS, 0):
        both = traced()
    difference = tap.diff(good, both)
    every = tap.who_is_right(difference, top=100)
    assert [(each.key, each.wrong) for each in every.suspects] == [("up:aten::addmm", "b"), ("Model:aten::relu", "b")]
    found = tap.who_is_right(difference, top=1)
    assert found.suspects == every.suspects[:1]
    assert "1 more not replayed" in str(found)


# ---- what is missing ----


def test_without_bytes_the_other_side_is_still_judged(bad):
    found = tap.who_is_right(tap.diff(traced(level="fingerprint"), bad))
    assert found.first.wrong == "b"
    assert "A is not replayed: aten::addmm: the bytes of" in found.first.sentence
    assert found.first.a.record == 'in the program: tap.trace(level="full")'
    assert found.first.b.record == ""
    other = tap.who_is_right(tap.diff(bad, traced(level="fingerprint")))
    assert other.first.wrong == "a"
    unknown = tap.who_is_right(tap.diff(traced(level="fingerprint"), traced(eps=0.1)))
    assert unknown.first.wrong == "unknown"
    assert "B is within rounding of the exact result of its own inputs" in unknown.first.sentence


def test_files_of_tensors_have_no_calls(tmp_path):
    for name, value in (("a", 1.0), ("b", 2.0)):
        torch.save({"x": torch.full((4,), value)}, tmp_path / f"{name}.pt")
    found = tap.who_is_right(tap.diff(tmp_path / "a.pt", tmp_path / "b.pt"))
    assert found.first.wrong == "unknown"
    assert found.first.a.reason == "the file has tensors, and not the calls that made them"


def test_a_recording_that_is_gone_is_a_reason(tmp_path, good, bad):
    good.save(tmp_path / "a")
    difference = tap.diff(tmp_path / "a", bad)
    (tmp_path / "a").rename(tmp_path / "moved")
    found = tap.who_is_right(difference)
    assert found.first.wrong == "b"
    assert str(tmp_path / "a") in found.first.a.reason


# ---- modules, and the command that records what is missing ----

PROGRAM = """
import sys
import torch
from torch import nn
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 8))
if "--wrong" in sys.argv:
    class Wrong(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x) * 1.01
    model[1] = Wrong(32)
for _ in range(2):
    model(torch.randn(4, 32))
"""


def programs(folder, *options, **environment):
    (folder / "two words.py").write_text(PROGRAM)
    for name, words in (("good", ()), ("bad", ("--wrong",))):
        subprocess.run(
            [TTAP, "run", "-o", name, *options, "--", sys.executable, "two words.py", *words],
            cwd=folder,
            check=True,
            capture_output=True,
            env={**os.environ, **environment},
        )


def test_of_modules_alone_the_command_that_records_operators_is_given_and_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs(tmp_path, "--roles", "in,out")
    found = tap.who_is_right(tap.diff("good", "bad"))
    assert (found.first.key, found.first.wrong) == ("1", "unknown")
    assert found.first.sentence == (
        "not known, since neither side is replayed: the recording has the module, and not its operators")  # fmt: skip
    assert len(found.suspects) == 1  # the second pass has the same
    assert found.first.b.record == (
        f"ttap run --ops --level full --stacks --steps 0 -o bad-full -- {sys.executable} 'two words.py' --wrong"
    )
    path = f"{TTAP.parent}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    for side in (found.first.a, found.first.b):
        subprocess.run(side.record, shell=True, check=True, capture_output=True, env={**os.environ, "PATH": path})
    again = tap.who_is_right(tap.diff("good-full", "bad-full"))
    assert again.first.key == "1:aten::mul.Tensor"
    assert again.first.sentence.startswith("A is not replayed: it has no such call; B is within rounding")
    of_module = again.suspects[1]
    assert (of_module.key, of_module.wrong) == ("1", "neither")  # the program asks for what it gets
    norm = "aten::native_layer_norm"
    assert of_module.note == f"other operators ran: {norm} in A, {norm}, aten::mul.Tensor in B"
    assert set(tap.open("bad-full").ranks[0].passes) == {0}


def test_a_module_is_judged_by_its_operators(tmp_path):
    def record(where, fault, at):
        torch.manual_seed(1)
        model, x = Model(), torch.randn(8, 32)
        with planted(fault, at), tap.record(model, where, ops=True, level="full", report=False), torch.no_grad():
            model(x)
        return where

    good, bad = record(tmp_path / "good", None, None), record(tmp_path / "bad", TOO_LARGE, 1)
    found = tap.who_is_right(tap.diff(good, bad, filter="^(up|norm|down)$"))
    assert (found.first.key, found.first.wrong) == ("down", "b")
    assert found.first.b.call.op == "aten::addmm"
    assert found.first.b.operators == ("aten::addmm",)


# ---- the command ----


@pytest.fixture(scope="module")
def saved(tmp_path_factory, good, bad):
    folder = tmp_path_factory.mktemp("right")
    good.save(folder / "good")
    bad.save(folder / "bad")
    return folder / "good", folder / "bad"


def command(*words):
    return run(*words, PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


def test_the_command_adds_the_answer_to_that_of_the_diff(saved):
    plain, result = command("diff", *saved), command("diff", *saved, "--replay")
    assert (plain.returncode, result.returncode, result.stderr) == (1, 1, "")
    hint = "which side is wrong: the same command with --replay\n"
    assert plain.stdout.endswith(hint)
    assert result.stdout.startswith(plain.stdout.removesuffix(hint))
    found = tap.who_is_right(tap.diff(*saved))
    assert result.stdout.endswith(f"\n{found}\n")


def test_the_json_has_it_under_replayed(saved):
    document = json.loads(command("diff", *saved, "--replay", "--json").stdout)
    expected = json.loads(json.dumps(tap.who_is_right(tap.diff(*saved)).to_json()))
    assert document.pop("replayed") == expected
    assert expected[0]["wrong"] == "b"
    assert document == json.loads(command("diff", *saved, "--json").stdout)


def test_a_diff_without_replay_needs_no_python(saved):
    result = run("diff", *saved, PATH="/nonexistent")
    assert (result.returncode, result.stderr) == (1, "")
    assert "which side is wrong" in result.stdout


def test_the_exit_code_is_that_of_the_diff(saved):
    assert command("diff", *saved, "--replay", "--fail-on", "max_abs>1e9").returncode == 0
    same = command("diff", saved[0], saved[0], "--replay")
    assert same.returncode == 0
    assert "replay" not in same.stdout


def test_no_python_is_an_error_after_the_answer(saved):
    result = command("diff", *saved, "--replay", "--python", "/no/such/python")
    assert result.returncode == 2
    assert result.stdout.startswith("diverged: ")
    assert "cannot run '/no/such/python'" in result.stderr


def test_the_hint_is_given_only_where_a_replay_would_tell_something(tmp_path):
    for name, value in (("a", 1.0), ("b", 2.0)):
        torch.save({"x": torch.full((4,), value)}, tmp_path / f"{name}.pt")
    assert "--replay" not in command("diff", tmp_path / "a.pt", tmp_path / "b.pt").stdout
