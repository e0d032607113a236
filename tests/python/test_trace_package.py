"""`tap.trace` as a user meets it: options, what is shown, what is kept, saved and read again."""

import json
import subprocess
import sys

import pytest
import tensortap as tap
import torch
from op_sequences import of_trace, op_of
from torch import nn
from ttap_command import read_json, run

X = torch.arange(6.0).view(2, 3)


def ops(trace, name=""):
    return [event for event in trace if event.kind == "op" and name in event.name]


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))


# ---- options ----


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"view": "tree"}, ValueError, "dispatch, all, leaf"),
        ({"level": "much"}, ValueError, "meta, fingerprint, sketch, full"),
        ({"hashes": True, "level": "meta"}, ValueError, "choose 'fingerprint', 'sketch' or 'full'"),
        ({"memory": "plenty"}, ValueError, "number of bytes"),
        ({"filter": "("}, ValueError, r"pattern '\(' is not a regular expression"),
        ({"filter": 5}, TypeError, "a pattern, a list of patterns, or a function"),
        ({"filter": ["mm", 5]}, TypeError, "a pattern of the filter is 5"),
        ({"hooks": 5}, TypeError, r"\(name, args, kwargs, result\)"),
        ({"hooks": [print, 5]}, TypeError, r"\(name, args, kwargs, result\)"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options, error, words):
    with pytest.raises(error, match=words):
        tap.trace(**options)


def test_a_trace_is_started_once():
    trace = tap.trace()
    with trace:
        X + 1
    with pytest.raises(RuntimeError, match="started once"), trace:
        pass
    with tap.trace() as other, pytest.raises(RuntimeError, match="started once"):
        other.start()


def test_start_and_stop_without_with():
    trace = tap.trace()
    X + 1
    trace.start()
    X * 2
    trace.stop()
    X - 3
    trace.stop()
    assert of_trace(trace) == ["aten.mul.Tensor"]


def test_a_trace_at_work_is_not_read():
    with tap.trace() as trace:
        X + 1
        with pytest.raises(RuntimeError, match="still at work"):
            str(trace)
        with pytest.raises(RuntimeError, match="still at work"):
            trace.save("/nowhere")
        assert len(trace) == 1


def test_an_exception_ends_it_and_what_ran_is_there():
    with pytest.raises(ZeroDivisionError), tap.trace() as trace:
        X + 1
        1 / 0  # noqa: B018
    X * 2
    assert of_trace(trace) == ["aten.add.Tensor"]


def test_its_length_its_events_and_how_it_prints():
    with tap.trace() as trace:
        (X + 1) * 2
    assert len(trace) == len(list(trace)) == len(trace.events) == 2
    assert repr(trace) == "<Trace of 2 calls>"
    assert str(trace) == trace.log() == "".join(
        [
            "aten::add.Tensor(t$0: f32[2, 3], 1) -> t$1: f32[2, 3]\n",
            "aten::mul.Tensor(t$1: f32[2, 3], 2) -> t$2: f32[2, 3]",
        ]
    )  # fmt: skip


def test_an_empty_trace_is_one():
    with tap.trace() as trace:
        pass
    assert len(trace) == 0
    assert trace.events == []
    assert str(trace) == "nothing was recorded in this pass"


def test_the_levels():
    def recorded(**options):
        with tap.trace(**options) as trace:
            X + 1
        return [(record.role, record.level) for record in trace.recorded.records]

    assert recorded() == [("in", "meta"), ("out", "meta")]
    assert recorded(hashes=True) == [("in", "sketch"), ("out", "sketch")]
    assert recorded(hashes=True, inputs=False) == [("in", "meta"), ("out", "sketch")]
    assert recorded(hashes=True, outputs=False) == [("in", "sketch"), ("out", "meta")]
    assert recorded(level="fingerprint") == [("in", "fingerprint"), ("out", "fingerprint")]
    assert recorded(level="full") == [("in", "full"), ("out", "full")]


