"""A directory that is recorded into again: a new run beside the old one, and every reader takes the newest."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import textwrap
import threading

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import TTAP, read_json, run


def record(model, directory, **options):
    with tap.record(model, directory, report=False, **options) as recording, torch.no_grad():
        model(torch.ones(2, 4))
    return recording


@pytest.fixture
def rerun(tmp_path):
    """A model that was wrong, recorded beside a good one, and recorded again after it was mended."""
    torch.manual_seed(0)
    good, bad = nn.Linear(4, 4), nn.Linear(4, 4)
    record(good, tmp_path / "good")
    record(bad, tmp_path / "bad")
    assert tap.diff(tmp_path / "good", tmp_path / "bad").verdict == "diverged"
    bad.load_state_dict(good.state_dict())
    record(bad, tmp_path / "bad")
    return tmp_path


def test_what_was_mended_and_recorded_again_is_what_is_compared(rerun):
    found = tap.diff(rerun / "good", rerun / "bad")
    assert found.verdict == "identical"
    assert f"B is run 2 of 2 in its directory: {rerun / 'bad/run00002'}" in str(found)
    assert found.to_json()["b"]["run"] == found.to_json()["b"]["runs"] == 2
    assert found.to_json()["a"]["runs"] == 1
    assert tap.diff(rerun / "good", rerun / "bad/run00001").verdict == "diverged"
    result = run("diff", rerun / "good", rerun / "bad", "--html", rerun / "page.html")
    assert result.returncode == 0, result.stdout
    assert "run00002" in result.stdout and "run00002" in (rerun / "page.html").read_text()
    assert run("diff", rerun / "bad/run00001", rerun / "bad").returncode == 1


def test_every_command_says_which_run_it_took(rerun):
    newest = str(rerun / "bad/run00002")
    export = ["export", "--format", "pt", "-o", rerun / "exported"]
    for command, *words in (["ls"], ["ls", "--coverage"], ["show", "Linear"], ["log"], export):
        said = run(command, rerun / "bad", *words)
        assert f"holds 2 runs; this is the newest, {newest}" in said.stderr, said
        assert "runs" not in run(command, rerun / "good", *words).stderr
    assert run("check", rerun / "bad").stdout.startswith(f"run 2 of 2: {newest}\n")
    for words in (["ls"], ["ls", "--coverage"], ["log"], ["check"]):
        document, _ = read_json(words[0], rerun / "bad", *words[1:])
        assert (document["path"], document["run"], document["runs"]) == (newest, 2, 2), words


def test_every_run_can_be_listed_and_opened(rerun):
    lines = run("ls", rerun / "bad", "--runs").stdout.split("\n")
    assert [line.split() for line in lines[-3:-1]] == [
        ["1", "1", "1", str(rerun / "bad/run00001")],
        ["2", "1", "1", str(rerun / "bad/run00002")],
    ]
    document, code = read_json("ls", rerun / "bad", "--runs")
    assert code == 0 and [one["run"] for one in document["runs"]] == [1, 2]
    runs = tap.runs(rerun / "bad")
    assert [one.number for one in runs] == [1, 2] and [one.runs for one in runs] == [2, 2]
    assert "run 2 of 2" in repr(tap.open(rerun / "bad")) and tap.open(rerun / "bad").path == runs[1].path
    assert tap.runs(rerun / "good")[0].path == rerun / "good"
    assert run("ls", runs[0].path).returncode == 0


def test_each_recording_of_a_loop_is_a_run_unless_it_appends(tmp_path):
    model = nn.Linear(4, 4)
    numbers = [record(model, tmp_path).run_number for _ in range(3)]
    assert numbers == [1, 2, 3] and len(tap.open(tmp_path).ranks[0].passes) == 1
    numbers = [record(model, tmp_path, append=True).run_number for _ in range(3)]
    assert numbers == [3, 3, 3] and list(tap.open(tmp_path).ranks[0].passes) == [0, 1, 2, 3]


def test_recordings_at_the_same_time_are_one_run(tmp_path):
    with tap.record(nn.Linear(4, 4), tmp_path, report=False):
        record(nn.Linear(4, 4), tmp_path)
        threads = [threading.Thread(target=record, args=(nn.Linear(4, 4), tmp_path)) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert len(tap.runs(tmp_path)) == 1 and len(tap.open(tmp_path).ranks[0].passes) == 4


def test_a_trace_is_saved_beside_and_appended(tmp_path):
    with tap.trace() as trace:
        torch.ones(2) + 1
    assert trace.save(tmp_path).parent == tmp_path
    assert trace.save(tmp_path).parent == tmp_path / "run00002"
    trace.save(tmp_path, append=True)
    assert [len(one.ranks[0].passes) for one in tap.runs(tmp_path)] == [1, 2]


def test_graphs_begin_a_run_too(tmp_path):
    model = nn.Linear(4, 4)
    for _ in range(2):
        with tap.graph_backend(tmp_path / "graphs", report=False) as backend:
            torch.compile(model, backend=backend)(torch.ones(2, 4))
        torch._dynamo.reset()
    assert len(tap.runs(tmp_path / "graphs")) == 2


# Several processes


def work(directory):
    torch.set_num_threads(1)
    record(nn.Linear(4, 4), directory)


def test_a_process_forked_while_recording_records_into_the_same_run(tmp_path):
    model = nn.Linear(4, 4)
    record(model, tmp_path)
    torch.set_num_threads(1)
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(2, 4))
        for target, words in ((model, (torch.ones(2, 4),)), (work, (tmp_path,))):  # the recording's own, and another's
            child = multiprocessing.get_context("fork").Process(target=target, args=words)
            child.start()
            child.join()
            assert child.exitcode == 0
    assert len(tap.runs(tmp_path)) == 2
    assert len(tap.open(tmp_path).ranks) == 3


def test_a_process_started_while_recording_joins_and_one_started_afterwards_does_not(tmp_path):
    program = "import sys, torch, tensortap as tap; m = torch.nn.Linear(4, 4)\n"
    program += "with tap.record(m, sys.argv[1], report=False): m(torch.ones(2, 4))"
    with tap.record(nn.Linear(4, 4), tmp_path, report=False):
        subprocess.run([sys.executable, "-c", program, tmp_path], check=True)
    assert len(tap.runs(tmp_path)) == 1 and len(tap.open(tmp_path).ranks) == 2
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True)
    assert len(tap.runs(tmp_path)) == 2 and len(tap.open(tmp_path).ranks) == 1


RANKS = """
    import os, sys, time, torch, tensortap as tap
    torch.set_num_threads(1)
    m = torch.nn.Linear(4, 4)
    barrier, rank = sys.argv[2], int(os.environ["RANK"])
    open(f"{barrier}.{rank}", "w").close()
    while not all(os.path.exists(f"{barrier}.{i}") for i in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.001)
    for _ in range(3):
        with tap.record(m, sys.argv[1], report=False):
            m(torch.ones(2, 4))
