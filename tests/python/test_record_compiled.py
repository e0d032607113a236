"""Modules inside compiled regions: `tap.record(model, compiled=True)`."""

import subprocess
import sys

import pytest
import tensortap as tap
import torch
from small_models import passes_of
from tensortap.modules import taps
from torch import nn
from ttap_command import TTAP

OPTIONS = {"compiled": True, "report": False}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)

    def forward(self, x, scale=None):
        y = self.down(self.act(self.up(self.norm(x))))
        return {"sum": x + (y if scale is None else y * scale), "parts": (x, y)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x, scale=torch.ones(8, device=x.device))["sum"]
        return self.head(x)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def made():
    torch.manual_seed(0)
    return Model(), torch.randn(4, 8)


def keys_of(directory):
    return [list(each) for each in passes_of(directory).values()]


@pytest.mark.parametrize("roles", ["out", "in,out", "in,out,param"])
@pytest.mark.parametrize("modules", ["leaf", "all"])
def test_a_compiled_model_has_the_keys_of_an_eager_one_and_agrees(tmp_path, roles, modules):
    model, x = made()
    with torch.no_grad():
        plain = torch.compile(model)(x)
        with tap.record(model, tmp_path / "eager", roles=roles, modules=modules, report=False):
            model(x)
        torch._dynamo.reset()
        compiled = torch.compile(model)
        with tap.record(compiled, tmp_path / "compiled", roles=roles, modules=modules, **OPTIONS) as recording:
            for _ in range(2):
                assert torch.equal(compiled(x), plain)
    assert {item["name"] for item in recording.coverage["never_called"]} <= {"blocks"}  # a list, which nobody calls
    eager, first, second = keys_of(tmp_path / "eager") + keys_of(tmp_path / "compiled")
    whole = {key for key in first if key.startswith("@")}  # of the wrapper, which an eager model has not
    assert [key for key in first if key not in whole] == [key for key in eager if not key.startswith("@")]
    assert [key for key in second if "@param" not in key] == [key for key in first if "@param" not in key]
    assert tap.diff(tmp_path / "eager", tmp_path / "compiled").verdict in ("identical", "within tolerance")


@pytest.mark.parametrize("inside", ["in the compiled part", "eager between compiled parts"])
def test_a_shared_module_has_the_name_of_its_caller(tmp_path, inside):
    model, x = made()
    model.blocks[1].act = model.blocks[0].act
    if inside != "in the compiled part":
        model.blocks[0].act.forward = torch.compiler.disable(model.blocks[0].act.forward)
    with torch.no_grad():
        with tap.record(model, tmp_path / "eager", report=False):
            model(x)
        with tap.record(model, tmp_path / "compiled", **OPTIONS):
            torch.compile(model)(x)
    (eager,), (compiled,) = keys_of(tmp_path / "eager"), keys_of(tmp_path / "compiled")
    assert {"blocks.0.act", "blocks.1.act"} <= set(eager)
    assert compiled == eager


def test_what_the_compiler_gets_wrong_is_named_by_its_module(tmp_path):
    model, x = made()
    with torch.no_grad(), tap.record(model, tmp_path / "eager", roles="in,out", report=False):
        model(x)
    second = model.blocks[1].act
    second.approximate = "tanh"
    compiled = torch.compile(model)
    with torch.no_grad(), tap.record(compiled, tmp_path / "compiled", roles="in,out", **OPTIONS):
        compiled(x)
    diff = tap.diff(tmp_path / "eager", tmp_path / "compiled")
    assert diff.sentence == "diverged: blocks.1.act introduced the error"


def test_a_training_step_is_recorded_and_trains_as_without(tmp_path):
    steps = []
    for recorded in (False, True):
        torch._dynamo.reset()
        model, x = made()
        compiled = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        directory = tmp_path / "run" if recorded else None
        with tap.record(compiled, directory, **OPTIONS):
            for _ in range(3):
                optimizer.zero_grad()
                compiled(x).square().sum().backward()
                optimizer.step()
        steps.append([parameter.detach().clone() for parameter in model.parameters()])
    for plain, recorded in zip(*steps, strict=True):
        torch.testing.assert_close(recorded, plain)
    passes = keys_of(tmp_path / "run")
    assert [len(keys) for keys in passes] == [len(passes[0])] * 3
    assert "blocks.1.down" in passes[2]


def graph_of(model, x):
    """What Dynamo makes of a model: the names of what is called."""
    called = []

    def backend(graph, inputs):
        called.extend(str(node.target) for node in graph.graph.nodes if node.op.startswith("call"))
        return graph.forward

    torch.compile(model, backend=backend, fullgraph=True)(x)
    return called


