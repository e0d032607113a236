"""A mismatch is cut down to the few nodes that show it, and to a program that shows it alone."""

import contextlib
import os
import subprocess
import sys

import models
import pytest
import torch
import wrong_backends
from checked_graphs import Checking, compiled
from graph_capture import captured
from tensortap import SearchLimits
from tensortap.graph.check.bisect import reduce_mismatch
from tensortap.graph.check.script import place_of


def run_alone(script, *words):
    """Runs a script as somebody who has PyTorch, and not TensorTap."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(script.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, env=environment, cwd=script.parent, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("name", ["minilm", "llama"])
def test_a_wrong_backend_on_a_model(name, tmp_path):
    model, inputs = models.ALL[name]()
    backend = Checking(wrong_backends.first_activation, tmp_path)
    with torch.no_grad():
        compiled(model, backend)(**inputs)
    (mismatch,) = backend.mismatches
    assert len(backend.graphs[0].module.graph.nodes) > 100
    assert len(mismatch.reduced.nodes) < 10
    activation = {"minilm": "gelu", "llama": "silu"}[name]
    assert [node.target.__name__ for node in mismatch.reduced.part.nodes] == [activation]
    assert mismatch.script == tmp_path / f"graph_{mismatch.graph_id}_mismatch.py"
    assert backend.lines[0].endswith(f"to see it: python {mismatch.script}")
    alone = run_alone(mismatch.script)
    assert alone.returncode == 1, alone.stderr
    assert "output 0: DIFFERENT" in alone.stdout
    if name == "minilm":
        right = run_alone(mismatch.script, "--backend", "eager")
        assert (right.returncode, right.stdout.splitlines()[0]) == (0, "output 0: the same")


def test_a_mistake_that_needs_two_nodes_far_apart(tmp_path):
    model, inputs = models.llama()
    backend = Checking(wrong_backends.second_activation, tmp_path)
    with torch.no_grad():
        compiled(model, backend)(**inputs)
    (mismatch,) = backend.mismatches
    assert [node.target.__name__ for node in mismatch.reduced.part.nodes] == ["silu", "silu"]
    assert mismatch.reduced.complete


def deep(x):
    for _ in range(6):
        x = torch.sin(x * 1.5) + x.mean()
    y = torch.relu(torch.sin(x + 1))
    for _ in range(6):
        y = torch.tanh(y - 0.1) * 2
    return y


def test_a_mistake_that_hides_when_the_value_is_looked_at(tmp_path):
    backend = Checking(wrong_backends.cos_for_sin_before_relu, tmp_path)
    compiled(deep, backend)(torch.linspace(-1, 1, 12))
    (mismatch,) = backend.mismatches
    assert [node.target.__name__ for node in mismatch.reduced.part.nodes] == ["sin", "relu"]
    assert run_alone(mismatch.script).returncode == 1


def test_a_wrong_decomposition_of_a_backends_own(tmp_path):
    backend = Checking(wrong_backends.with_wrong_cosine, tmp_path)
    compiled(lambda x: (x + 1).tanh().cos().square().sum(-1), backend)(torch.ones(2, 3))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["cos"]
    text = mismatch.script.read_text()
    assert "cos = tanh.cos()" in text and ".pt" not in text.partition("def named")[0]
    alone = run_alone(mismatch.script)
    assert alone.returncode == 1, alone.stderr


def of_another_library():
    """Operators that a process has and the next one has not, and one that all have."""
    with contextlib.suppress(RuntimeError):  # defined before
        torch.library.define("tensortap_tests::unused", "(Tensor x) -> Tensor")
    return torch.ops.tensortap_tests.unused.default, torch.ops.aten.digamma.default


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
def test_a_wrong_decomposition_in_inductor(stage, tmp_path, monkeypatch):
    from torch._inductor import decomposition

    monkeypatch.setitem(decomposition.decompositions, torch.ops.aten.gelu.default, wrong_backends.rough_gelu)
    for other in of_another_library():  # nothing of the part: the script need not find it
        monkeypatch.setitem(decomposition.decompositions, other, lambda x: x)
    decomposition.fast_random_decomps.cache_clear()  # a copy of the table, made when something is first compiled
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    backend = Checking("inductor", tmp_path, stage=stage)
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=False):
        compiled(net, backend)(torch.randn(4, 8))
    decomposition.fast_random_decomps.cache_clear()
    (mismatch,) = backend.mismatches
    assert len(mismatch.reduced.nodes) == 1
    assert "gelu" in str(mismatch.reduced.part.nodes[0].target)
    alone = run_alone(mismatch.script)
    assert alone.returncode == 1, alone.stderr


def test_a_mistake_in_what_is_written_to_an_input(tmp_path):
    def update(x, state):
        state.add_(x)
        return x * 2

    backend = Checking(wrong_backends.nothing_twice, tmp_path)
    compiled(update, backend)(torch.ones(3), torch.zeros(3))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["add_"]
    alone = run_alone(mismatch.script)
    assert alone.returncode == 1, alone.stderr
    assert "afterwards: DIFFERENT" in alone.stdout


def test_a_graph_within_the_graph(tmp_path):
    def choose(x):
        y = (x + 1).cos()
        return torch.cond(y.sum() > 0, lambda v: v.sin() * 2, lambda v: v.cos(), (y,)).tanh()

    backend = Checking(wrong_backends.one_too_many_after_cond, tmp_path)
    compiled(choose, backend)(torch.ones(3))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["cond"]
    alone = run_alone(mismatch.script)
    assert alone.returncode == 1, alone.stderr


def test_a_mistake_that_does_not_show_in_the_graph_alone_is_told(tmp_path):
    backend = Checking(wrong_backends.wrong_for_any_size, tmp_path)
    compiled(lambda x: x.cos(), backend, dynamic=True)(torch.ones(3, 4))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced is None and mismatch.script is None
    assert backend.lines[0].endswith("; compiled alone the graph does not show it")


def test_a_right_backend_has_no_smallest_part():
    (module,) = captured(deep, torch.ones(3))
    assert reduce_mismatch(module, [torch.ones(3)], "eager") is None


def test_the_search_ends_where_it_is_told_to():
    (module,) = captured(deep, torch.linspace(-1, 1, 12))
    inputs = [torch.linspace(-1, 1, 12)]
    wrong = wrong_backends.cos_for_sin_before_relu
    few = reduce_mismatch(module, inputs, wrong, limits=SearchLimits(compiles=3))
    assert few.compiles == 3 and not few.complete and len(few.nodes) > 2
    assert reduce_mismatch(module, inputs, wrong, limits=SearchLimits(seconds=0)) is None


def test_neither_graph_nor_inputs_are_changed():
    inputs = [torch.linspace(-1, 1, 12)]
    (module,) = captured(deep, *inputs)
    before = str(module.graph), inputs[0].clone()
    reduce_mismatch(module, inputs, wrong_backends.cos_for_sin_before_relu)
    assert str(module.graph) == before[0] and torch.equal(inputs[0], before[1])


def every_dtype(x):
    parts = [
        x.to(dtype) for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int8, torch.bool)
    ]
    total = sum(part.double() for part in parts)
    first, second = torch.split(total, [2, 2])
    return torch.nn.functional.gelu(torch.where(first > 0, second, float("inf"))) + torch.full((2,), 2.5)


def test_dtypes_several_outputs_and_infinities(tmp_path):
    backend = Checking(wrong_backends.first_activation, tmp_path)
    compiled(every_dtype, backend)(torch.tensor([1.0, 2.0, -3.0, 0.5]))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["gelu"]
    alone = run_alone(mismatch.script)
    assert alone.returncode == 1, alone.stderr


def test_a_backend_without_a_name_is_to_be_filled_in(tmp_path):
    backend = Checking(lambda module, inputs: wrong_backends.first_activation(module, inputs), tmp_path)
    compiled(lambda x: torch.nn.functional.gelu(x + 1), backend)(torch.ones(3))
    script = backend.mismatches[0].script
    alone = run_alone(script)
    assert alone.returncode == 2
    assert "give --backend package.module:name, or fill in BACKEND" in alone.stderr
    there = f"{wrong_backends.__file__}:first_activation"
    assert run_alone(script, "--backend", there).returncode == 1


PROGRAM = """
import sys
import torch
from checked_graphs import Checking, compiled

def sloppy(module, inputs):
    return lambda *given: [value + OFFSET for value in module(*given)]

OFFSET = 0.5
print("the program runs")
backend = Checking(sloppy, sys.argv[1])
compiled(lambda x: x.cos() * 2, backend)(torch.ones(3))
print(backend.mismatches[0].script)
"""


@pytest.mark.parametrize("above", ["", "if True:\n  "])
def test_a_backend_of_the_program_itself_is_taken_from_its_file(tmp_path, above):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("def sloppy", above + "def sloppy"))
    paths = os.pathsep.join([os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(program), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": paths}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    alone = run_alone(tmp_path / ran.stdout.split()[-1])
    assert alone.returncode == 1, alone.stderr
    assert "the program runs" not in alone.stdout  # it is not started again


def test_where_a_function_can_be_had_again():
    place, path = place_of(wrong_backends.first_activation)
    assert place == "wrong_backends:first_activation"
    assert wrong_backends.__file__.startswith(path)
    assert place_of(lambda: None) == (None, "")
