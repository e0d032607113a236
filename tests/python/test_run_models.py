"""`ttap run` on programs that do not know of it: scripts, torchrun, forked workers, signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensortap as tap
import torch
from ttap_command import TTAP

MODEL = """
import sys
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

torch.manual_seed(0)
model = Model()
"""


@pytest.fixture
def program(tmp_path):
    """Writes a program that has a model, and gives its path."""

    def write(text, name="program.py"):
        path = tmp_path / name
        path.write_text(MODEL + text)
        return path

    return write


def run(*command, folder, options=(), check=True, **more):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("TTAP_DIR", None)
    result = subprocess.run(
        [TTAP, "run", "-o", folder, *options, "--", *command],
        env=environment, capture_output=True, text=True, timeout=600, **more,
    )  # fmt: skip
    if check:
        assert result.returncode == 0, result.stderr
    return result


def keys_of(folder):
    """The keys of each pass, rank by rank."""
    return [[list(recorded) for recorded in rank.passes.values()] for rank in tap.open(folder).ranks]


def test_an_unmodified_script(program, tmp_path):
    script = program("for i in range(3): print(model(torch.ones(1, 3)).tolist())")
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    result = run(sys.executable, script, folder=tmp_path / "run")
    assert result.stdout == plain.stdout
    assert keys_of(tmp_path / "run") == [[["first", "second"]] * 3]
    assert "3 passes" in result.stderr
    assert str(tmp_path / "run") in result.stderr


def test_the_same_keys_as_with_tap_record(program, tmp_path):
    script = program("model(torch.ones(1, 3))")
    run(sys.executable, script, folder=tmp_path / "run")
    namespace = {}
    exec(MODEL, namespace)
    with tap.record(namespace["model"], tmp_path / "record", report=False):
        namespace["model"](torch.ones(1, 3))
    assert keys_of(tmp_path / "run") == keys_of(tmp_path / "record")
    first, second = (tap.open(tmp_path / name).ranks[0].passes[0] for name in ("run", "record"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_programs_exit_code_input_and_arguments_are_its_own(program, tmp_path):
    script = program("print(sys.argv[1:], sys.stdin.read()); model(torch.ones(1, 3)); sys.exit(7)")
    result = run(sys.executable, script, "-o", "x", "--", folder=tmp_path / "run", check=False, input="hello")
    assert result.returncode == 7
    assert result.stdout == "['-o', 'x', '--'] hello\n"
    assert keys_of(tmp_path / "run") == [[["first", "second"]]]


def test_options_reach_the_program(program, tmp_path):
    script = program("for i in range(4): model(torch.ones(1, 3))")
    options = ["--filter", "first$", "--steps", "1,3-", "--level", "fingerprint", "--roles", "in,out"]
    run(sys.executable, script, folder=tmp_path / "run", options=options)
    (rank,) = tap.open(tmp_path / "run").ranks
    assert list(rank.passes) == [1, 3]
    assert [(item.key, item.level) for item in rank.passes[1].records] == [
        ("first@in/0", "fingerprint"),
        ("first", "fingerprint"),
    ]


def test_a_filter_that_makes_no_sense_does_not_break_the_program(program, tmp_path):
    script = program("print(model(torch.ones(1, 3)).shape)")
    result = run(sys.executable, script, folder=tmp_path / "run", options=["--filter", "(?<n>first)"])
    assert result.stdout == "torch.Size([1, 2])\n"
    assert "not a regular expression" in result.stderr  # not one of Python's


def test_other_modules_called_by_the_program_are_passes_too(program, tmp_path):
    script = program("""
loss = nn.CrossEntropyLoss()
for i in range(2):
    loss(model(torch.ones(1, 3)), torch.zeros(1, dtype=torch.long)).backward()
""")
    run(sys.executable, script, folder=tmp_path / "run")
    assert keys_of(tmp_path / "run") == [[["first", "second"], ["CrossEntropyLoss"]] * 2]


def test_a_part_called_alone_and_within_the_whole_has_the_name_from_that_root(program, tmp_path):
    script = program("""