def test_compiled_code_is_the_same_as_without_unless_asked_for(tmp_path):
    model, x = made()
    plain = graph_of(model, x)
    torch._dynamo.reset()
    with tap.record(model, tmp_path / "not", report=False):
        assert graph_of(model, x) == plain
    torch._dynamo.reset()
    with tap.record(model, tmp_path / "asked", **OPTIONS):
        assert sum("module_call" in name for name in graph_of(model, x)) == 9 + 2  # and that the pass begins and ends
    torch._dynamo.reset()
    assert graph_of(model, x) == plain


def test_an_exported_program_has_nothing_of_it(tmp_path):
    model, x = made()
    with tap.record(model, tmp_path, **OPTIONS):
        program = torch.export.export(model, (x,))
    assert not any("tensortap" in str(node.target) for node in program.graph.nodes)


def test_only_selected_modules_hand_their_results_over(tmp_path):
    model, x = made()
    with tap.record(model, tmp_path, filter="1.down", **OPTIONS):
        assert sum("module_call" in name for name in graph_of(model, x)) == 1 + 2
    assert keys_of(tmp_path) == [["blocks.1.down"]]


def test_each_recording_has_code_of_its_own_and_afterwards_it_is_gone(tmp_path):
    model, x = made()
    ours = []

    def backend(graph, inputs):
        ours.extend(node for node in graph.graph.nodes if "module_call" in str(node.target))
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        compiled(x)  # compiled before it is recorded
        assert not ours
        for name in ("a", "b"):
            with tap.record(compiled, tmp_path / name, **OPTIONS):
                compiled(x)
            assert len(ours) == 11
            ours.clear()
            compiled(x)
            assert not ours
    assert [len(keys) for keys in keys_of(tmp_path / "a")] == [9]
    assert tap.diff(tmp_path / "a", tmp_path / "b").verdict == "identical"


def test_what_compiled_code_did_not_tell_of_is_said(tmp_path):
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "unused": torch.compile(nn.Sequential(nn.Linear(2, 2)))})
    model.forward = lambda x: model["used"](x)
    with tap.record(model, tmp_path, **OPTIONS) as recording:
        model(torch.ones(1, 2))
    assert {item["name"]: item["why"] for item in recording.coverage["never_called"]} == {
        "unused.0": "never called, or in code that was compiled before the recording began"
    }


def test_a_model_that_is_compiled_in_its_place(tmp_path):
    model, x = made()
    model.compile()
    with tap.record(model, tmp_path, **OPTIONS), torch.no_grad():
        model(x)
        model(x)
    assert [len(keys) for keys in keys_of(tmp_path)] == [9, 9]


def test_a_failure_to_record_does_not_reach_the_program(tmp_path, monkeypatch):
    model, x = made()
    compiled = torch.compile(model)
    with torch.no_grad(), tap.record(compiled, tmp_path, **OPTIONS):
        plain = compiled(x)
        monkeypatch.setattr(taps.Tap, "after_compiled", lambda self, results: 1 / 0)
        assert torch.equal(compiled(x), plain)


def test_a_program_that_knows_nothing_of_it(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
        "compiled = torch.compile(model, backend='aot_eager')\n"
        "with torch.no_grad():\n"
        "    for _ in range(2):\n"
        "        compiled(torch.ones(3, 4))\n"
    )
    command = [TTAP, "run", "--compiled", "-o", tmp_path / "run", "--", sys.executable, script]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [sorted(keys) for keys in keys_of(tmp_path / "run")] == [["0", "1", "2"]] * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_code_on_a_gpu(tmp_path, mode):
    model, x = made()
    model, x = model.cuda(), x.cuda()
    with torch.no_grad():
        plain = model(x)
        with tap.record(model, tmp_path / "eager", report=False):
            model(x)
        compiled = torch.compile(model, mode=mode)
        with tap.record(compiled, tmp_path / "compiled", **OPTIONS):
            for _ in range(5):
                torch.compiler.cudagraph_mark_step_begin()
                torch.testing.assert_close(compiled(x).clone(), plain)
        torch.cuda.synchronize()
    complete = [keys for keys in keys_of(tmp_path / "compiled") if len(keys) == 9]
    # A CUDA graph's replays are passes of their own, beside those of the calls that launch them.
    assert len(complete) == 5 if mode == "default" else len(complete) >= 5
    assert tap.diff(tmp_path / "eager", tmp_path / "compiled").verdict in ("identical", "within tolerance")
