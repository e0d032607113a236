"""`ttap diff` and tap.diff(): what is compared with what, what is said of it, and how it ends."""

import copy
import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import tensortap as tap
import torch
from small_models import Block, Model
from torch import nn
from ttap_command import TTAP, read_json, run

WHOLE = {"roles": ["in", "out"], "modules": "all", "report": False}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture(scope="module")
def inputs():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


def record(folder, model, *batches, **options):
    with torch.no_grad(), tap.record(model, folder, **(WHOLE | options)):
        for batch in batches:
            model(batch)
    return folder


@pytest.fixture
def pair(model, inputs, tmp_path):
    """A reference, and the same with a mistake in one layer."""
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.blocks[1].up.weight[3] *= 1.5
    return record(tmp_path / "a", model, inputs), record(tmp_path / "b", wrong, inputs)


def tensors_of(report):
    return {tensor["key"]: tensor for each in report["passes"] for tensor in each["tensors"]}


def test_the_operator_is_named_and_the_exit_code_says_that_they_differ(pair):
    result = run("diff", *pair)
    assert result.returncode == 1 and result.stderr == ""
    assert result.stdout.startswith("diverged: blocks.1.up introduced the error\n  its input agrees bit for bit\n")
    assert "  blocks.1.up    diverged  introduced" in result.stdout
    found = tap.diff(*pair)
    assert not found.same and found.first.key == "blocks.1.up" and found.first.cause == "introduced"
    assert str(found) == result.stdout
    assert [tensor.key for tensor in found.introduced] == ["blocks.1.up"]
    assert found["blocks.1"].cause == "inherited" and found["blocks.0"].verdict == "identical"


def test_the_same_run_is_identical(pair):
    result = run("diff", pair[0], pair[0])
    assert result.returncode == 0 and result.stdout.startswith("identical: ")
    assert tap.diff(pair[0], pair[0]).same


def test_json_is_whole_and_names_the_place(pair):
    report, code = read_json("diff", *pair)
    first = report["first"]
    assert code == 1 and report["passes"][first["pass"]]["tensors"][first["tensor"]]["key"] == "blocks.1.up"
    assert "torch" in json.dumps(report["a"]["metadata"]) and report["a"]["coverage"]["tensors"] > 0
    assert sum(report["counts"].values()) == len(tensors_of(report))
    assert tensors_of(report)["blocks.1.up"]["measures"]["worst"]["index"][1] == 3
    (axis,) = [axis for axis in tensors_of(report)["blocks.1.up"]["axes"] if axis["axis"] == 1]
    assert axis["first"] == 3 and axis["share"] == pytest.approx(1)


def test_runs_ranks_passes_and_objects(pair):
    rank_a, rank_b = (tap.open(path).ranks[0] for path in pair)
    for a, b in [(rank_a.path, rank_b.path), (rank_a, rank_b), (rank_a.passes[0].path, rank_b.passes[0].path)]:
        assert tap.diff(a, b).first.key == "blocks.1.up"


@pytest.mark.parametrize("form", ["pt", "safetensors", "npy"])
def test_other_formats_give_the_same_answer(pair, form, tmp_path):
    for path in pair:
        assert run("export", path, "--format", form, "-o", tmp_path / form / path.name).returncode == 0
    found = tap.diff(tmp_path / form / "a", tmp_path / form / "b")
    # Names tell what is inside what; what went in and came out is among the keys.
    assert found.first.key == "blocks.1.up" and found.first.cause == "introduced"
    mixed = tap.diff(pair[0], tmp_path / form / "a")
    assert mixed.same


def test_files_that_tensortap_did_not_write(tmp_path):
    a = {"layer": {"weight": torch.randn(4, 4), "bias": torch.zeros(4)}, "step": torch.tensor(3)}
    b = copy.deepcopy(a)
    b["layer"]["bias"][2] = 1
    torch.save(a, tmp_path / "a.pt"), torch.save(b, tmp_path / "b.pt")
    found = tap.diff(tmp_path / "a.pt", tmp_path / "b.pt")
    assert found.counts["identical"] == 2 and found.first.verdict == "diverged" and found.first.worst["index"] == [2]
    # A file does not say what ran when: nobody is blamed for what stands first in it.
    assert found.first.cause == "unknown" and found.introduced == []


