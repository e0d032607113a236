"""The programs of examples/python run as their first lines say, and print and record what they promise."""

import importlib.util
import os
import subprocess
import sys

import pytest
import tensortap as tap
import torch
from ttap_command import ROOT, TTAP, read_json

EXAMPLES = ROOT / "examples/python"
TESTED = {
    "confirm_cause", "embed_sentences", "find_compiler_bug", "graph_decode", "probe_block", "probe_consumer",
    "probe_gradients", "probe_tensorboard", "quantize_minilm", "record_graph", "record_serving",
    "record_tensor_parallel", "record_torchrun", "record_training", "record_transformers", "trace_compiled",
    "wrong_epsilon",
}  # fmt: skip


@pytest.fixture
def start(tmp_path):
    """Runs a command in an empty folder, as somebody without any of our variables; gives what it printed."""

    def run(*words, **variables):
        theirs = {k: v for k, v in os.environ.items() if not k.startswith("TTAP_") or k == "TTAP_LAUNCH_DIR"}
        environment = {**theirs, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), **variables}
        words = [str(word) for word in words]
        result = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


def test_no_example_is_left_out():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == TESTED


def test_transformers(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "record_transformers.py", "run")
    assert "2 passes; the first holds 73 tensors" in printed
    assert "encoder.layer.0.attention.self.query " in printed
    assert "computed again it is the same: True" in printed
    (rank,) = tap.open(tmp_path / "run").ranks
    lengths = [recorded["encoder.layer.5.output.LayerNorm"].shape[1] for recorded in rank.passes.values()]
    assert len(lengths) == 2 and lengths[0] != lengths[1]  # two sentences, each a pass
    assert "pooler.dense" in rank.passes[1]


def test_the_graft_of_the_cause_removes_the_error(start):
    printed = start(sys.executable, EXAMPLES / "confirm_cause.py", "runs").splitlines()
    assert printed == [
        "encoder.layer.3.output.LayerNorm: put in once: 100.0 % of the error is gone",
        "encoder.layer.2: put in once: 0.0 % of the error is gone",
    ]


@pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
def test_quantized_weights(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "quantize_minilm.py", "runs").splitlines()
    before, after = (float(printed[2].split()[column]) for column in (0, 1))
    assert printed[2].endswith("The pump broke down.") and 0.01 <= before - after <= 0.03
    assert printed[4].startswith("37 weights are quantized; the first is <Group nvfp4 of shape [384, 384]")
    assert [line.split()[2] for line in printed[6:9]] == ["20.4"] * 3
    quantized = tap.open(tmp_path / "runs/nvfp4")["pooler.dense@param/weight"]
    original = tap.open(tmp_path / "runs/fp32")["pooler.dense@param/weight"]
    assert quantized.statistics(original)["sqnr_db"] == pytest.approx(float(printed[6].split()[2]), abs=0.05)
    report, exit_code = read_json(
        "check", tmp_path / "runs/fp32", "--quant", "int8_tensor", "--filter", "dense@param/w"
    )
    assert (report["found"][0]["key"], exit_code) == ("encoder.layer.0.output.dense@param/weight", 1)


def test_trace_compiled(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "trace_compiled.py", "runs")
    assert "diverged: rotary:aten::cos (in B Model:aten::sin) introduced the error" in printed
    assert "code: return x * torch.cos(angle)" in printed
    assert "aten::sin" in start(TTAP, "log", "runs/compiled")


def test_graph(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "record_graph.py", "runs")
    assert "1.gate   %linear_3 = torch.nn.functional.linear(%0, %1, %2)" in printed
    assert "bit for bit what eager computes: True" in printed
    assert "the module's value is its node's: True" in printed
    assert "backward: " in printed
    (rank,) = tap.open(tmp_path / "runs/aot").ranks
    assert len(list(rank.path.glob("graph_*.py"))) == 2 and len(rank.passes) == 1


def test_serving(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "record_serving.py", "run")
    assert "step 1: the request [2, 8, 8] does not end in 1" in printed
    assert "pass 1: aborted, tensors: 4, threads: 1" in printed
    (rank,) = tap.open(tmp_path / "run").ranks
    assert [recorded.ending for recorded in rank.passes.values()] == ["complete", "aborted", "complete"]
    for number, tokens in enumerate((4, 3, 3)):
        assert rank.passes[number]["encoder.encoder.layer.1.output.dense"].shape == (1, tokens, 32)
    assert [key for key in rank.passes[0] if key.startswith("head.")] == ["head.0", "head.1", "head.2"]
    assert not any(key.startswith("head.") for key in rank.passes[1])
    assert torch.equal(rank.passes[2]["head.1"], rank.passes[2]["head.0"].tanh())


def test_training(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "record_training.py")  # into a fresh temporary folder
    assert printed.count("they do not vanish") == 2
    (folder,) = tmp_path.glob("ttap-*")
    (rank,) = tap.open(folder).ranks
    assert list(rank.passes) == [0, 5]
    assert not rank.coverage["source"]["outside_steps"]
    assert not rank.coverage["source"]["late_gradients"]
    for recorded in rank.passes.values():
        levels = {record.name: record.level for record in recorded.records}
        assert {name for name, level in levels.items() if level == "full"} == {
            f"model.layers.3.mlp.{part}" for part in ("gate_proj", "up_proj", "act_fn", "down_proj")
        }
        assert {record.role for record in recorded.records} == {"out", "grad_out", "grad_in"}
        down = recorded["model.layers.3.mlp.down_proj@grad_in/0"]
        product = recorded["model.layers.3.mlp.act_fn"] * recorded["model.layers.3.mlp.up_proj"]
        assert down.shape == product.shape
        # The gradient of a factor is that of the product times the other factor.
        assert torch.equal(
            recorded["model.layers.3.mlp.act_fn@grad_out"], down * recorded["model.layers.3.mlp.up_proj"]
        )


