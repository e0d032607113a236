"""When a pass begins and ends, and which calls belong to it."""

import threading

import pytest
import tensortap as tap
import torch
from small_models import Block, Model, passes_of
from tensortap.engines.engine_step import EngineStep
from torch import nn


def test_every_outermost_forward_is_one_pass(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, report=False):
        for _ in range(3):
            model(torch.randn(2, 4))
    passes = passes_of(tmp_path)
    assert list(passes) == [0, 1, 2]
    assert list(passes[1]) == ["blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "head"]


def test_a_part_called_on_its_own_is_a_pass_too(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, report=False):
        for _ in range(2):
            model.blocks[1](torch.randn(2, 4))
            model.head(torch.randn(2, 4))
        model(torch.randn(2, 4))
    passes = passes_of(tmp_path)
    parts = [["blocks.1.up", "blocks.1.down"], ["head"]]
    assert [list(recorded) for recorded in passes.values()][:4] == parts * 2
    assert len(passes[4]) == 5 and len(passes) == 5
    assert {recorded.ending for recorded in passes.values()} == {"complete"}


def test_a_model_is_counted_once_in_each_step_of_an_engine_that_calls_it(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, report=False) as recording:
        for calls in (1, 2, 0):
            with EngineStep():
                for _ in range(calls):
                    model(torch.randn(2, 4))
        model(torch.randn(2, 4))
    assert len(passes_of(tmp_path)) == 4
    assert recording.coverage["roots"][0]["passes"] == 3


def test_a_step_that_raises_leaves_an_aborted_pass_and_a_clean_next_one(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, step="manual", report=False) as recording:
        with pytest.raises(ZeroDivisionError), recording.step():
            model.blocks[0](torch.randn(2, 4))
            raise ZeroDivisionError
        with recording.step():
            model.head(torch.randn(2, 4))
    passes = passes_of(tmp_path)
    assert passes[0].ending == "aborted" and list(passes[0]) == ["blocks.0.up", "blocks.0.down"]
    assert passes[1].ending == "complete" and list(passes[1]) == ["head"]


class Fails(nn.Module):
    """Raises what it is told to, half-way."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.error = None

    def forward(self, x):
        x = self.first(x)
        if self.error is not None:
            raise self.error
        return self.second(x)


@pytest.mark.parametrize("modules", ["leaf", "all"])
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_forward_that_raises_leaves_an_aborted_pass_and_a_clean_next_one(error, modules, tmp_path):
    model = nn.Sequential(Fails())
    with tap.record(model, tmp_path, modules=modules, report=False):
        model[0].error = error
        with pytest.raises(type(error)):
            model(torch.ones(1, 2))
        model[0].error = None
        model(torch.ones(1, 2))
    passes = passes_of(tmp_path)
    assert [passes[0].ending, passes[1].ending] == ["aborted", "complete"]
    assert list(passes[0]) == ["0.first"]
    if modules == "all":
        assert list(passes[1]) == ["0.first", "0.second", "0", "Sequential"]
        assert [event.parent for event in passes[1].events] == [None, 0, 1, 1]
    else:
        assert list(passes[1]) == ["0.first", "0.second"]


def test_an_empty_step_takes_a_number(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, step="manual", report=False) as recording:
        with recording.step() as first:
            pass
        with recording.step() as second:
            model.head(torch.randn(1, 4))
    assert (first, second) == (0, 1)
    passes = passes_of(tmp_path)
    assert len(passes[0]) == 0 and passes[0].ending == "complete"
    assert list(passes[1]) == ["head"]


def test_calls_outside_a_step_are_counted_not_recorded(tmp_path, capsys):
    model = Model()
    with tap.record(model, tmp_path, step="manual") as recording:
        model(torch.randn(1, 4))
        with recording.step():
            pass
    assert recording.coverage["outside_steps"] == 5
    assert "5 module calls outside any step" in capsys.readouterr().err


def test_only_the_chosen_steps_are_recorded(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, steps="1,3-", report=False):
        for _ in range(5):
            model(torch.randn(1, 4))
    assert list(passes_of(tmp_path)) == [1, 3, 4]


def test_repeated_calls_are_numbered_and_start_again_in_each_pass(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(self.linear(x))

    model = Twice()
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(1, 2))
        model(torch.ones(1, 2))
    for recorded in passes_of(tmp_path).values():
        assert list(recorded) == ["linear", "linear::call2"]


def test_appending_goes_on_counting(tmp_path):
    model = Model()
    for _ in range(2):
        with tap.record(model, tmp_path, append=True, report=False):
            model(torch.randn(1, 4))
    assert list(passes_of(tmp_path)) == [0, 1]


# ---- threads ----


def test_threads_that_run_one_model_at_once_have_passes_of_their_own(tmp_path):
    model = Model()
    barrier = threading.Barrier(3)

    def serve(value):
        for _ in range(5):
            barrier.wait()
            with torch.no_grad():
                model(torch.full((1, 4), float(value)))

    with tap.record(model, tmp_path, roles=("in", "out"), report=False):
        threads = [threading.Thread(target=serve, args=(value,)) for value in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    passes = passes_of(tmp_path)
    assert len(passes) == 15
    for recorded in passes.values():
        assert len(recorded) == 10 and recorded.ending == "complete"
        assert len({event.thread for event in recorded.events}) == 1
        with torch.no_grad():
            first = recorded["blocks.0.up@in/0"]
            assert torch.equal(recorded["blocks.0.up"], model.blocks[0].up(first))
            assert torch.equal(recorded["head"], model.head(recorded["head@in/0"]))


def test_each_recording_sees_its_own_model(tmp_path):
    first, second = Model(), Block()
    with tap.record(first, tmp_path / "a", report=False), tap.record(second, tmp_path / "b", report=False):
        threads = [threading.Thread(target=model, args=(torch.ones(1, 4),)) for model in (first, second)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert len(passes_of(tmp_path / "a")[0]) == 5
    assert list(passes_of(tmp_path / "b")[0]) == ["up", "down"]


def test_two_recordings_may_share_a_directory(tmp_path):
    first, second = Model(), Block()
    with tap.record(first, tmp_path, report=False), tap.record(second, tmp_path, report=False):
        first(torch.ones(1, 4))
        second(torch.ones(1, 4))
    passes = passes_of(tmp_path)
    assert [len(recorded) for recorded in passes.values()] == [5, 2]
    assert [root["name"] for root in tap.open(tmp_path).ranks[0].coverage["source"]["roots"]] == ["Block", "Model"]


def test_steps_that_never_come_are_said(tmp_path, capsys):
    model = nn.Linear(2, 2)
    with tap.record(model, tmp_path, steps=99):
        model(torch.ones(1, 2))
        model(torch.ones(1, 2))
    said = "none of the program's steps was to be recorded: steps=99, and the program had 2, counted from 0"
    assert said in capsys.readouterr().err
    with tap.record(model, tmp_path / "some", steps=1):
        model(torch.ones(1, 2))
        model(torch.ones(1, 2))
    assert "none of the program's steps" not in capsys.readouterr().err
