"""Operators that are farther from the exact result than rounding explains, told without a second run."""

import json
import os
import subprocess
import sys
import warnings

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import ROOT, TTAP, run

sys.path.insert(0, str(ROOT / "bench/verdicts"))
sys.path.insert(0, str(ROOT / "bench/blame"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from architectures import architecture
    from wrong_kernels import FAULTS, planted


class Model(nn.Module):
    """Every kind of operator that the faults below need."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 32)

    def forward(self, x):
        y = nn.functional.gelu(self.norm(self.up(x)))
        weights = torch.softmax(y @ y.transpose(-1, -2), -1)
        heads = y.unflatten(-1, (4, 16)).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return self.down(weights @ y + attended.transpose(1, 2).flatten(2)) * x + x


def trained(dtype, fault=None, at=None):
    torch.manual_seed(3)
    model, x = Model().to(dtype), torch.randn(4, 24, 32).to(dtype)
    with planted(fault, at) as seen, tap.trace(model, level="full", stacks=True) as trace:
        model(x).float().square().mean().backward()
    return trace, seen


OPERATORS = ("mm", "bmm", "addmm", "native_layer_norm", "_softmax", "gelu", "mul.Tensor", "add.Tensor",
             "_scaled_dot_product_flash_attention_for_cpu", "sum.dim_IntList", "gelu_backward",
             "native_layer_norm_backward", "_softmax_backward_data")  # fmt: skip
PLANTED = [
    (fault, dtype)
    for fault in FAULTS
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16))
    if fault.op in OPERATORS and name in fault.dtypes
]


@pytest.mark.parametrize(
    ("fault", "dtype"), PLANTED, ids=[f"{fault.name}-{dtype}".replace("torch.", "") for fault, dtype in PLANTED]
)
def test_a_wrong_kernel_is_ranked_first(fault, dtype):
    trace, seen = trained(dtype, fault, 0)
    if not seen.changed:
        pytest.skip("on these values the mistake is none")
    blamed = tap.blame(trace)
    assert not blamed.ok
    assert blamed.first.op == fault.recorded
    assert blamed.first.event == next(i for i, e in enumerate(trace.events) if e.name.endswith(fault.recorded))
    assert {one.event for one in blamed.findings} == {blamed.first.event}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_sound_model_has_nothing_above_the_line(dtype):
    trace, _ = trained(dtype)
    blamed = tap.blame(trace)
    assert [(one.place, one.error) for one in blamed.findings] == []
    assert blamed.judged > 30
    assert blamed.nothing_to_judge["views"] > 10
    assert blamed.refused == []


@pytest.mark.parametrize("name", ["llama", "deberta-v2", "convnext", "t5"])
@pytest.mark.parametrize("threads", [1, 2])
def test_sound_architectures_are_not_blamed(name, threads):
    of = architecture(name)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model, inputs = of.model(7, "bf16"), of.sample(8, "bf16")
        with tap.trace(model, level="full") as trace:
            made = model(**inputs)
            (made.logits if hasattr(made, "logits") else made[0]).float().square().mean().backward()
        blamed = tap.blame(trace)
    finally:
        torch.set_num_threads(before)
    assert [(one.place, one.error.bounds) for one in blamed.findings] == []
    assert blamed.judged > 100


def blame_of(work, **options):
    with tap.trace(level="full", stacks=True) as trace:
        work()
    return tap.blame(trace, **options), trace


def test_a_value_beside_the_mean_is_granted_the_rounding_of_the_mean():
    """Of many values some lie at the mean: what is left of them is as exact as the mean is, and no more."""
    torch.manual_seed(5)
    x = torch.randn(8, 64, 384)
    blamed, _ = blame_of(lambda: nn.functional.layer_norm(x, [384], eps=1e-12))
    assert blamed.ok, blamed.first.error
    assert blamed.judged == 1


def test_overflow_of_a_dtype_is_told_and_that_of_a_mask_is_not():
    x = torch.full((4, 4), 300.0, dtype=torch.float16)
    blamed, _ = blame_of(lambda: x @ x)
    assert (blamed.first.op, blamed.first.error.kind) == ("aten::mm", "overflow")
    mask = torch.full((4,), torch.finfo(torch.float16).min, dtype=torch.float16)
    assert blame_of(lambda: mask - 1000)[0].ok
    assert blame_of(lambda: torch.tensor([0.0, 1.0]).log())[0].ok  # -Inf is the exact result


def test_cancellation_is_said_and_is_no_finding():
    a = torch.cat([torch.full((2, 64), 1000.0), torch.full((2, 64), -1000.0)], 1) + torch.randn(2, 128) * 1e-3
    blamed, _ = blame_of(lambda: a @ torch.ones(128, 2))
    assert blamed.ok
    assert [one.op for one in blamed.cancelling] == ["aten::mm"]
    assert blamed.cancelling[0].error.cancellation > 1000
    assert "no mistake" in str(blamed)


def test_the_answer_has_module_line_and_arguments():
    trace, _ = trained(torch.float32, next(fault for fault in FAULTS if fault.name == "other epsilon"), 0)
    first = tap.blame(trace).first
    assert (first.module, first.backward, first.rank, first.pass_number) == ("norm", False, 0, 0)
    assert first.call == "f32[4, 24, 64], [64], f32[64], f32[64], 1e-05"
    assert "in Model.forward" in first.line
    assert "self.norm(self.up(x))" in first.line
    assert first.key.startswith("norm:aten::native_layer_norm/")
    assert -0.1 < first.error.factor < -1e-5  # a larger epsilon makes it smaller
    text = str(tap.blame(trace))
    assert text.startswith("blamed: norm: aten::native_layer_norm is ")
    assert "test_blame.py:" in text


def test_what_is_not_replayed_is_counted_by_reason():
    blamed, _ = blame_of(lambda: (torch.rand(3), torch.rand(3), torch.arange(3), torch.ones(3).double() * 2))
    assert blamed.reasons["it draws random numbers, which are others in float64"] == 2
    assert blamed.nothing_to_judge["integer results"] == 1
    assert blamed.nothing_to_judge["in float64"] >= 1
    assert "aten::rand, event 0" not in str(blamed)
    blamed.show_all = True
    assert "aten::rand, event 0" in str(blamed)


def test_a_rule_that_fails_costs_one_call(monkeypatch):
    def failing(*_):
        raise IndexError("no such axis")

    monkeypatch.setattr("tensortap.replaying.blame.judged.terms_of", failing)
    blamed, _ = blame_of(lambda: torch.randn(3).exp())
    assert blamed.judged == 0
    assert "its rounding bound is not known: no such axis" in blamed.reasons


def test_softmax_that_overflows_in_f16_is_not_an_overflow_of_the_exact_result():
    trace, seen = trained(torch.float16, next(f for f in FAULTS if f.name == "softmax without maximum"), 0)
    assert seen.changed
    first = tap.blame(trace).first
    assert (first.op, first.error.kind) == ("aten::_softmax", "nonfinite")


def test_an_epsilon_that_the_module_contradicts_is_pointed_out(tmp_path):
    class Own(nn.LayerNorm):
        def forward(self, x):
            return nn.functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, 1e-3)

    model = nn.Sequential(nn.LayerNorm(8), Own(8))
    with tap.record(model, tmp_path / "run", ops=True, level="full", report=False):
        model(torch.randn(2, 8))
    blamed = tap.blame(tmp_path / "run")
    assert [(one.module, one.setting) for one in blamed.findings] == [
        ("1", "its eps is 0.001, and that of its module 1e-05")
    ]
    assert blamed.first.error.kind == "rounding"


def test_a_number_that_is_added_is_an_epsilon_before_a_root_alone(tmp_path):
    class Norm(nn.Module):
        def __init__(self, added):
            super().__init__()
            self.eps, self.added = 1e-5, added

        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.added) + 0.001

    model = nn.Sequential(Norm(1e-5), Norm(1e-3))
    with tap.record(model, tmp_path / "run", ops=True, level="full", report=False):
        model(torch.randn(2, 8))
    (found,) = tap.blame(tmp_path / "run").findings
    assert (found.module, found.error.shape) == ("1", (2, 1))


def test_passes_are_chosen_and_top_bounds_the_list(tmp_path):
    model = nn.Linear(4, 4)
    with tap.record(model, tmp_path / "run", ops=True, level="full", report=False):
        for _ in range(3):
            model(torch.randn(2, 4))
    every = tap.blame(tmp_path / "run", top=2)
    assert (every.judged, len(every.calls)) == (3, 2)
    assert {one.pass_number for one in tap.blame(tmp_path / "run", passes="1-2").calls} == {1, 2}
    seen = []
    tap.blame(tmp_path / "run", passes=0, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    with pytest.raises(ValueError, match="no such pass"):
        tap.blame(tmp_path / "run", passes=7)


def test_a_run_without_operators_says_what_to_record(tmp_path):
    model = nn.Linear(4, 4)
    with tap.record(model, tmp_path / "run", report=False):
        model(torch.randn(2, 4))
    with pytest.raises(ValueError, match="--ops --level full"):
        tap.blame(tmp_path / "run")


# ---- the command ----


def command(*words):
    return run(*words, PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


@pytest.fixture(scope="module")
def wrong_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blamed") / "run"
    trained(torch.float32, next(fault for fault in FAULTS if fault.name == "mm too large"), 0)[0].save(folder)
    return folder


def test_the_command_says_what_the_call_says(wrong_run):
    result = command("blame", wrong_run)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout == f"{tap.blame(wrong_run)}\n"
    document = json.loads(command("blame", wrong_run, "--json", "--top", "3").stdout)
    assert document == json.loads(json.dumps(tap.blame(wrong_run, top=3).to_json()))
    assert (document["command"], document["ok"], len(document["calls"])) == ("blame", False, 3)
    assert document["findings"][0]["op"] == "aten::mm"


def test_replay_tells_of_one_call(wrong_run):
    key = tap.blame(wrong_run).first.key
    result = command("replay", wrong_run, key)
    assert result.returncode == 1
    assert "other bits than recorded" in result.stdout
    assert "more than rounding explains" in result.stdout
    sound = json.loads(command("replay", wrong_run, "norm:aten::native_layer_norm/0", "--json").stdout)
    assert (sound["ok"], sound["same_bits"]) == (True, {"/0": True, "/1": True, "/2": True})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("blame", "{run}", "--pass", "7"), "no such pass"),
        (("blame", "/no/such/place"), "/no/such/place"),
        (("replay", "{run}", "aten::nothing"), "aten::nothing"),
        (("replay", "{run}", "norm:aten::native_layernorm/0"), "did you mean norm:aten::native_layer_norm/0"),
        (("blame", "{run}", "--python", "/no/such/python"), "cannot run '/no/such/python'"),
    ],
)
def test_an_error_says_what_and_what_to_do(wrong_run, words, says):
    result = command(*(word.format(run=wrong_run) for word in words))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"ttap {words[0]}: error: ")
    assert says in result.stderr
    assert "\n  what to do: " in result.stderr
    assert "Traceback" not in result.stderr


def test_the_interpreter_without_the_package_is_an_error(wrong_run, tmp_path):
    stub = tmp_path / "python"
    stub.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    stub.chmod(0o755)
    result = command("blame", wrong_run, "--python", stub)
    assert result.returncode == 2
    assert "cannot import" in result.stderr


def test_an_interpreter_that_leaves_out_the_folder_of_a_script_will_do(wrong_run):
    result = subprocess.run(
        [TTAP, "blame", wrong_run, "--python", sys.executable],
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (1, "")


def test_output_that_is_cut_short_is_no_error(wrong_run):
    words = f"{TTAP} blame {wrong_run} --python {sys.executable} | head -1"
    result = subprocess.run(["sh", "-c", words], capture_output=True, text=True)
    assert result.stdout.startswith("blamed: ")
    assert result.stderr == ""


def test_memory_that_nothing_was_written_to_is_not_said_to_be_missing():
    blamed, _ = blame_of(lambda: torch.empty(3).fill_(2) * 2)
    assert blamed.nothing_to_judge["of memory that nothing was written to"] == 1
    assert blamed.refused == []