def test_tensors_in_memory():
    a = {"x": torch.arange(6.0), "y": np.ones(3)}
    assert tap.diff(a, a).same
    assert tap.diff(a, {"x": torch.arange(6.0) + 1, "y": np.ones(3)}).first.key == "x"
    with pytest.raises(TypeError, match=r"cannot compare 'x', a object: give tensors"):
        tap.diff({"x": object()}, a)
    with pytest.raises(TypeError, match="a mapping of tensors"):
        tap.diff([1], a)


def test_passes_are_compared_by_number_unless_told_otherwise(model, inputs, tmp_path):
    a = record(tmp_path / "a", model, inputs, inputs + 1, inputs + 2)
    b = record(tmp_path / "b", model, inputs + 2)
    assert not tap.diff(a, b).same
    assert tap.diff(a, b, passes="2:0").same
    result = run("diff", a, b, "--pass", "2:0")
    assert result.returncode == 0 and "1 pass compared" in result.stdout
    result = run("diff", a, b, "--pass", "2:0,7")
    assert result.returncode == 2 and "--pass: A has no 7" in result.stderr
    assert "not a list of numbers or pairs" in run("diff", a, b, "--pass", "2:x").stderr


def test_a_pass_that_only_one_run_has_is_said_and_can_fail(model, inputs, tmp_path):
    a, b = record(tmp_path / "a", model, inputs, inputs), record(tmp_path / "b", model, inputs)
    result = run("diff", a, b)
    assert result.returncode == 0 and "1 pass is only in A" in result.stdout
    assert run("diff", a, b, "--fail-on", "missing").returncode == 1
    assert run("diff", b, a, "--fail-on", "extra").returncode == 1
    assert run("diff", b, a, "--fail-on", "missing").returncode == 0


def test_layers_that_one_run_lacks_do_not_stop_it(model, inputs, tmp_path):
    class Longer(Model):
        def __init__(self):
            super().__init__()
            self.blocks.append(Block())

    torch.manual_seed(0)
    longer = Longer()
    longer.load_state_dict(model.state_dict(), strict=False)
    a, b = record(tmp_path / "a", model, inputs, roles=["out"]), record(tmp_path / "b", longer, inputs, roles=["out"])
    found = tap.diff(a, b, structure=False)
    assert found["blocks.1"].verdict == "identical" and found["blocks.2.up"].verdict == "extra"
    assert found["head"].verdict == "diverged"
    assert "only in B: " in str(found)


def test_a_filter_that_matches_nothing_says_so(pair):
    result = run("diff", *pair, "--filter", "nosuch")
    assert result.returncode == 2 and "no key of either run matches --filter 'nosuch'" in result.stderr
    assert run("diff", *pair, "--filter", "blocks.0").returncode == 0


def test_a_filter_may_be_a_function_of_the_key(pair):
    asked = []
    found = tap.diff(*pair, filter=lambda key: asked.append(key) or key.startswith("blocks.0"))
    assert found.same and {tensor.key for tensor in found.tensors} == {k for k in asked if k.startswith("blocks.0")}
    assert len(asked) > len(found.tensors) > 0
    with pytest.raises(FileNotFoundError, match="the filter selects no key"):
        tap.diff(*pair, filter=lambda key: False)
    with pytest.raises(ZeroDivisionError):
        tap.diff(*pair, filter=lambda key: 1 / 0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-on", "diverged"], 1),
        (["--fail-on", "introduced"], 1),
        (["--fail-on", "missing"], 0),
        (["--fail-on", "max_abs>1e9"], 0),
        (["--fail-on", "max_abs>1e9", "--fail-on", "cos<2"], 1),
        (["--rtol", "10", "--atol", "10"], 0),
        (["--tol", ".*=cos>=-2"], 0),
        (["--tol", "blocks.0=0,0"], 1),
    ],
)
def test_what_fails_is_chosen(pair, options, code):
    assert run("diff", *pair, *options).returncode == code