def test_without_ids_tensors_are_not_numbered():
    with tap.trace(ids=False, hashes=True) as trace:
        (X + 1) * 2
    assert "t$" not in str(trace)
    assert all(use.tensor is None for event in trace for use in event.uses)
    assert "t: f32[2, 3]" in str(trace)


# ---- modules ----


def test_module_boundaries_have_full_names_and_hold_their_operators():
    model = small_model()
    with tap.trace() as trace:
        model(X)
    modules = [event.name for event in trace if event.kind == "module"]
    assert modules == ["Sequential", "0", "1", "2", "2.0"]
    (relu,) = ops(trace, "relu")
    assert relu.name == "1:aten::relu"
    assert trace.events[relu.parent].name == "1"
    assert trace.events[trace.events[relu.parent].parent].name == "Sequential"
    assert "[nn.Mod] 2.0 (Linear)" in str(trace)


def test_the_model_given_names_its_parts():
    model = small_model()
    with tap.trace({"policy": model}) as trace:
        model[2](X @ torch.ones(3, 4))
    assert [event.name for event in trace if event.kind == "module"] == ["policy.2", "policy.2.0"]


def test_without_modules_there_are_no_boundaries():
    with tap.trace(modules=False) as trace:
        small_model()(X)
    assert {event.kind for event in trace} == {"op"}
    assert not any(":" in event.name.partition("::")[0] for event in trace)


def test_a_module_that_raises_is_left():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError

    model = nn.Sequential(nn.ReLU(), Fails())
    with tap.trace() as trace:
        with pytest.raises(ValueError):  # noqa: PT011
            model(X)
        X.sin()
    (sin,) = ops(trace, "sin")
    assert sin.name == "aten::sin"
    assert sin.parent is None


# ---- filter ----


def filtered(filter, **options):
    with tap.trace(filter=filter, **options) as trace:
        small_model()(X).sum().backward()
    return trace


def test_a_pattern_is_sought_in_the_names_of_operators_and_modules():
    assert {op_of(event.name) for event in ops(filtered("aten::addmm"))} == {"aten.addmm.default"}
    assert {event.name.split(":")[0] for event in ops(filtered(r"^2\.0:"))} == {"2.0"}
    both = {op_of(event.name) for event in ops(filtered(["relu", "aten::sum$"]))}
    assert both == {"aten.relu.default", "aten.sum.default"}
    assert all("backward:" in event.name for event in ops(filtered("backward:")))


def test_a_function_decides_once_for_each_name():
    asked = []

    def wanted(name):
        asked.append(name)
        return "relu" in name

    with tap.trace(filter=wanted) as trace:
        for _ in range(3):
            X.relu()
            X.sin()
    assert len(ops(trace)) == 3
    assert sorted(asked) == ["aten::relu", "aten::sin"]
    assert trace.counts["rejected"] == 3


def test_what_a_filtered_operator_calls_stays_hidden():
    with tap.trace(filter="aten::fill_") as trace:
        torch.ones(3)
        torch.zeros(3).fill_(2)
    assert of_trace(trace) == ["aten.fill_.Scalar"]


def test_a_filter_that_raises_does_not_reach_the_model(capfd):
    def broken(name):
        raise ValueError("mine")

    with tap.trace(filter=broken) as trace:
        y = (X + 1) * 2
    assert torch.equal(y, (X + 1) * 2)
    assert of_trace(trace) == ["aten.add.Tensor", "aten.mul.Tensor"]
    said = "tensortap: the filter failed at aten::add.Tensor: ValueError: mine; what it fails at is recorded\n"
    assert capfd.readouterr().err == said


# ---- room ----


def test_what_does_not_fit_is_counted_and_said(tmp_path):
    with tap.trace(memory=20_000) as trace:
        for _ in range(3000):
            X + 1
    counts = trace.counts
    assert 10 < counts["calls"] < 1000
    assert counts["calls"] + counts["no_room"] == 3000
    assert len(trace.events) == counts["calls"]
    assert trace.recorded.info["drops"]["events"] == counts["no_room"]
    trace.save(tmp_path)
    assert str(counts["no_room"]) in run("ls", tmp_path).stdout + run("log", tmp_path).stdout


