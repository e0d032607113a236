"""One rank's recording against that of two: shards are put together, and a fault in one of them names its rank."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensortap as tap
from tensor_parallel import FAULTS, FAULTY_RANK
from ttap_command import ROOT, read_json

EXAMPLE = ROOT / "examples/python/record_tensor_parallel.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
RULES = r"""
'attention\.[qkv]$': concat -1
'attention\.out@in': concat -1
'mlp\.(up|act)$': concat -1
'mlp\.(act|down)@in': concat -1
'mlp\.down$': sum
'.*': replicated
"""


def start(*words):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TTAP_")}
    environment["OMP_NUM_THREADS"] = "1"
    result = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A folder with the recording of one rank, `one`, those of two ranks, and the rule file."""
    folder = tmp_path_factory.mktemp("shards")
    start(sys.executable, EXAMPLE, folder / "one")
    start(*TORCHRUN, Path(__file__).with_name("tensor_parallel.py"), folder)
    (folder / "rules.yaml").write_text(RULES)
    return folder


def options_of(style, folder):
    return ["--shards", folder / "rules.yaml"] if style == "hand" else []


def tensors_of(report):
    (compared,) = report["passes"]
    return {tensor["key"]: tensor for tensor in compared["tensors"]}


@pytest.mark.parametrize("style", ["hand", "dtensor"])
def test_two_ranks_agree_with_one(recordings, style):
    report, code = read_json("diff", recordings / "one", recordings / style, *options_of(style, recordings))
    tensors = tensors_of(report)
    assert code == 0, report["sentence"]
    assert {tensor["verdict"] for tensor in tensors.values()} <= {"identical", "within tolerance"}
    (reference,) = tap.open(recordings / "one").ranks
    assert list(tensors) == list(reference.passes[0])
    assert {tensor["matched"] for tensor in tensors.values()} == {"key"}
    assert report["passes"][0]["b"] == "ranks 0-1, pass 0"
    assert tensors["mlp.up"]["shape"] == [2, 8, 128]


@pytest.mark.parametrize("style", ["hand", "dtensor"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_rank_is_found_and_the_rank_named(recordings, style, fault):
    report, code = read_json(
        "diff", recordings / "one", recordings / f"{style}-{fault}", *options_of(style, recordings)
    )
    assert code == 1
    first = report["passes"][report["first"]["pass"]]["tensors"][report["first"]["tensor"]]
    assert first["key"] == fault
    assert first["verdict"] == "diverged"
    assert first["cause"] == "introduced"
    assert first["ranks"] == [FAULTY_RANK]


def test_by_hand_every_rule_is_used_and_said(recordings):
    report, _ = read_json("diff", recordings / "one", recordings / "hand", *options_of("hand", recordings))
    tensors = tensors_of(report)
    assert "concat -1 (--shards)" in tensors["attention.q"]["note"]
    assert "sum (--shards)" in tensors["mlp.down"]["note"]
    assert tensors["norm1"]["note"] == ""
    assert tensors["attention.out"]["note"] == ""  # the sum was made inside of it
    assert not report["warnings"]


def test_without_rules_the_shape_is_a_guess_that_is_said(recordings):
    report, _ = read_json("diff", recordings / "one", recordings / "hand")
    tensors = tensors_of(report)
    assert "concat 2 (guessed from the shape)" in tensors["attention.q"]["note"]
    assert tensors["attention.q"]["verdict"] in {"identical", "within tolerance"}
    # Partial sums have the shape of the whole: nothing but a rule tells them from copies.
    assert tensors["mlp.down"]["verdict"] == "diverged"
    assert "if they are partial sums, say `sum`" in tensors["mlp.down"]["note"]


def test_placements_are_recorded_and_used(recordings):
    for number, rank in enumerate(tap.open(recordings / "dtensor").ranks):
        spread = rank.placements["mlp.up/_local_tensor"]
        assert spread == {
            "mesh_shape": [2],
            "mesh_dim_names": ["tp"],
            "coordinate": [number],
            "placements": ["Shard(2)"],
            "global_shape": [2, 8, 128],
        }
        assert rank.placements["attention.q@in/0/_local_tensor"]["placements"] == ["Replicate()"]
        assert not list(rank.path.glob("*.partial"))
        assert "attention.out" in rank.passes[0]  # what a collective gave, not a wrapper around it
    report, _ = read_json("diff", recordings / "one", recordings / "dtensor")
    tensors = tensors_of(report)
    assert "concat 2 (placements)" in tensors["mlp.up"]["note"]
    assert "concat 2 (guessed from the shape)" in tensors["attention.q"]["note"]  # a local tensor has no placement


def test_a_recording_without_dtensors_has_no_placements(recordings):
    for name in ("one", "hand"):
        for rank in tap.open(recordings / name).ranks:
            assert not (rank.path / "placements.json").exists()
            assert rank.placements == {}


@pytest.mark.parametrize("style", ["hand", "dtensor"])
def test_of_fingerprints_replicas_agree_and_shards_cannot_be_told(recordings, style):
    options = options_of(style, recordings)
    report, code = read_json("diff", recordings / "one", recordings / f"{style}-fingerprint", *options)
    tensors = tensors_of(report)
    assert code == 0
    assert report["verdict"] == "within tolerance"
    assert tensors["norm1"]["verdict"] == "identical"
    assert tensors["mlp.up"]["verdict"] == "inconclusive"
    assert "without bytes" in tensors["mlp.up"]["note"]


def test_broken_placements_are_not_believed(recordings, tmp_path):
    run = tmp_path / "run"
    subprocess.run(["cp", "-r", recordings / "dtensor", run], check=True)
    for rank in tap.open(run).ranks:
        (rank.path / "placements.json").write_text(json.dumps({"mlp.up/_local_tensor": {"mesh_shape": "two"}}))
    report, code = read_json("diff", recordings / "one", run)
    assert code == 0
    assert "guessed" in tensors_of(report)["mlp.up"]["note"]


def test_the_example(recordings, tmp_path):
    start(*TORCHRUN, EXAMPLE, tmp_path / "two")
    report, code = read_json("diff", recordings / "one", tmp_path / "two")
    assert code == 0, report["sentence"]