def test_a_predicate_to_fail_on_does_not_overlook_what_cannot_be_measured():
    one, nan = {"x": torch.ones(3)}, {"x": torch.full((3,), torch.nan)}
    assert tap.diff(one, nan).fails_on("max_abs>1e-3")
    assert tap.diff(one, {"x": torch.ones(4)}).fails_on("max_abs>1e-3")
    assert not tap.diff(one, {"x": torch.ones(3) + 1e-5}).fails_on("max_abs>1e-3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fail-on", "worse"], "diverged, inconclusive"),
        (["--tol", "nonsense"], "write REGEX=RTOL,ATOL"),
        (["--tol", "x=cso>1"], "cso"),
        (["--rtol", "-1"], "finite number from 0"),
        (["--map", "/nonexistent.yaml"], "/nonexistent.yaml"),
        (["--noise", "/nonexistent"], "/nonexistent"),
        (["--filter", "("], "bad pattern"),
    ],
)
def test_errors_say_what_to_do(pair, options, message):
    result = run("diff", *pair, *options)
    assert result.returncode == 2 and message in result.stderr and result.stdout == ""


def test_the_answer_comes_before_a_file_that_cannot_be_written(pair):
    for option in ("--html", "--csv"):
        result = run("diff", *pair, option, "/nonexistent/file")
        assert result.returncode == 2 and "blocks.1.up introduced the error" in result.stdout
        assert "/nonexistent/file" in result.stderr and "folder that exists" in result.stderr


def test_no_cell_of_a_csv_is_a_formula_or_a_control_character(tmp_path):
    tensors = {"=cmd|' /C calc'!A0": torch.ones(2), "line\nbreak\x1b[2J": torch.ones(2), "@sum": torch.ones(2)}
    tap.diff(tensors, tensors).to_csv(tmp_path / "diff.csv")
    keys = [line["key"] for line in csv.DictReader((tmp_path / "diff.csv").open())]
    assert keys == ["'=cmd|' /C calc'!A0", "line%0Abreak%1B[2J", "%40sum"]


def test_csv_has_a_line_per_tensor(pair, tmp_path):
    run("diff", *pair, "--csv", tmp_path / "diff.csv")
    lines = list(csv.DictReader((tmp_path / "diff.csv").open()))
    assert len(lines) == len(tensors_of(read_json("diff", *pair)[0]))
    (line,) = [line for line in lines if line["key"] == "blocks.1.up"]
    assert line["cause"] == "introduced" and float(line["max_abs"]) == tap.diff(*pair).first.max_abs


def test_a_map_renames_and_moves_calls(tmp_path, inputs):
    class Twice(nn.Module):
        def __init__(self, extra):
            super().__init__()
            self.layer, self.extra = nn.Linear(4, 4), extra

        def forward(self, x):
            if self.extra:
                self.layer(x * 0)
            return self.layer(self.layer(x))

    torch.manual_seed(0)
    once = Twice(False)
    more = copy.deepcopy(once)
    more.extra = True
    a, b = record(tmp_path / "a", once, inputs, roles=["out"]), record(tmp_path / "b", more, inputs, roles=["out"])
    assert not tap.diff(a, b).same
    moved = tap.diff(a, b, map={"^layer$": "extra", "^layer::call2": "layer", "^layer::call3": "layer::call2"})
    assert moved.same and moved.counts["extra"] == 1
    (tmp_path / "bad.yaml").write_text("- '(': x\n")
    with pytest.raises(ValueError, match=r"bad\.yaml.*bad pattern"):
        tap.diff(a, b, map=tmp_path / "bad.yaml")


