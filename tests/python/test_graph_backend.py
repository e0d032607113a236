"""tap.graph_backend(): which nodes are recorded, when, and under which names."""

import os
import subprocess
import sys
import threading

import pytest
import tensortap as tap
import torch
from compiled_graphs import compiled_afresh, graphs_of, node_of_target, nodes_of, only_pass, record, values_of  # noqa: F401
from small_models import Model, passes_of
from torch import nn

DTYPES = [
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
    torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


class Arithmetic(nn.Module):
    def forward(self, x, y):
        x = x + y
        x = x * 2
        z = x + y
        z = z * x
        return z - 1


def two_nodes(node):
    return node if node.name in ("z", "sub") else None


def test_the_nodes_a_function_picks_are_recorded_and_equal_eager(tmp_path):
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    backend, (result,) = record(tmp_path, Arithmetic(), (x, y), filter=two_nodes)
    recorded = only_pass(tmp_path)
    nodes = nodes_of(recorded)
    assert list(nodes) == ["z", "sub"]
    doubled = (x + y) * 2
    assert torch.equal(recorded["%z"], doubled + y)
    assert torch.equal(recorded["%z@in/0"], doubled) and torch.equal(recorded["%z@in/1"], y)
    assert torch.equal(recorded["%sub@in/0"], (doubled + y) * doubled)
    assert torch.equal(recorded["%sub"], (doubled + y) * doubled - 1) and torch.equal(recorded["%sub"], result)
    assert (nodes["sub"].arguments, nodes["sub"].results) == ("%0, 1", "%1")
    assert set(recorded) == {"%z", "%z@in/0", "%z@in/1", "%sub", "%sub@in/0"}
    assert [(graph.nodes, graph.selected) for graph in backend.graphs] == [(7, 2)]


def test_every_node_says_what_it_is_and_where_it_comes_from(tmp_path):
    model = Model()
    record(tmp_path, model, (torch.randn(2, 4),), stacks=True)
    recorded = only_pass(tmp_path)
    (graph,) = graphs_of(recorded)
    assert graph.notes == {"stage": "dynamo", "part": "forward", "step": 0, "nodes": len(nodes_of(recorded))}
    parameters = {event.notes["parameter"] for event in nodes_of(recorded).values() if "parameter" in event.notes}
    assert parameters == set(dict(model.named_parameters()))
    relu = nodes_of(recorded)["relu_1"]
    assert relu.notes["op"] == "call_function" and relu.notes["target"] == "torch.relu"
    assert relu.notes["module"] == "blocks.1"
    assert relu.notes["source"].startswith("small_models.py:")
    assert relu.notes["source"].endswith("in forward: return self.down(torch.relu(self.up(x)))")
    assert relu.stack.splitlines()[-1].endswith("in forward\treturn self.down(torch.relu(self.up(x)))")


def test_modules_are_events_around_their_nodes_and_give_what_the_module_source_sees(tmp_path):
    model, x = Model(), torch.randn(2, 4)
    with torch.no_grad(), tap.record(model, tmp_path / "modules", report=False):
        model(x)
    record(tmp_path / "graph", model, (x,))
    theirs, ours = only_pass(tmp_path / "modules"), only_pass(tmp_path / "graph")
    for name in theirs:
        assert torch.equal(ours[name], theirs[name]), name
    events = ours.events
    linear = next(event for event in events if event.notes.get("module") == "blocks.1.up")
    up = events[linear.parent]
    assert (up.kind, up.name, events[up.parent].name) == ("module", "blocks.1.up", "blocks.1")
    assert events[events[up.parent].parent].kind == "graph"
    assert up.uses[0].record == linear.uses[-1].record  # the node's value is the module's


def test_a_module_called_twice_has_two_calls_and_a_shared_one_its_first_name(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 4)
            self.all = nn.Sequential(self.one, nn.ReLU())

        def forward(self, x):
            return self.all(self.one(x))

    model, x = Shared(), torch.randn(2, 4)
    record(tmp_path, model, (x,))
    recorded = only_pass(tmp_path)
    with torch.no_grad():
        assert torch.equal(recorded["one"], model.one(x))
        assert torch.equal(recorded["one::call2"], model.one(model.one(x)))
        assert torch.equal(recorded["all.1"], model(x))


def by_name(node):
    return node.name == "relu"


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (["relu"], {"relu", "relu_1"}),
        ("^relu$", {"relu"}),
        ([r"torch\.relu", "^l_x_$"], {"relu", "relu_1", "l_x_"}),
        (lambda node: node.op == "placeholder" and "bias" in node.name and "head" in node.name,
         {"l_self_modules_head_parameters_bias_"}),
        (lambda node: None, set()),
    ],
)  # fmt: skip
def test_a_filter_is_a_function_or_patterns_on_name_or_target(tmp_path, chosen, names):
    with tap.graph_backend(tmp_path, filter=chosen, report=False) as backend, torch.no_grad():
        torch.compile(Model(), backend=backend)(torch.randn(2, 4))
        backend.flush()
        passes = passes_of(tmp_path)
        assert {name for recorded in passes.values() for name in nodes_of(recorded)} == names
        if not names:
            backend._warned.add("the filter selects no node of the graph; see the names in graph_*.py, in the run")


