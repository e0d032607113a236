"""Hooks of `tap.trace`: what they are given, and what becomes of what they return or raise."""

import os
import signal
import sys

import pytest
import tensortap as tap
import torch
from op_sequences import of_trace
from ttap_command import run

X = torch.arange(6.0).view(2, 3)


def noted(answer):
    """The note of one call whose hook returns this."""
    with tap.trace(hooks=lambda *_: answer) as trace:
        X + 1
    (event,) = trace
    assert "no JSON" not in str(trace)
    return event.notes["hook"]


# ---- what they are given ----


def test_a_hook_is_given_name_arguments_and_result():
    calls = []
    with tap.trace(hooks=lambda *given: calls.append(given)) as trace:
        X.add(X, alpha=2)
        X.topk(2)
        torch.cat([X, X])
        X.sum().item()
    add, topk, cat, _, item = calls
    assert add[0] == "aten::add.Tensor"
    assert add[1][0] is X
    assert add[2] == {"alpha": 2}
    assert torch.equal(add[3], X * 3)
    assert [tuple(each.shape) for each in topk[3]] == [(2, 2), (2, 2)]
    assert [each is X for each in cat[1][0]] == [True, True]
    assert item[3] == 15.0
    assert all("hook" not in event.notes for event in trace)


def test_dtypes_layouts_and_memory_formats_are_pytorchs_objects():
    calls = {}
    with tap.trace(hooks=lambda name, args, kwargs, result: calls.update({name: (args, kwargs)})) as trace:
        X.to(torch.float64)
        X.clone(memory_format=torch.contiguous_format)
        X.view(torch.int32)
        X.sum(0, dtype=torch.float64)
        torch.empty(2, dtype=torch.int8, layout=torch.strided, device="meta")
        torch.full((2,), 7)
        X.to_sparse(layout=torch.sparse_coo)
    assert calls["aten::_to_copy"][1]["dtype"] is torch.float64
    assert calls["aten::_to_copy"][1]["layout"] is None
    assert calls["aten::clone"][1]["memory_format"] is torch.contiguous_format
    assert calls["aten::view.dtype"][0][1] is torch.int32
    assert calls["aten::sum.dim_IntList"][1]["dtype"] is torch.float64
    empty = calls["aten::empty.memory_format"][1]
    assert (empty["dtype"], empty["layout"], empty["device"]) == (torch.int8, torch.strided, torch.device("meta"))
    assert calls["aten::full"][0] == ([2], 7)
    assert calls["aten::_to_sparse"][1]["layout"] is torch.sparse_coo
    assert "layout=torch.sparse_coo" in str(trace)


def test_arguments_are_those_of_a_dispatch_mode():
    from torch.utils._debug_mode import DebugMode

    def work():
        X.to(torch.float64)
        X.clone(memory_format=torch.preserve_format)
        torch.zeros(2, dtype=torch.int8, layout=torch.strided)

    theirs, ours = [], []
    with (
        DebugMode(),
        DebugMode.dispatch_hooks(log_hook=lambda op, types, args, kwargs, result: theirs.append((args[1:], kwargs))),
    ):
        work()
    with tap.trace(hooks=lambda name, args, kwargs, result: ours.append((args[1:], kwargs))):
        work()
    assert len(ours) == len(theirs)
    for (args, kwargs), (their_args, their_kwargs) in zip(ours, theirs, strict=True):
        assert args[: len(their_args)] == their_args
        assert {name: kwargs[name] for name in their_kwargs} == their_kwargs


# ---- what they return ----


def test_what_a_hook_returns_is_shown_and_kept():
    def count(name, args, kwargs, result):
        return {"elements": result.numel(), "dtype": result.dtype}

    with tap.trace(hooks=count) as trace:
        X + 1
    assert trace.events[0].notes["hook"] == {"elements": 6, "dtype": "torch.float32"}
    assert "{'elements': 6, 'dtype': 'torch.float32'}" in str(trace)


def test_several_hooks_add_to_one_another():
    with tap.trace(hooks=[lambda *_: {"a": 1}, lambda *_: None, lambda *_: {"b": 2}]) as trace:
        X + 1
    assert trace.events[0].notes["hook"] == {"a": 1, "b": 2}


def test_what_a_hook_computes_is_not_in_the_log():
    def largest(name, args, kwargs, result):
        return {"largest": result.abs().max().item()}

    with tap.trace(hooks=largest, hashes=True) as trace:
        X * -2
    assert of_trace(trace) == ["aten.mul.Tensor"]
    assert trace.events[0].notes["hook"] == {"largest": 10.0}


def test_numbers_that_json_has_no_word_for_become_text(tmp_path):
    nan, inf = float("nan"), float("inf")
    assert noted({"norm": nan, "all": [inf, {"low": -inf}], "fine": 1.5}) == {
        "norm": "NaN",
        "all": ["Infinity", {"low": "-Infinity"}],
        "fine": 1.5,
    }
    assert noted({"large": 2**100, "huge": 10**1000})["large"] == 2**100
    with tap.trace(hooks=lambda *_: {"norm": nan}) as trace:
        X + 1
    assert "{'norm': 'NaN'}" in str(trace)
    trace.save(tmp_path / "run")
    assert "{'norm': 'NaN'}" in run("log", tmp_path / "run").stdout


