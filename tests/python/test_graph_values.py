"""What is recorded of a node's arguments and results: all of them, as they were when the node ran."""

import gc
import operator
import weakref

import pytest
import tensortap as tap
import torch
from compiled_graphs import compiled_afresh, node_of_target, nodes_of, only_pass, record, values_of  # noqa: F401
from small_models import Model, passes_of
from torch import fx, nn


def interpreted(folder, graph, *arguments, **options):
    """Runs a graph made by hand, as the backend would run one of Dynamo's."""
    module = fx.GraphModule(options.pop("root", nn.Module()), graph)
    options.setdefault("strict", True)
    with tap.graph_backend(folder, report=False, **options) as backend:
        return backend(module, list(arguments))(*arguments)


def test_keyword_arguments_lists_slices_and_none_are_all_there(tmp_path):
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    added = graph.call_function(torch.add, (x, y), {"alpha": 2})
    joined = graph.call_function(torch.cat, ([added, y, x],), {"dim": 0})
    sliced = graph.call_function(operator.getitem, (joined, (slice(0, None, 2), None)))
    clamped = graph.call_function(torch.clamp, (sliced, None, y), {})
    summed = graph.call_method("sum", (clamped,), {"dim": [0, 1], "dtype": torch.float64})
    graph.output((summed, clamped))
    a, b = torch.randn(2), torch.randn(2)
    total, _ = interpreted(tmp_path, graph, a, b)
    nodes = nodes_of(recorded := only_pass(tmp_path))
    assert nodes["add"].arguments == "%0, %1, alpha=2"
    assert nodes["cat"].arguments == "[%0, %1, %2], dim=0"
    assert [use.path for use in nodes["cat"].uses] == ["/0/0", "/0/1", "/0/2", ""]
    assert nodes["getitem"].arguments == "%0, (slice(0, None, 2), None)"
    assert nodes["clamp"].arguments == "%0, None, %1"
    assert [use.path for use in nodes["clamp"].uses] == ["/0", "/2", ""]
    assert nodes["sum_1"].arguments == "%0, dim=[0, 1], dtype=torch.float64"
    assert nodes["sum_1"].notes == {"op": "call_method", "target": "sum"}
    expected = torch.cat([torch.add(a, b, alpha=2), b, a])[0::2, None].clamp(None, b).sum(dtype=torch.float64)
    assert torch.equal(total, expected) and torch.equal(recorded["%sum_1"], expected)


def test_nested_arguments_by_name_and_texts_with_a_percent_sign(tmp_path):
    def nested(table, *, more, text):
        return table["a"][0] + more[1]["b"]

    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    given = {"table": {"a": [x, 3]}}
    graph.output(graph.call_function(nested, ({"a": [x, 3]},), {"more": (None, {"b": y}), "text": "50%"}))
    result = interpreted(tmp_path, graph, torch.ones(2), torch.ones(2))
    node = nodes_of(only_pass(tmp_path))["nested"]
    assert node.arguments == "{'a': [%0, 3]}, more=(None, {'b': %1}), text='50%%'"
    assert [use.path for use in node.uses[:2]] == ["/0/a/0", "/more/1/b"]
    assert result.tolist() == [2, 2] and given


