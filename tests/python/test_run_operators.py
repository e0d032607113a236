"""`ttap run --ops`: the operators of a whole program, with modules or without."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
import tensortap as tap
from ttap_command import TTAP, run

PLAIN = """
import torch

def scores(x):
    return torch.log(torch.relu(x - 1))

x = torch.arange(4.0)
scores(x)
scores(x).sum()
"""
OF_PLAIN = ["aten::arange", *["aten::sub.Tensor", "aten::relu", "aten::log"] * 2, "aten::sum"]


@pytest.fixture
def recorded(tmp_path):
    """Runs a program under `ttap run --ops`, and gives the run."""

    def run_it(text, *options, code=0, name="run"):
        script = tmp_path / f"{name}.py"
        script.write_text(textwrap.dedent(text))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TTAP_")}
        level = [] if "--level" in options else ["--level", "full"]
        words = [TTAP, "run", "-o", tmp_path / name, "--ops", *level, *options, "--", sys.executable, script]
        result = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, cwd=tmp_path)
        assert result.returncode == code, result.stderr
        run_it.told = result.stderr
        return tmp_path / name

    return run_it


def passes_of(directory):
    (rank,) = tap.open(directory).ranks
    return rank.passes


def names(recorded_pass):
    return [event.name for event in recorded_pass.events]


def names_of(directory):
    """The names of each pass of the only rank."""
    return {number: names(each) for number, each in passes_of(directory).items()}


# What a program may do meanwhile


def test_a_child_that_is_forked_while_a_thread_runs_the_first_operator_runs_on(recorded):
    recorded(
        """
        import os, signal, threading, time, torch
        from tensortap.session.writer import Writer

        acquire, begun = Writer.acquire.__func__, threading.Event()
        def slowly(cls, recording):
            begun.set()
            time.sleep(1)
            return acquire(cls, recording)
        Writer.acquire = classmethod(slowly)
        thread = threading.Thread(target=lambda: torch.ones(2))
        thread.start()
        begun.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            torch.ones(3).add(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
        """
    )


def test_operators_beside_those_of_a_model_are_in_some_pass(recorded):
    directory = recorded(
        """
        import queue, threading, torch
        batches = queue.Queue(2)
        def prefetch():
            for i in range(100):
                batches.put(torch.full((2, 4), float(i)).mul(2).add(1))
            batches.put(None)
        threading.Thread(target=prefetch).start()
        model = torch.nn.Linear(4, 4)
        with torch.no_grad():
            while (batch := batches.get()) is not None:
                model(batch)
        """
    )
    found = [name for names in names_of(directory).values() for name in names]
    assert found.count("aten::mul.Tensor") == 100
    assert "outside" not in recorded.told


def test_who_asks_where_pytorch_is_finds_what_its_loader_has(recorded):
    recorded(
        """
        import importlib.util
        loader = importlib.util.find_spec("torch").loader
        assert loader.is_package("torch") and loader.get_source("torch")
        import torch
        torch.ones(1)
        """
    )


def test_an_error_that_the_program_shows_and_survives_aborts_nothing(recorded):
    directory = recorded(
        """
        import code, torch
        torch.ones(1)
        code.InteractiveConsole().runsource("1 / 0")
        """
    )
    assert [each.ending for each in passes_of(directory).values()] == ["complete"]


# Programs without modules


def test_a_program_without_modules_is_one_pass_from_its_first_operator_to_its_last(recorded):
    directory = recorded(PLAIN)
    assert names_of(directory) == {0: OF_PLAIN}
    assert passes_of(directory)[0].ending == "complete"
    assert "1 pass" in recorded.told and "outside" not in recorded.told


def test_check_names_the_operator_that_made_a_nan_in_a_program_without_modules(recorded):
    directory = recorded(PLAIN, "--stacks")
    result = run("check", directory)
    assert result.returncode == 1
    assert result.stdout.startswith("FIRST  aten::log\n")
    assert "return torch.log(torch.relu(x - 1))" in result.stdout


def test_diff_names_the_operator_in_which_two_programs_without_modules_part(recorded):
    program = """
    import torch
    x = torch.arange(1.0, 5.0)
    for _ in range(3):
        x = torch.{}(x * 2)
        x = x / x.sum()
    """
    right = recorded(program.format("sqrt"), name="right")
    wrong = recorded(program.format("rsqrt"), name="wrong")
    assert run("diff", right, right).returncode == 0
    result = run("diff", right, wrong)
    assert result.returncode == 1
    assert result.stdout.startswith("diverged: aten::sqrt (in B aten::rsqrt) introduced the error\n")


def test_the_log_of_a_program_without_modules(recorded):
    log = run("log", recorded(PLAIN)).stdout
    assert "aten::relu(t$1: f32[4]) -> t$2: f32[4]" in log


def test_gradients_of_a_program_without_modules_lead_to_their_forward(recorded):
    directory = recorded("""
    import torch
    w = torch.ones(2, requires_grad=True)
    w.sin().sum().backward()
    """)
    (each,) = passes_of(directory).values()
    (gradient,) = (event for event in each.events if event.name.endswith("aten::cos"))
    assert gradient.name == "backward:aten::cos"
    assert each.events[gradient.forward].name == "aten::sin"


def test_operators_of_other_threads_are_in_the_pass(recorded):
    directory = recorded("""
    import threading, torch
    x = torch.ones(2)
    for _ in range(2):
        thread = threading.Thread(target=lambda: [torch.ones(2), x.sin()])
        thread.start()
        thread.join()
    """)
    assert names_of(directory) == {0: ["aten::ones"] + ["aten::ones", "aten::sin"] * 2}


def test_options_count_for_a_program_without_modules(recorded):
    directory = recorded(PLAIN, "--filter", "log|relu", "--level", "relu=meta", "--level", "fingerprint", name="filter")
    (each,) = passes_of(directory).values()
    assert names(each) == ["aten::relu", "aten::log"] * 2
    assert each.record("aten::log").level == "fingerprint"
    assert each.record("aten::relu").level == "meta"
    assert "matches none" not in recorded.told
    assert names_of(recorded(PLAIN, "--steps", "0", name="first")) == {0: OF_PLAIN}
    assert not any(rank.passes for rank in tap.open(recorded(PLAIN, "--steps", "1-", name="later")).ranks)
    assert "none of the program's steps was to be recorded" in recorded.told


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("import torch; print(torch.__version__)", []),
        (PLAIN, ["--filter", "aten::mm"]),
        (PLAIN, ["--ranks", "1"]),
    ],
    ids=["no operator", "none selected", "another rank"],
)
def test_a_process_with_nothing_to_record_leaves_nothing(recorded, text, options):
    assert list(recorded(text, *options).iterdir()) == []
    assert "no process recorded anything" in recorded.told


# Programs that end early


@pytest.mark.parametrize(
    ("end", "code", "ending"),
    [
        ("sys.exit(3)", 3, "complete"),
        ("raise ValueError", 1, "aborted"),
        ("torch.ones(2) @ torch.ones(3)", 1, "aborted"),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "aborted"),
    ],
)
def test_a_program_without_modules_that_ends_early(recorded, end, code, ending):
    directory = recorded(f"import os, signal, sys\n{PLAIN}\n{end}\n", code=code)
    assert names_of(directory)[0][: len(OF_PLAIN)] == OF_PLAIN
    assert passes_of(directory)[0].ending == ending
    assert tap.open(directory).ranks[0].coverage


def test_a_program_without_modules_that_is_killed_keeps_what_was_written(recorded):
    program = f"import os, signal, time\n{PLAIN}\ntime.sleep(2)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    directory = recorded(program, code=-signal.SIGKILL)
    assert passes_of(directory)[0].ending == "incomplete"


# Programs with modules

MODEL = """
import torch
model = torch.nn.Sequential(torch.nn.ReLU())
x = torch.ones(2)
"""
CALL = ["Sequential", "0", "0:aten::relu"]


def test_what_runs_before_the_first_call_belongs_to_the_first_pass(recorded):
    directory = recorded(MODEL + "model(x)\nmodel(x)")
    assert names_of(directory) == {0: ["aten::ones", *CALL], 1: CALL}


@pytest.mark.parametrize("mode", ["torch.no_grad()", "torch.enable_grad()"])
def test_what_runs_between_the_calls_and_after_the_last_belongs_to_the_pass_before(recorded, mode):
    directory = recorded(MODEL + f"with {mode}:\n    for _ in range(3):\n        model(x).sin()")
    assert names_of(directory) == {0: ["aten::ones", *CALL, "aten::sin"], 1: [*CALL, "aten::sin"],
                                   2: [*CALL, "aten::sin"]}  # fmt: skip
    assert {each.ending for each in passes_of(directory).values()} == {"complete"}
    assert "outside" not in recorded.told


def test_passes_have_the_numbers_that_they_have_without_operators(recorded):
    text = MODEL + "for scale in range(4):\n    model(x * scale).cos()"
    directory = recorded(text, "--steps", "1,3")
    assert names_of(directory) == {1: [*CALL, "aten::cos", "aten::mul.Tensor"], 3: [*CALL, "aten::cos"]}


def test_what_follows_a_call_that_failed_belongs_to_its_pass(recorded):
    directory = recorded(
        MODEL
        + """
class Fails(torch.nn.Module):
    def forward(self, x):
        x.cos()
        raise ValueError
fails = Fails()
with torch.no_grad():
    try:
        fails(x)
    except ValueError:
        pass
    x.sin()
    model(x)
"""
    )
    assert names_of(directory) == {0: ["aten::ones", "Fails", "Fails:aten::cos", "aten::sin"], 1: CALL}
    assert [each.ending for each in passes_of(directory).values()] == ["aborted", "complete"]


def test_a_first_call_on_another_thread_takes_the_first_pass(recorded):
    directory = recorded(
        MODEL
        + """
import threading
thread = threading.Thread(target=lambda: model(x).sin())
thread.start()
thread.join()
x.cos()
"""
    )
    assert names_of(directory) == {0: ["aten::ones", *CALL, "aten::sin", "aten::cos"]}


def test_children_record_for_themselves(recorded):
    directory = recorded("""
    import multiprocessing, torch

    def work():
        torch.ones(2).sin()

    def idle():
        pass

    if __name__ == "__main__":
        x = torch.ones(3)
        for method in ("fork", "spawn"):
            for target in (work, idle):
                child = multiprocessing.get_context(method).Process(target=target)
                child.start()
                child.join()
                assert child.exitcode == 0
        x.cos()
    """)
    all_names = [names(each) for rank in tap.open(directory).ranks for each in rank.passes.values()]
    assert sorted(all_names) == [["aten::ones", "aten::cos"]] + [["aten::ones", "aten::sin"]] * 2


def test_a_child_records_though_its_parent_has_run_nothing(recorded):
    directory = recorded("""
    import os, torch
    child = os.fork()
    if child == 0:
        torch.ones(2).sin()
        raise SystemExit
    assert os.waitpid(child, 0)[1] == 0
    """)
    assert names_of(directory) == {0: ["aten::ones", "aten::sin"]}


def test_a_child_that_calls_no_module_does_not_miss_the_models_of_its_parent(recorded):
    directory = recorded(
        MODEL
        + """
import os
model(x)
model(x)
child = os.fork()
if child == 0:
    x.sin()
    raise SystemExit
assert os.waitpid(child, 0)[1] == 0
"""
    )
    assert "never called" not in recorded.told
    parent, child = sorted(tap.open(directory).ranks, key=lambda rank: rank.pid)
    assert [len(parent.passes), len(child.passes)] == [2, 1]
    assert parent.coverage["source"]["roots"] == [{"name": "Sequential", "modules": 2, "selected": 1, "passes": 2}]


def test_a_program_that_records_by_itself_is_left_to_it(recorded):
    directory = recorded("""
    import tensortap as tap
    with tap.record(None, "elsewhere", report=False):
        import torch
        model = torch.nn.Sequential(torch.nn.ReLU())
        x = torch.ones(2)
        model(x)
    """)
    assert names_of(directory) == {0: CALL}


def test_what_such_a_program_runs_before_is_a_pass(recorded):
    directory = recorded(
        "import tensortap as tap\n"
        + MODEL
        + """
with tap.record(model, "elsewhere", report=False):
    model(x)
"""
    )
    assert names_of(directory) == {0: ["aten::ones"], 1: CALL}


def test_a_program_may_ask_whether_there_is_pytorch_before_it_imports_it(recorded):
    directory = recorded("import importlib.util\nassert importlib.util.find_spec('torch')\n" + PLAIN)
    assert names_of(directory) == {0: OF_PLAIN}