def test_a_program_that_does_not_know_of_it(start, tmp_path):
    printed = start(TTAP, "run", "-o", "run", "--", sys.executable, EXAMPLES / "embed_sentences.py")
    assert printed == start(sys.executable, EXAMPLES / "embed_sentences.py")
    assert printed.splitlines()[0] == " 1.00  The pump has failed."
    (rank,) = tap.open(tmp_path / "run").ranks
    assert list(rank.passes) == [0] and len(rank.passes[0]) == 73


def test_a_mistake_that_nobody_sees_is_named(start, tmp_path):
    recorded = "--roles", "in,out", "--modules", "all", "--", sys.executable, EXAMPLES / "wrong_epsilon.py"
    right = start(TTAP, "run", "-o", "right", *recorded)
    assert right == start(TTAP, "run", "-o", "wrong", *recorded, "--wrong")
    report, exit_code = read_json("diff", tmp_path / "right", tmp_path / "wrong")
    tensors = [report["passes"][place["pass"]]["tensors"][place["tensor"]] for place in report["introduced"]]
    assert ([tensor["key"] for tensor in tensors], exit_code) == (["encoder.layer.3.output.LayerNorm"], 1)


def test_torchrun(start, tmp_path):
    printed = start(
        TTAP, "run", "-o", "run", "--steps", "0-1", "--roles", "out,grad_out", "--",
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        EXAMPLES / "record_torchrun.py",
    )  # fmt: skip
    assert [line[:12] for line in printed.splitlines()] == ["step 0: loss", "step 1: loss", "step 2: loss"]
    ranks = tap.open(tmp_path / "run").ranks
    assert [rank.number for rank in ranks] == [0, 1]
    names = ["up", "act", "down"]
    for rank in ranks:
        assert list(rank.passes) == [0, 1]
        assert rank.metadata["program"]["world"] == {"size": 2, "backend": "gloo"}
        for recorded in rank.passes.values():
            assert list(recorded) == [*names, *(f"{name}@grad_out" for name in reversed(names))]
    first, second = (rank.passes[0]["up"] for rank in ranks)
    assert first.shape == second.shape and not torch.equal(first, second)  # each has its own data


def test_a_compilers_mistake(start):
    printed = start(sys.executable, EXAMPLES / "find_compiler_bug.py", "run").splitlines()
    assert printed[0] == "81 nodes, of which these show it: gelu"
    assert printed[1].endswith("_mismatch.py exits with 1:")
    assert printed[2].startswith("largest difference: 0.018")


WHERE = "inside a CUDA graph" if torch.cuda.is_available() else "no GPU: on the CPU"


def test_probes_in_a_block(start):
    printed = start(sys.executable, EXAMPLES / "probe_block.py").splitlines()
    assert printed[0].startswith(WHERE)
    assert [line.partition(", largest")[0] for line in printed[1:4]] == [
        f"replay {i}: hidden [2, 5, 32]" for i in range(3)
    ]
    assert printed[1].partition(":")[2] == printed[2].partition(":")[2] != printed[3].partition(":")[2]
    assert printed[4] == "replay 2 is the first that differs: 320 of 320 elements"
    assert start(sys.executable, EXAMPLES / "probe_block.py", "--off").splitlines()[1:] == ["nothing was compared"]


def test_probes_of_gradients(start):
    printed = start(sys.executable, EXAMPLES / "probe_gradients.py").splitlines()
    assert printed[0].startswith(WHERE)
    assert [line.split()[0] for line in printed[1:5]] == ["hidden", "hidden.grad", "weight.grad", "weight.grad.final"]
    for line in printed[1:5]:
        first, second, third = (float(number) for number in line.partition("norms ")[2].split(","))
        assert first == second < third
    assert printed[5] == "what the backward made is what .grad holds: True"


def test_a_consumer_of_what_a_probe_records(start):
    printed = start(sys.executable, EXAMPLES / "probe_consumer.py").splitlines()
    assert printed[0].startswith(WHERE)
    assert printed[1] == "replay  0: similarity to the first 1.000"
    assert [line.partition(":")[0] for line in printed[2:5]] == ["replay  4", "replay  8", "replay 12"]
    assert printed[5] == "16 snapshots, 0 overwritten"


def test_summaries_for_tensorboard(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "probe_tensorboard.py", "runs").splitlines()
    assert printed[0].startswith(WHERE)
    assert printed[-1].startswith("6 snapshots exported")
    if printed[1].startswith("tensorboard is not installed"):
        assert sum(line.startswith("hidden/mean step") for line in printed) == 3
    else:
        assert list((tmp_path / "runs").glob("events.out.tfevents.*"))


def test_a_decode_loop_under_graphs(start, tmp_path):
    printed = start(sys.executable, EXAMPLES / "graph_decode.py", "runs").splitlines()
    (eager,) = tap.open(tmp_path / "runs/eager").ranks
    assert len(eager.passes) == 8
    assert printed[0].startswith("eager on ")
    if not torch.cuda.is_available():
        assert printed[1:] == ["no GPU: no graph was captured"]
        return
    assert printed[1].startswith("replayed: " + printed[0].partition(": ")[2])
    (graph,) = tap.open(tmp_path / "runs/graph").ranks
    assert len(graph.passes) == 2 + 8
    assert printed[2].startswith("the first step, eager against replayed: ")