def test_half_a_surrogate_pair_is_escaped():
    assert noted({"a": "\ud800", "\udfff": "ключ"}) == {"a": "\\ud800", "\\udfff": "ключ"}


def test_keys_are_texts():
    assert noted({(1, 2): 3, None: 4, 5: 6}) == {"(1, 2)": 3, "None": 4, "5": 6}


def test_what_holds_itself_ends_somewhere():
    circle = {"list": []}
    circle["list"].append(circle)
    assert noted({"circle": circle}) == {"circle": {"list": ["…"]}}
    deep = {}
    for _ in range(5000):
        deep = {"in": deep}
    assert list(noted(deep)) == ["in"]


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not me")

    __repr__ = __str__


def test_what_cannot_be_printed_is_named_by_its_class(capfd):
    assert noted({"a": Unprintable(), "b": 1}) == {
        "a": "<Unprintable that cannot be printed: RuntimeError>",
        "b": 1,
    }
    assert capfd.readouterr().err == ""


# ---- what they raise ----


def test_a_hook_that_fails_is_told_once_and_does_not_reach_the_model(capfd):
    def broken(name, args, kwargs, result):
        raise ValueError("mine")

    with tap.trace(hooks=broken) as trace:
        y = (X + 1) * 2
    assert torch.equal(y, (X + 1) * 2)
    assert [event.notes["hook"] for event in trace] == [{"error": "ValueError: mine"}] * 2
    assert capfd.readouterr().err == "tensortap: a hook failed at aten::add.Tensor: ValueError: mine\n"


def test_a_hook_that_returns_no_mapping_is_told(capfd):
    with tap.trace(hooks=lambda *_: 5) as trace:
        X + 1
    assert "TypeError" in trace.events[0].notes["hook"]["error"]
    assert "a hook failed" in capfd.readouterr().err


def test_an_exception_that_cannot_be_printed_is_noted(capfd):
    def broken(*_):
        raise Unprintable

    with tap.trace(hooks=broken) as trace:
        (X + 1) * 2
    said = "Unprintable: <Unprintable that cannot be printed: RuntimeError>"
    assert [event.notes["hook"] for event in trace] == [{"error": said}] * 2
    assert capfd.readouterr().err == f"tensortap: a hook failed at aten::add.Tensor: {said}\n"


class Rude(dict):
    def items(self):
        raise KeyError("items")


def test_a_mapping_that_raises_is_noted(capfd):
    assert noted({"inside": Rude(a=1)}) == {"error": "KeyError: 'items'"}
    assert capfd.readouterr().err == ""


def interrupted(hook, work):
    """A trace that is ended by what its hook raises, and what was raised."""
    with pytest.raises(BaseException) as raised, tap.trace(hooks=hook) as trace:  # noqa: PT011
        work()
    return trace, raised.value


def test_an_interrupt_in_a_hook_reaches_the_program(capfd):
    def slow(name, args, kwargs, result):
        if name == "aten::sin":
            os.kill(os.getpid(), signal.SIGINT)
        return {"calls": name}

    reached = []

    def work():
        X.cos()
        reached.append("cos")
        X.sin()
        reached.append("sin")
        X.tan()

    trace, raised = interrupted(slow, work)
    assert isinstance(raised, KeyboardInterrupt)
    assert reached[0] == "cos"
    assert of_trace(trace)[:2] == ["aten.cos.default", "aten.sin.default"]
    assert "aten.tan.default" not in of_trace(trace)
    assert trace.events[1].notes["hook"] == {"error": "KeyboardInterrupt"}
    assert capfd.readouterr().err == ""
    X.sin()  # it is over


def test_an_interrupt_in_the_backward_waits_for_its_end(capfd):
    w = torch.ones(3, requires_grad=True)

    def hook(name, args, kwargs, result):
        if name == "aten::cos":
            raise KeyboardInterrupt

    trace, raised = interrupted(hook, lambda: w.sin().exp().sum().backward())
    assert isinstance(raised, KeyboardInterrupt)
    assert torch.allclose(w.grad, w.sin().exp() * w.cos())
    assert of_trace(trace)[-1] == "aten.detach.default"
    assert capfd.readouterr().err == ""


def test_an_interrupt_leaves_the_end_of_a_trace_and_later_hooks_alone():
    seen = []

    def hook(name, args, kwargs, result):
        seen.append(name)
        if len(seen) == 1:
            raise KeyboardInterrupt
        return {"calls": len(seen)}

    with pytest.raises(KeyboardInterrupt):
        with tap.trace(hooks=hook) as trace:
            X + 1 + 2  # Python looks for no interrupts between these, nor before the end of the trace
        X.sin()
    assert [event.notes["hook"] for event in trace] == [{"error": "KeyboardInterrupt"}, {"calls": 2}]
    X + 1
    assert len(seen) == 2


def test_a_hook_may_end_the_program():
    trace, raised = interrupted(lambda *_: sys.exit(3), lambda: X.sin())
    assert isinstance(raised, SystemExit)
    assert raised.code == 3
    assert trace.events[0].notes["hook"] == {"error": "SystemExit"}
