"""`ttap twice`: a program runs again, and the command says which operator gave other bits."""

import json
import os
import sys

import pytest
from ttap_command import ROOT, run

DIFFERING, REPEATING = ROOT / "bench/repeats/differing.py", ROOT / "bench/repeats/repeating.py"


def twice(*words, program, **environment):
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return run("twice", *words, "--", sys.executable, *program, PATH=path, **environment)


def code(text):
    return ["-c", f"import os, sys, torch\n{text}"]


def test_a_program_that_repeats_has_the_same_bits(tmp_path):
    result = twice("-o", tmp_path, "--times", "3", program=[REPEATING, "pool_of_threads"])
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("the same bits: ")
    assert result.stdout.endswith("  3 runs\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]  # the one between held the same


def test_the_order_of_a_set_is_named():
    result = twice(program=[DIFFERING, "order_of_a_set"], PYTHONHASHSEED="random")
    assert result.returncode == 1, result.stderr
    first, likely = result.stdout.splitlines()[:2]
    assert first.startswith("called otherwise: aten::add.Tensor: its argument /1 is what aten::exp (")
    assert "the order of a set" in likely
    assert "total = total + parts[name]" in result.stdout
    assert "look" not in result.stdout  # nothing is left to look at


def test_memory_that_nobody_wrote_to_is_filled_otherwise_in_each_run():
    result = twice("--json", program=[DIFFERING, "memory_that_nobody_wrote_to"])
    assert result.returncode == 1, result.stderr
    first = json.loads(result.stdout)["first"]
    assert (first["op"], first["kind"], first["same_inputs"]) == ("aten::add.Tensor", "uninitialised", True)


def test_why_says_what_gives_the_same_bits(tmp_path):
    result = twice("--why", "-o", tmp_path, program=[DIFFERING, "hash_of_a_string"], PYTHONHASHSEED="random")
    assert result.returncode == 1, result.stderr
    assert "  with one thread (OMP_NUM_THREADS=1): differs as before\n" in result.stdout
    assert "  with the hash seed of Python (PYTHONHASHSEED=0): the same bits in two runs\n" in result.stdout
    assert f"ttap log {tmp_path}/1 --around aten::mul.Tensor --pass 0 --rank 0" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    again = twice("-o", tmp_path, program=code("torch.ones(2) + 1"))
    assert (again.returncode, "a run lies in" in again.stderr) == (2, True)


def test_what_was_found_is_not_lost_with_a_later_run(tmp_path):
    text = f"""
        count = len(os.listdir({str(tmp_path)!r}))
        open(os.path.join({str(tmp_path)!r}, str(count)), 'w')
        if count < 2:
            import torch
            torch.ones(8) * (1 + count)
    """
    program = ["-c", "import os\nif True:\n" + text]
    result = twice("--why", program=program, PYTHONHASHSEED="random")
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith("called otherwise: aten::mul.Tensor: ")
    assert "  with one thread (OMP_NUM_THREADS=1): not known, nothing was recorded of " in result.stdout


def test_it_stops_at_the_first_run_that_differs(tmp_path):
    text = f"""
        count = len(os.listdir({str(tmp_path)!r}))
        open(os.path.join({str(tmp_path)!r}, str(count)), 'w')
        print('printed', count)
        x = torch.ones(8) * (2 if count == 2 else 1)
        sys.exit(3 if count == 2 else 0)
    """
    result = twice("--times", "5", program=code("if True:\n" + text))
    assert result.returncode == 1, result.stderr
    assert len(list(tmp_path.iterdir())) == 3
    assert "the second run is run 3 of 5" in result.stdout
    assert "the first run ended with exit code 0, the second with exit code 3" in result.stdout
    assert "printed 0" in result.stderr
    assert "printed" not in result.stdout


def test_steps_and_filters_bound_what_is_recorded():
    text = """
        model = torch.nn.Linear(4, 4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.5)
            for step in range(3):
                model(torch.ones(2, 4) * (os.getpid() if step == 1 else 1))
    """
    program = code("if True:\n" + text)
    assert twice("--steps", "0,2", "--filter", "addmm", program=program).returncode == 0
    assert twice("--filter", "addmm", program=program).returncode == 1


@pytest.mark.skipif(not __import__("torch").distributed.is_available(), reason="skipped: no torch.distributed")
def test_a_rank_that_only_received_says_from_which_rank(tmp_path):
    program = tmp_path / "ranks.py"
    program.write_text("""
import os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(8)
if dist.get_rank() == 1:
    x = x * os.getpid()
dist.all_reduce(x)
(x * 2).sum()
dist.destroy_process_group()
""")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    result = twice("--json", program=torchrun)
    assert result.returncode == 1, result.stderr
    document = json.loads(result.stdout)
    assert [(one["rank"], one["op"], one["kind"]) for one in document["findings"]] == [
        (1, "aten::mul.Tensor", "argument")
    ]
    assert document["received_from"] == {"0": 1}


@pytest.mark.parametrize(
    ("words", "program", "says"),
    [
        ([], [], "no program to run"),
        (["--times", "1"], ["true"], "--times: 1 runs cannot be compared"),
        ([], ["true"], "nothing was recorded of true (exit code 0)"),
        ([], ["/no/such/program"], "cannot run /no/such/program"),
        (["--python", "/no/such/python"], ["true"], "cannot run '/no/such/python'"),
    ],
)
def test_an_error_says_what_and_what_to_do(words, program, says):
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    result = run("twice", *words, *(["--", *program] if program else []), PATH=path)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"ttap twice: error: {says}" in result.stderr
    assert "\n  what to do: " in result.stderr
    assert "Traceback" not in result.stderr