def test_a_function_is_named_by_its_file_and_by_the_environment(tmp_path, monkeypatch):
    source = tmp_path / "chosen.py"
    source.write_text("def pick(node):\n    return node if node.name == 'relu' else None\n")
    record(tmp_path / "a", Model(), (torch.randn(2, 4),), filter=f"{source}:pick")
    torch._dynamo.reset()
    monkeypatch.setenv("TTAP_FILTER_FN", f"{source}:pick")
    monkeypatch.setenv("TTAP_DIR", str(tmp_path / "b"))
    monkeypatch.setenv("TTAP_LEVEL", "fingerprint")
    record(None, Model(), (torch.randn(2, 4),))
    assert list(nodes_of(only_pass(tmp_path / "a"))) == list(nodes_of(only_pass(tmp_path / "b"))) == ["relu"]
    assert {record.level for record in only_pass(tmp_path / "b").records} == {"fingerprint"}
    for override, names in (("0", ["relu_1"]), ("1", ["relu"])):
        torch._dynamo.reset()
        monkeypatch.setenv("TTAP_OVERRIDE", override)
        monkeypatch.setenv("TTAP_DIR", str(tmp_path / f"override{override}"))
        record(None, Model(), (torch.randn(2, 4),), filter=["^relu_1$"])
        assert list(nodes_of(only_pass(tmp_path / f"override{override}"))) == names


def test_the_filter_is_asked_once_per_node(tmp_path):
    asked = []
    record(tmp_path, Model(), *[(torch.randn(2, 4),)] * 3, filter=lambda node: asked.append(node.name))
    assert len(asked) == len(set(asked)) > 10


def test_a_pattern_that_matches_nothing_is_told(tmp_path):
    with (
        pytest.warns(UserWarning, match=r"the pattern 'relo' matches no name or target of a node; near it: relu"),
        tap.graph_backend(tmp_path, filter=["relo"], report=False) as backend,
    ):
        torch.compile(Model(), backend=backend)(torch.randn(2, 4))


def test_a_filter_that_raises_is_the_programs_error(tmp_path):
    def broken(node):
        raise ZeroDivisionError("the filter's own")

    with tap.graph_backend(tmp_path, filter=broken, report=False) as backend, pytest.raises(Exception, match="own"):
        torch.compile(Model(), backend=backend)(torch.randn(2, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"stage": "inductor"}, "stage is 'inductor': it is one of dynamo, aot"), ({"skip": -1}, "skip is -1"),
     ({"filter": 5}, "filter is 5"), ({"filter": ["("]}, "not a regular expression"),
     ({"level": "all"}, "level 'all'")],
)  # fmt: skip
def test_options_are_checked(tmp_path, options, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        tap.graph_backend(tmp_path, **options)


def test_inputs_and_outputs_can_be_left_out(tmp_path):
    x = torch.randn(2, 4)
    record(tmp_path / "out", Model(), (x,), filter=["relu"], inputs=False)
    torch._dynamo.reset()
    record(tmp_path / "in", Model(), (x,), filter=["relu"], outputs=False)
    assert set(only_pass(tmp_path / "out")) == {"%relu", "%relu_1"}
    assert set(only_pass(tmp_path / "in")) == {"%relu@in/0", "%relu_1@in/0"}


def test_a_value_that_is_there_already_is_referred_to(tmp_path):
    record(tmp_path, Arithmetic(), (torch.randn(3), torch.randn(3)))
    recorded = only_pass(tmp_path)
    assert {key.partition("@")[2] for key in recorded} == {""}  # no input is stored again
    keys, nodes = list(recorded), nodes_of(recorded)
    assert [keys[use.record] for use in nodes["z"].uses] == ["%x_1", "%l_y_", "%z"]


def test_levels_by_name(tmp_path):
    record(tmp_path, Model(), (torch.randn(2, 4),), level={"relu": "full", ".*": "meta"})
    recorded = only_pass(tmp_path)
    levels = {record.name: record.level for record in recorded.records}
    assert levels["%relu"] == "full" and levels["%l_x_"] == levels["blocks.0.up"] == "meta"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(tmp_path, dtype):
    x = (torch.arange(6).reshape(2, 3) % 2).to(dtype) if not dtype.is_complex else torch.randn(2, 3, dtype=dtype)

    def function(x):
        return x.view(3, 2), x[0]

    _, ((viewed, row),) = record(tmp_path, function, (x,))
    recorded = only_pass(tmp_path)
    view = node_of_target(recorded, "view")
    assert recorded[view.name].dtype == dtype
    assert torch.equal(recorded[view.name].view(torch.uint8), x.view(3, 2).view(torch.uint8))
    assert torch.equal(row.view(torch.uint8), x[0].contiguous().view(torch.uint8)) and viewed.shape == (3, 2)


def test_nothing_is_recorded_without_a_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    backend, (result,) = record(None, Model(), (torch.randn(2, 4),), filter=lambda node: 1 / 0)
    assert result.shape == (2, 3) and not backend.recording and backend.graphs == [] and backend.coverage == {}
    assert list(tmp_path.iterdir()) == []


def test_a_closed_backend_runs_its_graphs_on(tmp_path):
    model, x = Model(), torch.randn(2, 4)
    with torch.no_grad():
        backend = tap.graph_backend(tmp_path, report=False)
        compiled = torch.compile(model, backend=backend)
        compiled(x)
        backend.close()
        backend.close()
        assert torch.equal(compiled(x), model(x))
        assert torch.equal(compiled(torch.cat([x, x])), model(torch.cat([x, x])))
    assert len(passes_of(tmp_path)) == 1


def test_ids_and_names_are_the_same_in_two_processes(tmp_path):
    program = (
        "import sys, torch, tensortap as tap\n"
        "from small_models import Model\n"
        "torch.manual_seed(0)\n"
        "with tap.graph_backend(sys.argv[1], report=False, stage=sys.argv[2]) as backend:\n"
        "    torch.compile(Model(), backend=backend)(torch.ones(2, 4)).sum().backward()\n"
    )
    for stage in ("dynamo", "aot"):
        keys = []
        for number in range(2):
            folder = tmp_path / f"{stage}{number}"
            environment = {**os.environ, "PYTHONHASHSEED": str(number + 1)}
            environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), environment.get("PYTHONPATH", "")])
            subprocess.run([sys.executable, "-c", program, folder, stage], check=True, env=environment)
            recorded = only_pass(folder)
            keys.append((list(recorded), [(event.name, event.notes) for event in recorded.events]))
            (rank,) = tap.open(folder).ranks
            assert {path.stem for path in rank.path.glob("graph_*.py")} == {event.name for event in graphs_of(recorded)}
        assert keys[0] == keys[1]