def test_inputs_are_recorded_only_where_no_record_holds_them(tmp_path):
    graph = fx.Graph()
    x = graph.placeholder("x")
    one = graph.call_function(torch.neg, (x,))
    two = graph.call_function(torch.add, (one, one))
    graph.output(graph.call_function(torch.mul, (one, two)))
    interpreted(tmp_path, graph, torch.ones(2), filter=["add", "mul"])
    recorded = only_pass(tmp_path)
    assert list(recorded) == ["%add@in/0", "%add", "%mul"]  # once, though it is used three times
    keys = list(recorded)
    assert [keys[use.record] for use in nodes_of(recorded)["mul"].uses] == ["%add@in/0", "%add", "%mul"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_nodes_that_write_are_recorded_before_and_after(tmp_path, mode):
    def function(x, y):
        view = x.view(-1)
        a = x.add(1)  # x as it came
        x.add_(y)
        b = view * 2  # the view's value is another one now
        x.mul_(2)
        return a, b, x + 0

    with mode():
        x, y = torch.ones(2, 2), torch.full((2, 2), 3.0)
        with tap.graph_backend(tmp_path, report=False, strict=True) as backend:
            _, b, last = torch.compile(function, backend=backend)(x, y)
    assert b.tolist() == [8] * 4 and last.tolist() == [[8, 8], [8, 8]] and x.tolist() == [[8, 8], [8, 8]]
    recorded = only_pass(tmp_path)
    add_, mul_ = node_of_target(recorded, "add_$"), node_of_target(recorded, "mul_$")
    assert values_of(recorded, add_)["/0"].tolist() == [[1, 1], [1, 1]]
    assert recorded[add_.name].tolist() == [[4, 4], [4, 4]]
    assert [use.written for use in add_.uses] == [True, False, False]
    assert values_of(recorded, mul_)["/0"].tolist() == [[4, 4], [4, 4]]
    doubled = node_of_target(recorded, r"operator\.mul")
    assert values_of(recorded, doubled)["/0"].tolist() == [4, 4, 4, 4]
    assert values_of(recorded, node_of_target(recorded, r"operator\.add"))["/0"].tolist() == [[8, 8], [8, 8]]


def test_what_is_written_and_not_given_back_is_recorded_after(tmp_path):
    def function(x, index, values):
        x[index] = values
        return x.sum()

    x = torch.zeros(4)
    record(tmp_path, function, (x, torch.tensor([1, 2]), torch.tensor([5.0, 6.0])))
    recorded = only_pass(tmp_path)
    node = node_of_target(recorded, "setitem")
    assert values_of(recorded, node)["/0"].tolist() == [0, 0, 0, 0]
    assert recorded[f"{node.name}@after/0"].tolist() == [0, 5, 6, 0]
    assert node.results == "None"
    total = node_of_target(recorded, "sum")
    assert values_of(recorded, total)["/0"].tolist() == [0, 5, 6, 0]


def test_out_copy_and_index_put(tmp_path):
    def function(x, y, target):
        torch.add(x, y, out=target)
        x.copy_(y)
        x.index_put_((torch.tensor([0]),), torch.tensor([9.0]))
        return target * x

    x, y, target = torch.ones(3), torch.full((3,), 2.0), torch.zeros(3)
    _, (result,) = record(tmp_path, function, (x, y, target))
    assert result.tolist() == [27, 6, 6]
    recorded = only_pass(tmp_path)
    put = node_of_target(recorded, "index_put_")
    assert values_of(recorded, put)["/0"].tolist() == [2, 2, 2]
    assert recorded[put.name].tolist() == [9, 2, 2]
    copy = node_of_target(recorded, "copy_")
    assert values_of(recorded, copy)["/0"].tolist() == [1, 1, 1]
    last = node_of_target(recorded, r"operator\.mul")
    assert [value.tolist() for value in values_of(recorded, last).values()] == [[3, 3, 3], [9, 2, 2]]


def test_several_results_none_and_scalars(tmp_path):
    def function(x):
        values, places = x.topk(2)
        parts = x.chunk(2)
        return values + places, parts[0] * x.size(0)

    record(tmp_path, function, (torch.arange(6.0),))
    recorded = only_pass(tmp_path)
    topk = node_of_target(recorded, "topk")
    assert topk.results == "(%1, %2)"
    assert recorded[f"{topk.name}/0"].tolist() == [5, 4] and recorded[f"{topk.name}/1"].tolist() == [5, 4]
    chunk = node_of_target(recorded, "chunk")
    assert recorded[f"{chunk.name}/1"].tolist() == [3, 4, 5]

    def get(table, key):
        return table.get(key)

    graph = fx.Graph()
    x = graph.placeholder("x")
    size = graph.call_method("size", (x, 0))
    graph.call_function(print, ())
    nothing = graph.call_function(get, ({}, "a"))
    graph.output((graph.call_function(operator.mul, (x, size)), nothing))
    interpreted(tmp_path / "scalars", graph, torch.ones(3))
    nodes = nodes_of(only_pass(tmp_path / "scalars"))
    assert (nodes["size"].arguments, nodes["size"].results) == ("%0, 0", "3")
    assert (nodes["mul"].arguments, nodes["mul"].results) == ("%0, 3", "%1")
    assert nodes["get"].results == "None" and nodes["get"].uses == ()


def test_attributes_and_modules_of_the_graph(tmp_path):
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.table = nn.Parameter(torch.arange(4.0))
            self.layer = nn.Linear(4, 2)

    root, graph = Root(), fx.Graph()
    x = graph.placeholder("x")
    table = graph.get_attr("inner.table")
    graph.output(graph.call_module("layer", (graph.call_function(torch.mul, (x, table)),)))
    x = torch.randn(3, 4)
    result = interpreted(tmp_path, graph, x, root=root)
    assert torch.equal(result, root.layer(x * root.inner.table))
    recorded = only_pass(tmp_path)
    nodes = nodes_of(recorded)
    assert nodes["inner_table"].notes == {"op": "get_attr", "target": "inner.table"}
    assert nodes["layer"].notes == {"op": "call_module", "target": "layer"}
    assert torch.equal(recorded["%inner_table"], root.inner.table.detach())
    assert torch.equal(recorded["%layer"], result.detach())


@pytest.mark.parametrize("name", ["a/b", "a b", "%2F", "weird:name", "x" * 300, "größe"])
def test_names_that_are_unfit_for_files_come_back(tmp_path, name):
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.neg, (x,))
    node.name = name
    graph.output(node)
    interpreted(tmp_path, graph, torch.ones(2))
    recorded = only_pass(tmp_path)
    assert name in nodes_of(recorded)
    assert len({record.name for record in recorded.records}) == 2


