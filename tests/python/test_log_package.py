"""The log of a pass from Python: the same words as `ttap log` prints."""

import json

import pytest
from tensortap import _core
from ttap_command import read_json, run


@pytest.fixture
def ops(runs):
    folder = runs("ops")
    return _core.Pass.open(str(folder / "rank0_pid4711/pass00000.ttap"))


def without_header(text):
    return text.split("\n\n", 1)[1]


def test_the_text_is_that_of_the_command(runs, ops):
    assert _core.log_text(ops) == without_header(run("log", runs("ops")).stdout)
    words = ["--module", "model", "--inputs", "--strides", "--keys", "--stack=all"]
    assert _core.log_text(ops, module="model", inputs=True, strides=True, keys=True, stack="all") == without_header(
        run("log", runs("ops"), *words).stdout
    )
    words = ["--around", "model:aten::log", "-n", "1"]
    assert _core.log_text(ops, around="model:aten::log", neighbours=1) == without_header(
        run("log", runs("ops"), *words).stdout
    )
    assert "\x1b[1;31m1 -Inf" in _core.log_text(ops, color=True)


def test_the_json_is_that_of_the_command(runs, ops):
    document, _ = read_json("log", runs("ops"), "--filter", "aten::mm")
    assert json.loads(_core.log_json(ops, filter="aten::mm")) == document["passes"][0]["events"]


def test_files_for_viewers_are_written(ops, tmp_path):
    _core.write_perfetto(ops, str(tmp_path / "trace.json"), rank=3, pid=7)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {7}
    _core.write_model_explorer(ops, str(tmp_path / "graph.json"))
    assert json.loads((tmp_path / "graph.json").read_text())["graphs"][0]["nodes"]


def test_errors_are_raised(ops, tmp_path):
    with pytest.raises(ValueError, match="the filter"):
        _core.log_text(ops, filter="(")
    with pytest.raises(LookupError, match="no event 'model:aten::lok'"):
        _core.log_text(ops, around="model:aten::lok")
    with pytest.raises(OSError, match="cannot write"):
        _core.write_perfetto(ops, str(tmp_path / "no/such/folder.json"))