# ---- saved and read again ----


def test_a_saved_trace_is_a_run(tmp_path):
    model = small_model()
    with tap.trace(level="full", stacks=True) as trace:
        model(X)
    folder = trace.save(tmp_path / "run")
    read = tap.open(tmp_path / "run")
    assert folder == read.ranks[0].path
    passed = read.ranks[0].passes[0]
    assert passed.ending == "complete"
    assert [event.name for event in passed.events] == [event.name for event in trace]
    assert [event.stack for event in passed.events] == [event.stack for event in trace]
    assert passed.records == trace.recorded.records
    assert all(torch.equal(passed[key], trace.recorded[key]) for key in passed)
    assert read.ranks[0].metadata["program"]["options"]["level"] == "full"
    assert tap.load_pass(passed.path).keys() == set(passed)


def test_it_can_be_saved_twice_and_after_it_was_read(tmp_path):
    with tap.trace() as trace:
        X + 1
    str(trace)
    trace.save(tmp_path / "a")
    trace.save(tmp_path / "b")
    assert len(tap.open(tmp_path / "a").ranks[0].passes[0].events) == 1
    assert len(tap.open(tmp_path / "b").ranks[0].passes[0].events) == 1


def test_the_commands_read_it(tmp_path):
    model = small_model()
    with tap.trace(level="full") as trace:
        model(X)
        torch.log(X - 1)
    trace.save(tmp_path)
    log = run("log", tmp_path)
    assert log.returncode == 0, log.stderr
    assert trace.log(inputs=False) in log.stdout
    listed = run("ls", tmp_path)
    assert listed.returncode == 0, listed.stderr
    shown = run("show", tmp_path, "2.0:aten::addmm")
    assert shown.returncode == 0, shown.stderr
    assert "2, 2" in shown.stdout
    checked, _ = read_json("check", tmp_path)
    assert "aten::log" in json.dumps(checked)


def test_a_trace_compares_with_a_trace_a_run_and_itself(tmp_path):
    def run_of(scale):
        with tap.trace(level="full") as trace:
            y = X + 1
            (y * scale).sum()
        return trace

    reference, changed = run_of(2.0), run_of(3.0)
    assert tap.diff(reference, reference).same
    assert tap.diff(reference, run_of(2.0)).verdict == "identical"
    found = reference.diff(changed)
    assert not found.same
    assert found.first.key == "aten::mul.Tensor"
    assert found.first.cause == "introduced"
    changed.save(tmp_path)
    assert tap.diff(reference, tmp_path).first.key == "aten::mul.Tensor"
    with tap.trace() as busy, pytest.raises(RuntimeError, match="still at work"):
        tap.diff(reference, busy)


# ---- traces in traces, and nothing left behind ----


def test_traces_nest():
    with tap.trace() as outer:
        X + 1
        with tap.trace() as inner:
            X * 2
        X - 3
    assert of_trace(inner) == ["aten.mul.Tensor"]
    assert of_trace(outer) == ["aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor"]


def test_nothing_is_left_when_it_has_ended():
    from torch.nn.modules import module as torch_module

    with tap.trace(hashes=True, stacks=True):
        small_model()(X)
    assert not torch_module._global_forward_hooks
    assert not torch_module._global_forward_pre_hooks
    kept = X + 1
    with tap.trace(level="full") as trace:
        kept * 2
    str(trace)
    folder = trace.recorded.path.parents[1]
    assert folder.exists()
    del trace
    assert not folder.exists()


def test_without_torch_the_package_says_what_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import tensortap as tap\n"
        "try:\n    tap.trace()\nexcept ImportError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "PyTorch" in done.stdout
    assert "install" in done.stdout
