"""bench/verdicts: faults and sound pairs are counted, for TensorTap and for other tools."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "verdicts"


def score(tmp_path, *options):
    """What it printed, and the outcomes by tool, level and pair."""
    made = tmp_path / "score.json"
    command = [sys.executable, BENCH / "score.py", "--processes", "1", "--json", made, *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    found = json.loads(made.read_text())
    of = {(each["tool"], each["level"], each["pair"]): each["outcome"] for each in found["outcomes"]}
    return done.stdout, of, found


def test_f16_in_training_without_loss_scaling_is_sound(tmp_path):
    printed, of, _ = score(
        tmp_path,
        *("--tools", "tensortap", "--architectures", "olmo2,qwen3-moe", "--dtypes", "f16", "--surfaces", "ops"),
        *("--levels", "full", "--only", "sound", "--pairs", "training: eager attention", "--show"),
    )
    assert " alarm " not in printed.partition("tool ")[0], printed
    assert of["tensortap", "full", "training: eager attention"] == "same"


def in_bench(program):
    """What a program that imports the modules of the bench printed."""
    return subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, check=True).stdout


def test_debugmode_and_tensortap_are_asked_about_the_same_faults(tmp_path):
    printed, of, found = score(
        tmp_path,
        *("--tools", "tensortap,debugmode", "--architectures", "llama", "--dtypes", "f32", "--surfaces", "ops"),
        *("--levels", "full,norm+hash,prefix", "--pairs", "factor 1.02,norm: eps,weight: two rows swapped,again"),
    )
    for pair in ("factor 1.02", "norm: eps", "weight: two rows swapped"):
        assert of["tensortap", "full", pair] == "exact"
    assert of["debugmode", "norm+hash", "norm: eps"] == "exact"
    assert of["debugmode", "norm+hash", "factor 1.02"] == "refused"  # B has an operator more
    assert of["debugmode", "prefix", "factor 1.02"] == "exact"
    assert of["debugmode", "prefix", "weight: two rows swapped"] != "exact"  # its hashes do not see the order
    assert {of[tool, level, "again"] for tool, level, _ in of} == {"same"}
    modules = {(each["pair"], each["module"]) for each in found["outcomes"] if each["module"]}
    assert len(modules) == 3
    rows = {(row["tool"], row["level"]): row for row in found["tables"]["faults"]}
    assert rows["debugmode", "norm+hash"]["refused"] == 1
    assert rows["tensortap", "full"]["exact %"] == 100
    assert re.search(r"^tensortap +f32 +ops +full +3 +3 ", printed, re.MULTILINE)


def test_a_sound_pair_that_is_called_different_is_an_alarm(tmp_path):
    _, of, found = score(
        tmp_path,
        *("--tools", "debugmode", "--architectures", "llama", "--dtypes", "f32", "--levels", "norm,prefix"),
        *("--only", "sound", "--pairs", "eager attention"),
    )
    assert of == {
        ("debugmode", "norm", "eager attention"): "refused",
        ("debugmode", "prefix", "eager attention"): "alarm",
    }
    assert [row["alarm"] for row in found["tables"]["sound"]] == [0, 1]


def test_training_and_a_larger_batch_are_sound_pairs(tmp_path):
    _, of, _ = score(
        tmp_path,
        *("--tools", "tensortap", "--architectures", "resnet", "--dtypes", "f32", "--levels", "full"),
        *("--only", "sound", "--pairs", "in a larger batch,training: again"),
    )
    assert of == {
        ("tensortap", "full", "in a larger batch"): "same",
        ("tensortap", "full", "training: again"): "same",
    }


def test_a_run_can_be_taken_back():
    program = """
import torch
from runs import Run
model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
run = Run(model, {"input": torch.randn(4, 3)}, training=True)
before = model.state_dict()["0.running_mean"].clone()
run()
print(model[0].weight.grad is None, torch.equal(model[0].running_mean, before))
run.reset()
print(model[0].weight.grad is None, torch.equal(model[0].running_mean, before))
"""
    assert in_bench(program) == "False False\nTrue True\n"


def test_inductor_is_a_sound_pair_of_its_own_kind(tmp_path):
    _, of, _ = score(
        tmp_path,
        *("--tools", "tensortap", "--architectures", "resnet", "--dtypes", "f32", "--only", "inductor"),
        *("--pairs", "inductor", "--levels", "fingerprint"),
    )
    assert of == {("tensortap", "fingerprint", "inductor"): "same"}


def test_weights_in_fp8_are_dequantized_when_they_are_used(tmp_path):
    _, of, _ = score(
        tmp_path,
        *("--tools", "tensortap", "--architectures", "gpt2", "--dtypes", "fp8", "--surfaces", "modules"),
        *("--levels", "full", "--pairs", "weight: reordered,factor 1.02,without oneDNN"),
    )
    assert of == {
        ("tensortap", "full", "weight: reordered"): "exact",
        ("tensortap", "full", "factor 1.02"): "exact",
        ("tensortap", "full", "without oneDNN"): "same",
    }
    program = """