outer = nn.Sequential(model)
model(torch.ones(1, 3))
outer(torch.ones(1, 3))
""")
    run(sys.executable, script, folder=tmp_path / "run")
    assert keys_of(tmp_path / "run") == [[["first", "second"], ["0.first", "0.second"]]]


def test_modules_added_while_it_runs(program, tmp_path):
    script = program("""
outer = nn.Sequential(model)
outer(torch.ones(1, 3))
outer.append(nn.ReLU())
outer(torch.ones(1, 3))
outer(torch.ones(1, 3))
""")
    run(sys.executable, script, folder=tmp_path / "run")
    passes = keys_of(tmp_path / "run")[0]
    assert passes[2] == ["0.first", "0.second", "1"]


def test_a_compiled_program_compiles_to_the_same_graphs(program, tmp_path):
    script = program("""
graphs = []
def backend(graph, inputs):
    graphs.append(len(list(graph.graph.nodes)))
    return graph.forward
compiled = torch.compile(model, backend=backend, fullgraph=True)
print(compiled(torch.ones(1, 3)).tolist(), graphs)
""")
    plain = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, check=True)
    result = run(sys.executable, "-W", "error", script, folder=tmp_path / "run")
    assert result.stdout == plain.stdout
    assert "compiled region" in result.stderr


def test_torchrun(program, tmp_path):
    script = program("""
import torch.distributed as dist
dist.init_process_group("gloo")
wrapped = nn.parallel.DistributedDataParallel(model)
for i in range(2):
    wrapped(torch.full((1, 3), float(dist.get_rank()))).sum().backward()
dist.destroy_process_group()
""")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29517"]
    run(*launcher, script, folder=tmp_path / "run")
    ranks = tap.open(tmp_path / "run").ranks
    assert [rank.number for rank in ranks] == [0, 1]
    assert keys_of(tmp_path / "run") == [[["first", "second"]] * 2] * 2
    assert [rank.metadata["program"]["world"] for rank in ranks] == [{"size": 2, "backend": "gloo"}] * 2
    assert [rank.model["models"][0]["wrappers"][0].rpartition(".")[2] for rank in ranks] == [
        "DistributedDataParallel"
    ] * 2


def test_forked_and_spawned_workers(program, tmp_path):
    script = program("""
import multiprocessing

def work(value):
    with torch.no_grad():
        model(torch.full((1, 3), float(value)))

