"""tap.export, tap.recover, and what a run looks like where it is shown."""

import shutil
import signal
import subprocess
import sys

import pytest
import tensortap as tap
import torch
from torch import nn


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    with tap.record(model, tmp_path / "run", report=False):
        for _ in range(2):
            model(torch.ones(2, 4))
    return tap.open(tmp_path / "run")


@pytest.mark.parametrize("format", ["pt", "safetensors", "npy"])
def test_every_pass_is_exported_with_the_same_values(run, tmp_path, format):
    done = tap.export(run, tmp_path / "out", format)
    assert [each.source for each in done] == run.ranks[0].passes.paths
    assert [(each.tensors, each.without_bytes, each.missing) for each in done] == [(2, 0, 0)] * 2
    for each in done:
        before, after = tap.Pass(each.source), tap.Pass(each.path)
        assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("filter", ["^0$", ["^0$", "nothing"], lambda key: key == "0"])
def test_a_filter_says_which_tensors(run, tmp_path, filter):
    assert [list(tap.Pass(each.path)) for each in tap.export(run, tmp_path / "out", filter=filter)] == [["0"]] * 2


def test_what_has_no_bytes_is_counted(tmp_path):
    model = nn.Linear(4, 3)
    with tap.record(model, tmp_path / "run", level="fingerprint", report=False):
        model(torch.ones(2, 4))
    (done,) = tap.export(tmp_path / "run", tmp_path / "out", "pt")
    assert (done.tensors, done.without_bytes, done.missing) == (0, 1, 0)


def test_ranks_of_two_containers_with_one_pid_are_both_exported(run, tmp_path):
    (rank,) = tap.open(run).ranks
    shutil.copytree(rank.path, rank.path.with_name(f"{rank.path.name}_2"))
    done = tap.export(run, tmp_path / "out", "pt")
    assert len({each.path for each in done}) == len(done) == 2 * len(rank.passes)


def test_a_wrong_format_is_an_error(run, tmp_path):
    with pytest.raises(ValueError, match="no format gif"):
        tap.export(run, tmp_path / "out", "gif")


KILLED = """
import os, signal, sys
import tensortap as tap, torch
recording = tap.record(model := torch.nn.Linear(4, 3), sys.argv[1], step="manual", report=False)
with recording.step():
    model(torch.ones(2, 4))
    recording.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_recovered_once(tmp_path):
    result = subprocess.run([sys.executable, "-c", KILLED, tmp_path])
    assert result.returncode == -signal.SIGKILL
    (done,) = tap.recover(tmp_path)
    assert (done.source.suffix, done.path.suffix, done.tensors) == (".incomplete", ".ttap", 1)
    assert not done.source.exists()
    recovered = tap.open(tmp_path).ranks[0].passes[0]
    assert (recovered.ending, recovered["Linear"].shape) == ("incomplete", (2, 3))
    assert tap.recover(tmp_path) == []


def test_one_that_cannot_be_recovered_does_not_keep_the_others_from_it(tmp_path):
    result = subprocess.run([sys.executable, "-c", KILLED, tmp_path])
    assert result.returncode == -signal.SIGKILL
    (rank,) = tap.open(tmp_path).ranks
    torn = rank.path / "pass00000.ttap.incomplete"
    torn.rename(torn.with_name("pass00001.ttap.incomplete"))
    torn.touch()
    with pytest.raises(tap.FormatError, match="the file is empty"):
        tap.recover(tmp_path)
    assert torn.exists() and (rank.path / "pass00001.ttap").exists()


def test_a_pass_that_is_being_written_is_left_alone(tmp_path):
    with tap.record(model := nn.Linear(4, 3), tmp_path, step="manual", report=False) as recording, recording.step():
        model(torch.ones(2, 4))
        recording.flush()
        assert tap.recover(tmp_path) == []
    assert tap.open(tmp_path).ranks[0].passes[0].ending == "complete"


def test_a_pass_gives_a_default(run, tmp_path):
    recorded = run.ranks[0].passes[0]
    assert recorded.get("0").shape == (2, 3)
    assert recorded.get("nothing") is None
    assert recorded.get("nothing", 5) == 5
    with tap.record(model := nn.Linear(4, 3), tmp_path / "meta", level="meta", report=False):
        model(torch.ones(2, 4))
    assert tap.open(tmp_path / "meta").ranks[0].passes[0].get("Linear", 5) == 5  # recorded, without its bytes


def test_asking_whether_a_pass_is_there_opens_no_file(run):
    passes = run.ranks[0].passes
    for path in passes.paths:
        path.unlink()
    assert 0 in passes
    assert 2 not in passes


def test_runs_passes_and_traces_are_paths(run):
    with tap.trace(hashes=True) as trace:
        torch.ones(2).exp()
    rank = run.ranks[0]
    for each in (run, rank, rank.passes[0], trace):
        assert tap.diff(each, each).same
    assert tap.open(trace).ranks[0].passes[0].records == trace.recorded.records


def test_in_a_notebook_they_are_tables(run):
    assert "<td>0</td><td>f32</td><td>[2, 3]</td><td>full</td>" in run.ranks[0].passes[0]._repr_html_()
    assert "<th>rank</th><th>pid</th>" in run._repr_html_()
    found = tap.diff({"<b>": torch.ones(2)}, {"<b>": torch.zeros(2)})
    assert "<td>&lt;b&gt;</td><td>diverged</td>" in found._repr_html_()