def test_a_port_is_matched_by_structure_and_that_is_said(model, inputs, tmp_path):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.fc2(torch.relu(self.fc1(x)))

    class Port(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = nn.ModuleList(Part() for _ in range(2))
            self.classifier = nn.Linear(4, 3)

        def forward(self, x):
            for part in self.h:
                x = x + part(x)
            return self.classifier(x)

    port = Port()
    port.load_state_dict(dict(zip(port.state_dict(), model.state_dict().values(), strict=True)))
    with torch.no_grad():
        port.h[1].fc2.bias += 0.1
    found = tap.diff(record(tmp_path / "a", model, inputs), record(tmp_path / "b", port, inputs))
    assert found.first.key == "blocks.1.down" and found.first.key_b == "h.1.fc2"
    assert found.first.matched == "structure" and 0.5 <= found.first.confidence < 1
    assert "matched by structure" in str(found)


def test_noise_is_measured(model, inputs, tmp_path):
    noisy = inputs * (1 + 1e-4)
    a, c = record(tmp_path / "a", model, inputs), record(tmp_path / "c", model, noisy)
    b = record(tmp_path / "b", model, inputs * (1 - 1e-4))
    assert not tap.diff(a, b).same
    found = tap.diff(a, b, noise=c)
    assert found.same and found["blocks.0.up"].tolerance["source"] == "4 × noise"
    assert not tap.diff(a, b, noise=c, noise_factor=0.1).same
    empty = record(tmp_path / "empty", model, inputs, level="fingerprint")
    with pytest.raises(ValueError, match="nothing to measure noise with"):
        tap.diff(a, b, noise=empty)


def test_a_mask_does_not_hide_what_stands_beside_it():
    scores = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(64, 64, dtype=torch.bool).triu(1)
    for filler in (torch.finfo(torch.float32).min, -1e9, -1e4):
        a = scores.masked_fill(mask, filler)
        b = scores.flip(0).masked_fill(mask, filler)
        found = tap.diff({"x": a}, {"x": b})
        assert not found.same and relative_of(found) > 1
        assert tap.diff({"x": a}, {"x": (scores * (1 + 1e-6)).masked_fill(mask, filler)}).same


def relative_of(found):
    return found.first.measures["relative"]


def test_nan_on_both_sides_agrees_only_on_request():
    a, b = torch.tensor([1.0, torch.nan]), torch.tensor([1.0 + 1e-7, torch.nan])
    found = tap.diff({"x": a}, {"x": b})
    assert found.first.verdict == "diverged" and "--equal-nan lets it agree" in str(found)
    assert tap.diff({"x": a}, {"x": b}, equal_nan=True).same
    assert tap.diff({"x": a}, {"x": a}).same


def test_fingerprints_alone_name_the_operator(model, inputs, tmp_path):
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.blocks[1].up.weight[3] *= 1.5
    full = record(tmp_path / "full", model, inputs)
    for level, evidence in (("sketch", "sketch"), ("fingerprint", "statistics")):
        a, b = (record(tmp_path / f"{level}-{n}", m, inputs, level=level) for n, m in (("a", model), ("b", wrong)))
        found = tap.diff(a, b)
        assert found.first.key == "blocks.1.up" and found.first.evidence == evidence
        assert tap.diff(full, b).first.key == "blocks.1.up" and tap.diff(full, a).same


def test_metadata_alone_proves_nothing(model, inputs, tmp_path):
    a, b = (record(tmp_path / n, model, inputs, level="meta") for n in "ab")
    found = tap.diff(a, b)
    assert found.verdict == "inconclusive" and not found.same and found.introduced == []
    assert "record at level fingerprint or full" in str(found)


def test_a_damaged_tensor_whose_hash_differs_is_no_agreement(tmp_path):
    a, b = (
        record(tmp_path / n, nn.Sequential(nn.Identity()), torch.arange(4096.0) + n_) for n, n_ in (("a", 0), ("b", 1))
    )
    (file,) = b.glob("*/*.ttap")
    bytes_of = bytearray(file.read_bytes())
    at = bytes_of.index(torch.arange(1.0, 9.0).numpy().tobytes())
    bytes_of[at + 5] ^= 1
    file.write_bytes(bytes_of)
    found = tap.diff(a, b)
    assert not found.same and all(tensor.verdict != "identical" for tensor in found.tensors)
    assert "do not match their hash" in found.tensors[0].reason
    assert found.tensors[0].evidence == "sketch"  # what is known without the bytes counts


def test_an_input_that_differs_blames_nobody(model, inputs, tmp_path):
    found = tap.diff(record(tmp_path / "a", model, inputs), record(tmp_path / "b", model, inputs + 1))
    assert found.first.key == "Model@in/0" and found.introduced == []
    assert "came in different; no recorded operator introduced it" in found.sentence


def test_gradients(model, inputs, tmp_path):
    class Off(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 1.1

    class Wrong(nn.Linear):
        def forward(self, x):
            return super().forward(Off.apply(x))

    wrong = copy.deepcopy(model)
    wrong.blocks[1].up.__class__ = Wrong
    for name, each in (("a", model), ("b", wrong)):
        with tap.record(each, tmp_path / name, roles=["in", "out", "grad_in", "grad_out"], modules="all", report=False):
            each(inputs.clone().requires_grad_()).sum().backward()
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert found.first.key.startswith("blocks.1.up@grad_in") and found.first.cause == "introduced"


def test_names_of_any_kind_stay_valid_json(tmp_path):
    names = ["a/b@c%d::call7", 'q"uote', "</script>", "line\nbreak", "ünïcode", "\x1b[31m"]
    a = {name: torch.ones(2) for name in names}
    b = {name: torch.full((2,), torch.inf) for name in names}
    torch.save(a, tmp_path / "a.pt"), torch.save(b, tmp_path / "b.pt")
    report, _ = read_json("diff", tmp_path / "a.pt", tmp_path / "b.pt")
    assert report["counts"]["diverged"] == len(names)
    assert "\x1b" not in run("diff", tmp_path / "a.pt", tmp_path / "b.pt").stdout
    assert run("diff", tmp_path / "a.pt", tmp_path / "b.pt", "--html", tmp_path / "r.html").returncode == 1
    assert tap.diff(a, b).to_csv(tmp_path / "r.csv") is None


def test_a_reader_that_goes_away_is_no_error(pair):
    result = subprocess.run(
        f"{TTAP} diff {pair[0]} {pair[1]} --all | head -1", shell=True, capture_output=True, text=True
    )
    assert result.stdout.startswith("diverged") and result.stderr == ""


def test_the_page_is_written_from_python_and_from_the_command(pair, tmp_path):
    run("diff", *pair, "--html", tmp_path / "command.html")
    tap.diff(*pair).to_html(tmp_path / "python.html", details=3)
    for name in ("command", "python"):
        page = (tmp_path / f"{name}.html").read_text()
        assert "blocks.1.up introduced the error" in page and "Plotly" in page and "http-equiv" in page
    assert json.loads(run("diff", *pair, "--json").stdout).get("details") is None


SERVER = """
import subprocess, sys
import torch

torch.ones(3).sum()
if "--in-process" not in sys.argv and "--engine" not in sys.argv:
    subprocess.run([sys.executable, __file__, "--engine"], check=True)  # the model runs in a process of its own
else:
    torch.manual_seed(0)
    model, wrong = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()), "--wrong" in sys.argv
    model[0].weight.data[3] *= 1.5 if wrong else 1
    model(torch.ones(2, 4))
"""


def test_of_processes_with_one_rank_number_the_one_that_ran_the_model_is_compared(tmp_path):
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    for name, words in (("served", []), ("right", ["--in-process"]), ("wrong", ["--in-process", "--wrong"])):
        made = run("run", "-o", str(tmp_path / name), "--ops", "--", sys.executable, str(program), *words)
        assert made.returncode == 0, made.stderr
    for a, b in (("served", "right"), ("right", "served")):
        report = tap.diff(tmp_path / a, tmp_path / b).to_json()
        assert report["verdict"] == "identical" and "0" in tensors_of(report), report["sentence"]
        assert [each["place"].split(" (")[0] for each in report["unmatched_passes"]] == ["rank 0"]
    assert tap.diff(tmp_path / "served", tmp_path / "wrong").verdict == "diverged"


class WithOthers(nn.Module):
    """One layer that two programs share, beside layers that each has for itself."""

    def __init__(self, others, given):
        super().__init__()
        self.others, self.given = nn.ModuleDict(others), given
        torch.manual_seed(0)
        self.shared = nn.Linear(4, 4)

    def forward(self, x):
        for layer in self.others.values():
            layer(self.given)
        return self.shared(x)


def test_agreement_of_the_few_that_have_a_counterpart_is_no_answer(tmp_path):
    x = torch.randn(2, 4)
    left = {f"left{i}": nn.Linear(5, 7 + i) for i in range(4)}
    right = {f"right{i}": nn.Conv1d(3, 2 + i, 2) for i in range(4)}
    for name, others, given in (("a", left, torch.ones(2, 5)), ("b", right, torch.zeros(3, 6))):
        record(tmp_path / name, WithOthers(others, given), x, modules="leaf")
    found = run("diff", str(tmp_path / "a"), str(tmp_path / "b"))
    assert found.returncode == 1
    assert found.stdout.startswith("inconclusive: most tensors have no counterpart; of"), found.stdout
