"""The id of a graph: the same for the same graph in every process, another for another graph."""

import json
import os
import subprocess
import sys

import pytest
import torch
from graph_capture import captured, captured_aot
from tensortap.graph.fx.identity import graph_id, target_name
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def id_of(function, *inputs, stage="dynamo", **options):
    (module,) = captured(function, *inputs, **options)
    return graph_id(module, stage, "forward")


def scaled(x, y):
    return torch.add(x, y, alpha=2).reshape(-1).cos()


A, B = torch.ones(3, 4), torch.ones(4)


def test_an_id_is_twelve_hexadecimal_digits():
    assert len(id_of(scaled, A, B)) == 12
    int(id_of(scaled, A, B), 16)


def test_captured_again_it_is_the_same_whatever_the_values():
    assert id_of(scaled, A, B) == id_of(scaled, A * 3, B - 1)


def test_stage_and_part_are_told_apart():
    (module,) = captured(scaled, A, B)
    ids = {graph_id(module, stage, part) for stage in ("dynamo", "aot") for part in ("forward", "inference")}
    assert len(ids) == 4


def other_constant(x, y):
    return torch.add(x, y, alpha=3).reshape(-1).cos()


def other_target(x, y):
    return torch.add(x, y, alpha=2).reshape(-1).sin()


def other_argument(x, y):
    return torch.add(y, x, alpha=2).reshape(-1).cos()


def other_name(x, y):
    total = torch.add(x, y, alpha=2)
    return total.reshape(-1).cos()


def as_float(x, y):
    return torch.add(x, y, alpha=2.0).reshape(-1).cos()


@pytest.mark.parametrize("changed", [other_constant, other_target, other_argument, other_name, as_float])
def test_another_graph_has_another_id(changed):
    assert id_of(changed, A, B) != id_of(scaled, A, B)


def test_other_inputs_make_another_graph():
    inputs = {
        "as it was": (A, B),
        "shape": (torch.ones(2, 4), B),
        "dtype": (A.double(), B.double()),
        "strides": (torch.ones(4, 3).t(), B),
        "gradient": (A.clone().requires_grad_(), B),
    }
    ids = {name: id_of(scaled, *given, dynamic=False) for name, given in inputs.items()}
    assert len(set(ids.values())) == len(ids)


def test_symbols_are_numbered_not_named():
    # The number of a symbol is drawn from the name of its source: s65, s99 in one graph are s99, s65 in the other.
    def graph(one, two):
        shapes = ShapeEnv()

        def symbol(name, hint):
            return shapes.create_symintnode(shapes.create_symbol(hint, ConstantSource(name)), hint=hint)

        sizes = [symbol(one, 7), symbol(two, 9)]
        graph = torch.fx.Graph()
        nodes = []
        for size in sizes:
            node = graph.placeholder(str(size))
            node.meta["val"] = size
            nodes.append(node)
        full = graph.call_function(torch.ops.aten.full.default, ([nodes[1], 8], 1))
        full.update_arg(0, [nodes[1], sizes[0] + 2 * sizes[1]])
        graph.output((full,))
        return torch.fx.GraphModule(torch.nn.Module(), graph), [str(size) for size in sizes]

    (first, names), (second, other_names) = graph("b", "a"), graph("a", "b")
    assert sorted(names) == names and sorted(other_names) != other_names  # so that sympy would order them otherwise
    assert graph_id(first, "aot", "forward") == graph_id(second, "aot", "forward")


def test_a_dynamic_graph_is_one_graph_for_all_sizes():
    modules = captured(scaled, (A, B), (torch.ones(5, 4), B), (torch.ones(6, 4), B))
    assert len(modules) == 2  # of one size, then of any
    assert len({graph_id(module, "dynamo", "forward") for module in modules}) == 2
    (again,) = captured(scaled, torch.ones(9, 4), B, dynamic=True)
    (twice,) = captured(scaled, torch.ones(8, 4), B, dynamic=True)
    assert graph_id(again, "dynamo", "forward") == graph_id(twice, "dynamo", "forward")


