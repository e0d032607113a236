"""A graph as code: it can be read, it says where each node comes from, and it is Python that computes the same."""

import ast
import os

import pytest
import torch
from graph_capture import captured, captured_aot
from tensortap.graph.fx.code import graph_code, graph_dot, write_graph
from tensortap.graph.fx.text import dotted, module_of, source_of


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = self.proj(x)
        return (h + x).relu()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def code_of(function, *inputs, **options):
    (module,) = captured(function, *inputs, **options)
    return graph_code(module, "0123456789ab", stage="dynamo", part="inference")


def run(code, module, *inputs):
    """Runs the function that the code defines on a graph's inputs."""
    names = {}
    exec(compile(code, "graph.py", "exec"), names)
    return names["forward"](module, *inputs)


def test_it_begins_with_what_it_is():
    first = code_of(Net(), torch.ones(2, 8)).splitlines()[0]
    assert first == "# graph 0123456789ab, dynamo, inference: 6 nodes, 5 inputs"


def test_nodes_stand_below_their_module_and_line():
    lines = [line.strip() for line in code_of(Net(), torch.ones(2, 8)).splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("# layers.1.proj"))
    assert lines[start + 1].startswith("# test_graph_code.py:") and lines[start + 1].endswith("h = self.proj(x)")
    assert lines[start + 2].startswith('h_1: "f32[2, 8]" = torch.nn.functional.linear(x, ')
    assert lines[start + 4] == "# layers.1"
    assert lines[start + 5].endswith("in forward: return (h + x).relu()")
    assert lines[start + 6] == 'add_1: "f32[2, 8]" = h_1 + x  # h_1 f32[2, 8], x f32[2, 8]'


def test_sizes_that_may_change_have_their_symbols():
    code = code_of(lambda x: x.cos(), torch.ones(3, 8), dynamic=True)
    assert "# sizes that may change: s77 (was 3), s27 (was 8)" in code
    assert 'cos: "f32[s77, s27]" = l_x_.cos()  # l_x_ f32[s77, s27]' in code


def every_kind_of_argument(x, y):
    first, *others = torch.split(x, [2, 3, 3], dim=-1)
    joined = torch.cat([first, *others], dim=-1)[..., None, 1:7:2]
    clamped = joined.clamp(min=float("-inf"), max=float("inf")).to(torch.float64)
    made = torch.full((2, 1, 3), 2.5, dtype=torch.float64, device="cpu")
    return (-2) ** (clamped + made), torch.einsum("ij,kj->ik", x, y), x.view(2, -1).flip([0]), (x == 1).any()


def test_it_computes_what_the_graph_computes():
    torch.manual_seed(0)
    inputs = torch.randn(2, 8), torch.randn(2, 8)
    (module,) = captured(every_kind_of_argument, *inputs, dynamic=False)
    code = graph_code(module, "0123456789ab", stage="dynamo", part="inference")
    ours, theirs = run(code, module, *inputs), every_kind_of_argument(*inputs)
    assert not ours[0].isfinite().any()  # -2 to a broken power: FX's own code computes -(2 ** x)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_graphs_of_the_later_stage_are_python_as_well():
    given = torch.randn(2, 8, requires_grad=True), torch.randn(2, 8)
    for part, module in captured_aot(lambda x, y: (x * y).cos(), *given).items():
        code = graph_code(module, "0123456789ab", stage="aot", part=part)
        ast.parse(code)
        assert f", aot, {part}: " in code
        assert "torch.ops.aten.mul.Tensor(" in code
    inputs = torch.randn(2, 8), torch.randn(2, 8)
    (module,) = captured_aot(lambda x, y: (x * y).cos(), *inputs).values()
    code = graph_code(module, "0123456789ab", stage="aot", part="inference")
    assert torch.equal(run(code, module, *inputs)[0], module(*inputs)[0])


def test_graphs_within_a_graph_are_shown():
    code = code_of(lambda x: torch.cond(x.sum() > 0, lambda v: v.cos(), lambda v: v.sin(), (x,)), torch.ones(3))
    ast.parse(code)
    assert "l_x__1.cos()" in code and "l_x__1.sin()" in code
    assert "torch.ops.higher_order.cond(" in code


def test_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")  # no Graphviz
    (module,) = captured(Net(), torch.ones(2, 8))
    paths = write_graph(module, tmp_path / "new", "0123456789ab", stage="dynamo", part="inference")
    assert [path.name for path in paths] == ["graph_0123456789ab.py", "graph_0123456789ab.dot"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(path.name for path in paths)
    assert paths[0].read_text() == graph_code(module, "0123456789ab", stage="dynamo", part="inference")
    assert paths[1].read_text() == graph_dot(module, "0123456789ab")


def test_the_picture_has_an_arrow_for_every_use():
    (module,) = captured(Net(), torch.ones(2, 8))
    lines = graph_dot(module, "0123456789ab").splitlines()
    arrows = {(used.name, node.name) for node in module.graph.nodes for used in node.all_input_nodes}
    assert {tuple(line.strip(' ";').split('" -> "')) for line in lines if "->" in line} == arrows
    assert sum("label=" in line for line in lines) == len(module.graph.nodes)


def stand_in(folder, script):
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return os.pathsep.join([str(folder), "/usr/bin", "/bin"])


@pytest.mark.parametrize(
    ("script", "drawn"),
    [('/bin/echo "<svg/>" > "$3"', True), ("exit 1", False), ("kill -9 $$", False)],
    ids=["drawn", "fails", "dies"],
)
def test_graphviz_draws_it_where_it_can(tmp_path, monkeypatch, script, drawn):
    monkeypatch.setenv("PATH", stand_in(tmp_path, script))
    (module,) = captured(Net(), torch.ones(2, 8))
    paths = write_graph(module, tmp_path / "out", "0123456789ab", stage="dynamo", part="inference")
    assert [path.suffix for path in paths] == [".py", ".dot", *([".svg"] if drawn else [])]
    assert len(list((tmp_path / "out").iterdir())) == len(paths)


def test_modules_have_the_names_that_the_model_gives_them():
    assert dotted("L['self'].layers[0].proj") == "layers.0.proj"
    assert dotted("L['self']._modules['layers']._modules['0'].proj") == "layers.0.proj"
    assert dotted("layers.0.proj") == "layers.0.proj"
    assert dotted("L['self']") == ""
    (module,) = captured(Net(), torch.ones(2, 8))
    found = {node.name: (module_of(node), source_of(node).partition(" ")[2]) for node in module.graph.nodes}
    assert found["h_1"] == ("layers.1.proj", "in forward: h = self.proj(x)")