def test_threads_have_passes_of_their_own(tmp_path):
    model = Model()
    with tap.graph_backend(tmp_path, report=False, strict=True) as backend, torch.no_grad():
        compiled = torch.compile(model, backend=backend)
        compiled(torch.randn(2, 4))

        def work(number):
            with torch.no_grad():
                for _ in range(5):
                    compiled(torch.full((2, 4), float(number)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    passes = passes_of(tmp_path)
    assert len(passes) == 21 and {recorded.ending for recorded in passes.values()} == {"complete"}
    assert all(len(graphs_of(recorded)) == 1 for recorded in passes.values())
    seen = sorted(recorded["%l_x_"][0, 0].item() for recorded in list(passes.values())[1:])
    assert seen == sorted([0.0, 1.0, 2.0, 3.0] * 5)


@pytest.mark.parametrize("stage", ["dynamo", "aot"])
@pytest.mark.parametrize("directory", [True, False], ids=["recorded", "only checked"])
def test_an_inner_backend_is_held_against_the_graph_which_is_recorded(tmp_path, stage, directory, capsys):
    def wrong(module, _):
        def run(*inputs):
            return tuple(None if value is None else value + 1 for value in module.forward(*inputs))

        return run

    folder, model, x = tmp_path / "run" if directory else None, Model(), torch.randn(2, 4)
    backend, (result,) = record(folder, model, (x,), stage=stage, inner=wrong, strict=False)
    with torch.no_grad():
        assert torch.allclose(result, model(x) + 1, atol=1e-5)  # the program gets the compiled graph's
    assert len(backend.mismatches) == 1 and "wrong computes graph" in capsys.readouterr().err
    torch._dynamo.reset()
    backend, (result,) = record(tmp_path / "right", model, (x,), stage=stage, inner="eager")
    with torch.no_grad():
        assert backend.mismatches == [] and torch.allclose(result, model(x), atol=1e-6)
        if directory:
            assert torch.allclose(only_pass(folder)["head"], model(x), atol=1e-6)
        assert torch.allclose(only_pass(tmp_path / "right")["head"], model(x), atol=1e-6)


def test_what_torch_compile_asks_of_compilers_is_said_to_be_of_no_use(tmp_path):
    with tap.graph_backend(tmp_path, report=False) as backend:
        compiled = torch.compile(lambda x: x + 1, backend=backend, mode="max-autotune")
        with pytest.warns(UserWarning, match="mode given to torch.compile, of no use"):
            assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert only_pass(tmp_path)["%add"].tolist() == [2, 2]
