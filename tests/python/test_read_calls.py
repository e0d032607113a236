"""Calls as the package gives them back: texts, notes, uses and who made what was used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tensortap as tap
from tensortap.records import notes_of
from ttap_command import run

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="module")
def recorded() -> tap.Pass:
    return tap.Pass(GOLDEN / "calls-1.1.ttap")


def test_a_call_has_texts_notes_and_duration(recorded):
    add = recorded.events[2]
    assert add.returned
    assert add.arguments == "%0, %1, alpha=2"
    assert add.results == "%2"
    assert add.notes == {"unread": {"/1": "sparse"}, "hook": {"peak": 7}}
    assert add.forward is None
    assert 0 < add.duration_ns < recorded.events[0].duration_ns


def test_a_use_says_which_record_holds_its_value(recorded):
    relu, add = recorded.events[1:3]
    given, unread, left = add.uses
    assert given == tap.Use(role="in", path="/0", tensor=1, record=relu.uses[1].record, written=True)
    assert recorded.records[given.record].key == "mlp:aten::relu"
    assert unread == tap.Use("in", "/1", 2, None, False)
    assert recorded.records[left.record].key == "mlp:aten::add_.Tensor@after/0"
    assert recorded["mlp:aten::relu"].tolist() == [0, 5]


def test_an_op_of_the_backward_knows_its_forward(recorded):
    assert recorded.events[recorded.events[3].forward].name == "mlp:aten::relu"


def test_a_call_that_did_not_return_has_none_of_it(recorded):
    raised = recorded.events[4]
    assert not raised.returned
    assert (raised.arguments, raised.results, raised.notes, raised.uses) == ("", "", {}, ())
    assert (raised.forward, raised.duration_ns) == (None, 0)


def test_events_of_version_1_0_are_read():
    events = tap.Pass(GOLDEN / "samples-1.0.ttap").events
    assert len(events) == 147
    assert not any(event.returned or event.uses for event in events)


@pytest.mark.parametrize("text", ["[1]", "no json", "[" * 100_000, '"text"'])
def test_notes_that_are_no_object_are_shown_as_they_are(text):
    assert notes_of(text) == {"text": text}


@pytest.mark.parametrize("format", ["pt", "safetensors", "npy"])
def test_tensors_of_ops_are_exported_under_their_names(tmp_path, format):
    rank = tmp_path / "run/rank0_pid1"
    rank.mkdir(parents=True)
    shutil.copy(GOLDEN / "calls-1.1.ttap", rank / "pass00000.ttap")
    assert run("export", tmp_path / "run", "--format", format, "-o", tmp_path / "out").returncode == 0
    (exported,) = tmp_path.glob(f"out/**/pass00000{'' if format == 'npy' else '.' + format}")
    tensors = tap.load_pass(exported)
    assert {key: tensor.tolist() for key, tensor in tensors.items()} == {
        "mlp:aten::relu@in/0": [-1, 5],
        "mlp:aten::relu": [0, 5],
        "mlp:aten::add_.Tensor@after/0": [2, 7],
    }