import torch
from precision import cast
layer = torch.nn.Linear(64, 32)
right = layer.weight.detach().clone()
right[0] *= 1000
layer.weight.data.copy_(right)
cast(layer, "fp8")
print(layer.weight_fp8.dtype, layer.weight.dtype, list(layer.weight_scale.shape))
error = (layer.weight - right).norm(dim=1) / right.norm(dim=1)
print(bool((error > 0.005).all() and (error < 0.05).all()))
"""
    assert in_bench(program) == "torch.float8_e4m3fn torch.bfloat16 [32, 1]\nTrue\n"


def test_two_dtypes_are_also_compared_without_a_fault(tmp_path):
    _, of, found = score(
        tmp_path,
        *("--tools", "tensortap", "--architectures", "vit", "--dtypes", "f32/bf16", "--surfaces", "modules"),
        *("--levels", "full", "--pairs", "one NaN"),
    )
    assert of == {("tensortap", "full", "no fault"): "same", ("tensortap", "full", "one NaN"): "exact"}
    assert [row["dtype"] for row in found["tables"]["sound"]] == ["f32/bf16"]


def test_there_are_many_faults_and_architectures():
    program = (
        "from faults import FAULTS; from architectures import ARCHITECTURES; print(len(FAULTS), len(ARCHITECTURES))"
    )
    faults, architectures = map(int, in_bench(program).split())
    assert faults >= 30
    assert architectures >= 12


def test_a_fault_is_in_the_same_module_whichever_others_are_asked_for():
    program = """
from pairs import Task, faulty_pairs
from tools.interface import Answer, Tool
class Silent(Tool):
    def record(self, run, name): pass
    def compare(self, a, b): return Answer("same", "", "")
for names in (("one NaN",), ("factor 1.02", "one NaN")):
    outcomes = faulty_pairs(Task("llama", "f32", "", (), "faults", names, 0, "cpu"), [Silent("", "", None)])
    print(len(outcomes), outcomes[-1].pair, outcomes[-1].module)
"""
    one, two = in_bench(program).splitlines()
    assert one.startswith("1 one NaN model.")
    assert two == one.replace("1", "2", 1)


def test_what_full_misses_and_others_name_is_listed():
    program = """
from pairs import Outcome
from table import lost_by_full
def outcome(level, pair, outcome, tool="tensortap"):
    return Outcome("llama", "bf16", tool, "ops", level, 0, pair, "model.norm", outcome, "", "", f"said {level}", 0)
print(*lost_by_full([
    outcome("full", "kept", "exact"), outcome("fingerprint", "kept", "exact"),
    outcome("full", "better", "exact"), outcome("fingerprint", "better", "missed"),
    outcome("full", "lost", "missed"), outcome("fingerprint", "lost", "exact"), outcome("sketch", "lost", "exact"),
    outcome("norm", "lost", "missed", "debugmode"),
]), sep="\\n")
"""
    assert in_bench(program).splitlines() == [
        "missed   llama bf16 ops: lost in model.norm",
        "         full         said full",
        "         fingerprint  said fingerprint",
        "missed   llama bf16 ops: lost in model.norm",
        "         full         said full",
        "         sketch       said sketch",
    ]


def test_an_inconclusive_answer_that_is_right_is_counted_apart():
    program = """
from pairs import Outcome
from table import tables
def outcome(verdict):
    return Outcome("llama", "bf16", "tensortap", "ops", "full", 0, "pair", "model.norm", "exact", verdict, "", "", 0)
(row,) = tables([outcome("differs"), outcome("unsure"), outcome("differs")])["faults"]
print(row["exact"], row["exact, unsure"])
"""
    assert in_bench(program) == "3 1\n"


def test_the_tool_in_the_document_can_be_scored(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", (BENCH / "README.md").read_text(), re.DOTALL)
    (tmp_path / "all_close.py").write_text(program)
    tool = f"{tmp_path / 'all_close.py'}:AllClose"
    _, of, _ = score(
        tmp_path,
        *("--tools", tool, "--architectures", "llama", "--dtypes", "f32"),
        *("--pairs", "factor 1.02,one NaN,again,eager attention"),
    )
    assert {pair: outcome for (_, _, pair), outcome in of.items()} == {
        "factor 1.02": "exact",
        "one NaN": "exact",
        "again": "same",
        "eager attention": "same",
    }


def test_a_tool_that_cannot_be_run_is_said_so(tmp_path):
    few = ("--architectures", "llama", "--dtypes", "f32", "--only", "sound", "--pairs", "again", "--levels", "full")
    printed, of, found = score(tmp_path, *few)
    assert "msprobe: not run: no interpreter that has it (--msprobe PYTHON)" in printed
    assert {tool for tool, _, _ in of} == {"tensortap"}
    printed, _, found = score(tmp_path, *few, "--msprobe", "/nowhere/python")
    assert "msprobe: not run: [Errno 2] No such file or directory: '/nowhere/python'" in printed
    assert list(found["not_run"]) == ["msprobe"]


def test_msprobe_is_scored_in_its_own_interpreter(tmp_path):
    python = os.environ.get("TTAP_MSPROBE")
    if not python:
        pytest.skip("TTAP_MSPROBE names no interpreter that has mindstudio-probe")
    _, of, _ = score(
        tmp_path,
        *("--tools", "msprobe", "--msprobe", python, "--architectures", "llama", "--dtypes", "f32"),
        *("--surfaces", "modules", "--levels", "tensor", "--pairs", "norm: eps,one NaN,again"),
    )
    assert of == {
        ("msprobe", "tensor", "norm: eps"): "exact",
        ("msprobe", "tensor", "one NaN"): "exact",
        ("msprobe", "tensor", "again"): "same",
    }