"""


def test_ranks_that_start_at_once_make_one_run_and_the_next_launch_another(tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(textwrap.dedent(RANKS))
    for launch in range(2):
        environment = {**os.environ, "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        words = [sys.executable, script, tmp_path / "run", tmp_path / f"barrier{launch}"]
        ranks = [subprocess.Popen(words, env={**environment, "RANK": str(rank)}) for rank in range(4)]
        assert [rank.wait(timeout=300) for rank in ranks] == [0] * 4
        runs = tap.runs(tmp_path / "run")
        assert len(runs) == 3 * (launch + 1)
        assert all([rank.number for rank in one.ranks] == [0, 1, 2, 3] for one in runs)


def test_torchrun_makes_one_run_each_time(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, tensortap as tap; torch.set_num_threads(1); m = torch.nn.Linear(4, 4)\n"
        f"with tap.record(m, {str(tmp_path / 'run')!r}, report=False): m(torch.ones(2, 4))\n"
    )
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", script]
    for _ in range(2):
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert [[rank.number for rank in one.ranks] for one in tap.runs(tmp_path / "run")] == [[0, 1], [0, 1]]


def test_all_that_ttap_run_starts_is_one_run(tmp_path):
    script = tmp_path / "several.py"
    script.write_text(
        "import subprocess, sys, torch, tensortap as tap; torch.set_num_threads(1); m = torch.nn.Linear(4, 4)\n"
        "for _ in range(2):\n"
        "    with tap.record(m, 'elsewhere'): m(torch.ones(2, 4))\n"
        "if len(sys.argv) == 1:\n"
        "    for _ in range(2): subprocess.run([sys.executable, __file__, 'again'], check=True)\n"
    )
    for number in (1, 2):
        result = run("run", "-o", tmp_path / "run", "--", sys.executable, script)
        assert result.returncode == 0, result.stderr
        newest = tap.open(tmp_path / "run")
        assert newest.number == number and len(newest.ranks) == 3
        assert [len(rank.passes) for rank in newest.ranks] == [2, 2, 2]
    assert f"{tmp_path / 'run/run00002'}: 3 ranks" in result.stderr
    run("run", "-o", tmp_path / "run", "--append", "--", sys.executable, script)
    assert len(tap.runs(tmp_path / "run")) == 2 and len(tap.open(tmp_path / "run").ranks) == 6


def test_several_ttap_runs_started_as_ranks_make_one_run(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text("import torch; torch.set_num_threads(1); torch.nn.Linear(4, 4)(torch.ones(2, 4))")
    words = [TTAP, "run", "-o", tmp_path / "run", "--quiet", "--", sys.executable, script]
    for launch in (1, 2):
        environment = {**os.environ, "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": str(launch)}
        ranks = [subprocess.Popen(words, env={**environment, "SLURM_PROCID": str(rank)}) for rank in range(2)]
        assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
        assert len(tap.runs(tmp_path / "run")) == launch and len(tap.open(tmp_path / "run").ranks) == 2


def test_what_was_killed_in_an_older_run_is_recovered(tmp_path):
    program = "import os, sys, torch, tensortap as tap; m = torch.nn.Linear(4, 4)\n"
    program += "r = tap.record(m, sys.argv[1], report=False, step='manual')\n"
    program += "with r.step(): m(torch.ones(2, 4)); r.flush(); os._exit(9)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    assert len(tap.runs(tmp_path)) == 2
    result = run("recover", tmp_path, "--json")
    assert result.returncode == 0 and len(json.loads(result.stdout)["recovered"]) == 2, result.stdout
    assert all(one.ranks[0].passes.paths[0].suffix == ".ttap" for one in tap.runs(tmp_path))


def test_a_run_under_way_is_read_while_it_is_written(tmp_path):
    model = nn.Linear(4, 4)
    record(model, tmp_path)
    with tap.record(model, tmp_path, report=False) as recording:
        for _ in range(2):
            model(torch.ones(2, 4))
        recording.flush()
        live = tap.open(tmp_path)
        assert live.number == 2 and len(live.ranks[0].passes) == 2
    assert re.search(r"run00002", str(recording.rank_directory))