def test_values_are_let_go_of_after_their_last_use(tmp_path):
    alive = []
    watched = []

    def watch(x):
        watched.append(weakref.ref(x))
        return x

    def count(x):
        alive.append(sum(reference() is not None for reference in watched))
        return x + 0

    graph = fx.Graph()
    value = graph.placeholder("x")
    for _ in range(5):
        value = graph.call_function(watch, (graph.call_function(torch.neg, (value,)),))
        value = graph.call_function(count, (value,))
    graph.output(value)
    module = fx.GraphModule(nn.Module(), graph)
    arguments = [torch.ones(3)]

    fx.Interpreter(module).run(*arguments)
    plain, alive[:] = list(alive), []
    watched.clear()
    with tap.graph_backend(tmp_path, report=False) as backend:
        backend(module, arguments)(*arguments)
    assert alive == plain


def test_the_models_gradients_are_its_own(tmp_path):
    model = Model()
    x = torch.randn(2, 4)
    model(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    _, (result,) = record(tmp_path, model, (x,), grad=True)
    result.sum().backward()
    assert all(torch.equal(parameter.grad, known) for parameter, known in zip(model.parameters(), expected))
    gc.collect()
    assert only_pass(tmp_path).ending == "complete"


def test_a_node_that_raises_is_named_and_its_pass_aborted(tmp_path):
    class Refuses(nn.Module):
        def forward(self, x, index):
            y = x * 2
            return torch.index_select(y, 0, index)

    with tap.graph_backend(tmp_path, report=False) as backend, torch.no_grad():
        compiled = torch.compile(Refuses(), backend=backend)
        compiled(torch.ones(3), torch.tensor([0]))
        with pytest.raises(IndexError):
            compiled(torch.ones(3), torch.tensor([7]))
        compiled(torch.ones(3), torch.tensor([2]))
    first, second, third = passes_of(tmp_path).values()
    assert [first.ending, second.ending, third.ending] == ["complete", "aborted", "complete"]
    graph = second.events[0]
    failed = nodes_of(second)[graph.notes["failed"].removeprefix("%")]
    assert "index_select" in failed.name and not failed.returned
    assert graph.notes["error"].startswith("IndexError: ")


def test_a_failure_of_our_own_does_not_reach_the_model_unless_strict(tmp_path, monkeypatch):
    from tensortap.graph.run import Run

    def broken(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(Run, "capture", broken)
    monkeypatch.setattr(Run, "hold", broken)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Flatten(0)), torch.randn(2, 4)
    backend, (result,) = record(tmp_path / "a", model, (x,), strict=False, filter=["linear"])
    with torch.no_grad():
        assert torch.equal(result, model(x))
    assert "failure" in backend.coverage["notes"][0] and "ZeroDivisionError: ours" in backend.coverage["notes"][0]
    torch._dynamo.reset()
    with pytest.raises(ZeroDivisionError):
        record(tmp_path / "b", model, (x,), strict=True, filter=["linear"])


def test_a_subgraph_of_a_higher_order_operator_is_one_node(tmp_path):
    def function(x):
        return torch.cond(x.sum() > 0, lambda y: y.cos(), lambda y: y.sin(), (x,))

    x = torch.ones(3)
    _, (result,) = record(tmp_path, function, (x,))
    assert torch.equal(result, x.cos())
    (node,) = [event for event in nodes_of(only_pass(tmp_path)).values() if "subgraph" in event.notes]
    assert node.notes["subgraph"] == "run as one node" and node.notes["target"].endswith("cond")


def test_autocast_and_other_modes_are_the_models(tmp_path):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.layer(x)

    model, x = Half(), torch.randn(2, 4)
    _, (result,) = record(tmp_path, model, (x,))
    with torch.no_grad():
        assert result.dtype == torch.bfloat16 and torch.equal(result, model(x))
    assert torch.equal(only_pass(tmp_path)["layer"], result)


@pytest.mark.parametrize("format", ["ttap", "npy"])
def test_packed_four_bit_values(tmp_path, format):
    """Of the dtype that Dynamo cannot trace."""
    codes = torch.arange(16, dtype=torch.uint8)
    graph = fx.Graph()
    packed = graph.placeholder("packed")
    unpacked = graph.call_method("view", (packed, torch.uint8))
    graph.output((graph.call_method("view", (unpacked, torch.float4_e2m1fn_x2)), unpacked))
    interpreted(tmp_path, graph, codes.view(torch.float4_e2m1fn_x2), format=format)
    recorded = only_pass(tmp_path)
    kept = {record.key: record.true_dtype or record.dtype for record in recorded.records}
    assert kept == {"%packed": "f4_e2m1fn_x2", "%view": "u8", "%view_1": "f4_e2m1fn_x2"}
    if format == "ttap":
        values = {key: recorded[key].view(torch.uint8) for key in ("%packed", "%view_1")}
        expected = codes
    else:  # widened: two values for each byte, the lower half of it first
        values = {key: recorded[key] for key in ("%packed", "%view_1")}
        positive = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        expected = torch.tensor([each for code in positive + [-x for x in positive] for each in (code, 0.0)])
    assert torch.equal(values["%packed"], expected) and torch.equal(values["%view_1"], expected)