def test_subgraphs_count():
    def choose(x, least):
        return torch.cond(x.sum() > 0, lambda v: v + 1, least, (x,))

    one = id_of(lambda x: choose(x, lambda v: v - 1), A)
    assert one == id_of(lambda x: choose(x, lambda v: v - 1), A)
    assert one != id_of(lambda x: choose(x, lambda v: v - 2), A)


def holder(value, name="_tensor_constant0"):
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.add, (graph.placeholder("x"), graph.get_attr(name))))
    root = torch.nn.Module()
    setattr(root, name, value)
    return torch.fx.GraphModule(root, graph)


def test_a_constant_counts_with_its_values_and_a_weight_does_not():
    ids = [graph_id(holder(torch.tensor(value)), "dynamo", "forward") for value in (1.0, 1.0, 2.0)]
    assert ids[0] == ids[1] != ids[2]
    weights = [torch.nn.Parameter(torch.full((3,), value)) for value in (1.0, 2.0)]
    assert len({graph_id(holder(weight, "weight"), "dynamo", "forward") for weight in weights}) == 1


def test_modules_count_by_type_and_what_they_say_of_themselves():
    def graph(**options):
        return torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LeakyReLU(**options)))

    ids = [graph_id(graph(negative_slope=slope), "dynamo", "forward") for slope in (0.1, 0.1, 0.2)]
    assert ids[0] == ids[1] != ids[2]


def test_objects_without_a_text_of_their_own_do_not_leave_an_address():
    class Thing:
        pass

    def graph():
        made = torch.fx.Graph()
        made.output(made.call_function(torch.add, (made.placeholder("x"), 1)))
        made.find_nodes(op="call_function", target=torch.add)[0].__dict__["_kwargs"] = {"thing": Thing()}
        return torch.fx.GraphModule(torch.nn.Module(), made)

    kept = [graph(), graph()]
    assert len({graph_id(one, "aot", "forward") for one in kept}) == 1


def test_targets_have_the_names_that_people_write():
    def function(x, w):
        return torch.nn.functional.gelu(torch.nn.functional.linear(x, w) + 1).view(-1)

    (module,) = captured(function, A, torch.ones(2, 4))
    names = [target_name(node) for node in module.graph.nodes if node.op.startswith("call")]
    assert names == ["torch.nn.functional.linear", "operator.add", "torch.nn.functional.gelu", "view"]
    forward = captured_aot(function, A, torch.ones(2, 4))["inference"]
    names = [target_name(node) for node in forward.graph.nodes if node.op.startswith("call")]
    assert "aten.gelu.default" in names


IN_ANOTHER_PROCESS = """
import json
import torch
from graph_capture import captured, captured_aot
from tensortap.graph.fx.identity import graph_id

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 16)

    def forward(self, x, *, options={"a": [1, None, 2.5], "b": {3, 1, 2}}):
        h = torch.nn.functional.gelu(self.up(self.norm(x)))
        first, second = torch.split(h, 8, dim=-1)
        torch._dynamo.graph_break()
        return torch.cond(h.sum() > 0, lambda v: v.cos(), lambda v: v.sin(), (first * options["a"][2],)) + second

torch.manual_seed(0)
net = Net()
found = {}
for dynamic in (False, True):
    for module in captured(net, torch.ones(3, 8), dynamic=dynamic):
        found[graph_id(module, "dynamo", "forward")] = [node.name for node in module.graph.nodes]
    parts = captured_aot(lambda x: net.up(net.norm(x)).relu(), torch.ones(3, 8, requires_grad=True), dynamic=dynamic)
    for part, module in parts.items():
        found[graph_id(module, "aot", part)] = [node.name for node in module.graph.nodes]
print(json.dumps(found))
"""


def test_two_processes_agree_on_ids_and_on_names():
    def found(seed):
        here = os.path.dirname(__file__)
        paths = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    first, second = found("1"), found("2")
    assert first == second
    assert len(first) >= 7