if __name__ == "__main__":
    work(0)
    for method in ("fork", "spawn"):
        workers = [multiprocessing.get_context(method).Process(target=work, args=(i,)) for i in (1, 2)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        assert [worker.exitcode for worker in workers] == [0, 0]
""")
    run(sys.executable, script, folder=tmp_path / "run")
    assert keys_of(tmp_path / "run") == [[["first", "second"]]] * 5
    assert all(rank.coverage for rank in tap.open(tmp_path / "run").ranks)


def test_sigint_in_the_middle_leaves_the_finished_passes(program, tmp_path):
    script = program("""
import time
class Slow(nn.Module):
    def forward(self, x):
        print("ready", flush=True)
        time.sleep(60)
for i in range(3): model(torch.ones(1, 3))
nn.Sequential(model, Slow())(torch.ones(1, 3))
""")
    process = subprocess.Popen(
        [TTAP, "run", "-o", tmp_path / "run", "--", sys.executable, script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, told = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in told
    passes = tap.open(tmp_path / "run").ranks[0].passes
    assert [recorded.ending for recorded in passes.values()] == ["complete"] * 3 + ["aborted"]
    assert list(passes[3]) == ["0.first", "0.second"]


@pytest.mark.parametrize("options", [[], ["--ops", "--level", "full"]], ids=["modules", "ops"])
def test_a_model_that_is_called_after_a_caught_interrupt_is_a_model(program, tmp_path, options):
    script = program("""
class Interrupted(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Linear(3, 3)
    def forward(self, x):
        self.part(x)
        raise KeyboardInterrupt
try:
    Interrupted()(torch.ones(1, 3))
except KeyboardInterrupt:
    pass
for i in range(2): model(torch.ones(1, 3))
""")
    run(sys.executable, script, options=options, folder=tmp_path / "run")
    recorded = tap.open(tmp_path / "run").ranks[0]
    assert [each.ending for each in recorded.passes.values()] == ["aborted", "complete", "complete"]
    for number in (1, 2):
        assert {"first", "second"} <= {event.name for event in recorded.passes[number].events}
    assert not any("no part of it" in note for note in recorded.coverage["source"]["notes"])


def test_sigkill_in_the_middle_leaves_the_finished_passes(program, tmp_path):
    script = program("""
import os
for i in range(3): model(torch.ones(1, 3))
print(os.getpid(), flush=True)
while True: model(torch.ones(1, 3))
""")
    process = subprocess.Popen(
        [TTAP, "run", "-o", tmp_path / "run", "--", sys.executable, script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    child = int(process.stdout.readline())
    time.sleep(0.2)
    os.kill(child, signal.SIGKILL)
    _, _told = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    passes = list(tap.open(tmp_path / "run").ranks[0].passes.values())
    assert len(passes) > 3
    assert all(recorded.ending == "complete" for recorded in passes[:-1])
    assert all(list(recorded) == ["first", "second"] for recorded in passes[:-1])


def test_a_program_that_records_by_itself_is_left_to_it(program, tmp_path):
    script = program("""
import tensortap as tap
model(torch.ones(1, 3))
with tap.record(model, "elsewhere", filter=["second"]):
    model(torch.ones(1, 3))
""")
    run(sys.executable, script, folder=tmp_path / "run", cwd=tmp_path)
    assert keys_of(tmp_path / "run") == [[["first", "second"], ["second"]]]
    assert not (tmp_path / "elsewhere").exists()  # ttap run sets TTAP_OVERRIDE


def test_a_program_without_torch_is_left_alone(tmp_path):
    result = run(sys.executable, "-c", "import sys; print('torch' in sys.modules)", folder=tmp_path / "run")
    assert result.stdout == "False\n"
    assert "no process recorded anything" in result.stderr


def test_the_programs_own_sitecustomize_is_imported(program, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("import builtins; builtins.was_here = True")
    script = program("import builtins; print(builtins.was_here); model(torch.ones(1, 3))")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    result = subprocess.run(
        [TTAP, "run", "-o", tmp_path / "run", "--", sys.executable, script],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout == "True\n"
    assert keys_of(tmp_path / "run") == [[["first", "second"]]]


def test_a_fresh_directory_is_made_and_named(program, tmp_path):
    script = program("model(torch.ones(1, 3))")
    result = subprocess.run(
        [TTAP, "run", "--", sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (made,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert made.name in result.stderr
    assert keys_of(made) == [[["first", "second"]]]


def test_coverage_of_a_run(program, tmp_path):
    script = program("model.unused = nn.Linear(1, 1); model(torch.ones(1, 3))")
    result = run(sys.executable, script, folder=tmp_path / "run")
    assert "unused" in result.stderr
    shown = subprocess.run([TTAP, "ls", tmp_path / "run", "--coverage"], capture_output=True, text=True, check=True)
    assert "unused" in shown.stdout
    assert "never called" in shown.stdout
    as_json = subprocess.run(
        [TTAP, "ls", tmp_path / "run", "--coverage", "--json"], capture_output=True, text=True, check=True
    )
    assert "unused" in json.dumps(json.loads(as_json.stdout))


def test_a_line_of_the_environment_switches_recording_on(program, tmp_path):
    script = program("""
import tensortap as tap
with tap.record(model):
    model(torch.ones(1, 3))
""")
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path, capture_output=True)
    assert list(Path(tmp_path).glob("*/rank*")) == []
    environment = {**os.environ, "TTAP_DIR": str(tmp_path / "run")}
    subprocess.run([sys.executable, script], check=True, env=environment, capture_output=True)
    assert keys_of(tmp_path / "run") == [[["first", "second"]]]
