"""The commands on recordings of graphs, in both formats, and graphs against modules and traces of the same model."""

import json

import numpy as np
import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import read_json, run


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.down(torch.relu(self.up(x))) + 1)


class Wrong(nn.Linear):
    """A linear layer that makes a mistake of its own."""

    def forward(self, x):
        y = super().forward(x)
        return torch.cat([y[:, :1] * 1.5, y[:, 1:]], dim=1)


def net(wrong):
    torch.manual_seed(0)
    model = Net().eval()
    if wrong:
        model.down.__class__ = Wrong
    return model


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def record_modules(folder, model):
    with torch.no_grad(), tap.record(model, folder, modules="all", report=False):
        model(X)
    return folder


def record_ops(folder, model):
    with torch.no_grad(), tap.trace(model, hashes=True) as trace:
        model(X)
    trace.save(folder)
    return folder


def record_graph(folder, model, **options):
    torch._dynamo.reset()
    with torch.no_grad(), tap.graph_backend(folder, report=False, **options) as backend:
        torch.compile(model, backend=backend)(X)
    return folder


SOURCES = {
    "modules": record_modules,
    "ops": record_ops,
    "aot": lambda folder, model: record_graph(folder, model, stage="aot"),
    "dynamo": lambda folder, model: record_graph(folder, model, stage="dynamo"),
    "aot-npy": lambda folder, model: record_graph(folder, model, stage="aot", format="npy"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        (source, wrong): make(folder / f"{source}-{wrong}", net(wrong))
        for source, make in SOURCES.items()
        for wrong in (False, True)
    }


@pytest.mark.parametrize("source", ["aot", "aot-npy"])
def test_the_log_shows_nodes_with_their_operands_below_their_modules(runs, source):
    lines = run("log", runs[source, False]).stdout.splitlines()
    graph = next(i for i, line in enumerate(lines) if line.startswith("[graph] graph_"))
    assert "(aot inference, step 0)" in lines[graph]
    down = next(i for i, line in enumerate(lines) if line.startswith("  [nn.Mod] down"))
    inside = [line.strip() for line in lines[down + 1 :] if line.startswith("    ")]
    assert any(line.startswith("%addmm_1 = aten.addmm.default(") and "%relu" in line for line in inside)
    assert any(line.strip().startswith("%add = aten.add.Tensor(%addmm_1, 1) -> f32[2, 4]  # ") for line in lines)


@pytest.mark.parametrize("source", ["aot", "aot-npy"])
def test_events_are_chosen_by_name_target_and_module(runs, source):
    def names(*options):
        events = read_json("log", runs[source, False], *options)[0]["passes"][0]["events"]
        return [event["name"] for event in events]

    assert names("--filter", "aten.relu") == ["%relu"]
    assert names("--filter", "^%add$") == ["%add"]
    assert "%addmm_1" in names("--module", "down") and "%addmm" not in names("--module", "down")
    assert names("--around", "%relu", "-n", "0") == ["%relu"]


@pytest.mark.parametrize("source", ["aot", "aot-npy"])
def test_a_node_is_shown(runs, source):
    shown = read_json("show", runs[source, False], "%relu")[0]
    assert shown["tensor"]["key"] == "%relu"
    assert shown["event"]["kind"] == "node"
    assert shown["statistics"]["min"] == 0
    assert "%relu" in run("ls", runs[source, False]).stdout


def test_both_formats_say_the_same(runs, tmp_path):
    one, other = (read_json("log", runs[source, False])[0]["passes"][0]["events"] for source in ("aot", "aot-npy"))
    times = {"thread", "time_ns", "duration_ns"}

    def told(events):
        return [{key: value for key, value in event.items() if key not in times} for event in events]

    assert told(one) == told(other)
    assert run("diff", runs["aot", False], runs["aot-npy", False]).stdout.startswith("identical")
    exported = run("export", runs["aot", False], "--format", "npy", "-o", tmp_path / "out")
    assert exported.returncode == 0
    assert run("diff", tmp_path / "out", runs["aot-npy", False]).stdout.startswith("identical")


def test_the_graph_for_model_explorer_has_its_edges(runs, tmp_path):
    assert run("log", runs["aot", False], "--model-explorer", tmp_path / "graph.json").returncode == 0
    graph = json.loads((tmp_path / "graph.json").read_text())["graphs"][0]
    nodes = {node["id"]: node for node in graph["nodes"]}
    by_key = {attr["value"]: node for node in graph["nodes"] for attr in node["attrs"] if attr["key"] == "key"}
    addmm = by_key["%addmm_1"]
    assert addmm["namespace"] == "down"
    assert addmm["label"] == "aten.addmm.default"
    assert {nodes[edge["sourceNodeId"]]["label"] for edge in addmm["incomingEdges"]} == {
        "down.bias", "aten.relu.default", "aten.t.default"
    }  # fmt: skip
    assert run("log", runs["aot", False], "--perfetto", tmp_path / "trace.json").returncode == 0
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert "aten::addmm" in names


@pytest.mark.parametrize("format", ["ttap", "npy"])
def test_check_names_the_node_that_made_a_nan_of_finite_inputs(tmp_path, format):
    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x) * 2

    record_graph(tmp_path / "run", Log(), format=format, stage="aot")
    _, code = read_json("check", tmp_path / "run")
    assert code == 1
    text = run("check", tmp_path / "run").stdout
    assert "%log" in text and "aten.log.default" in text, text


NAMES_OF_THE_FAULT = {"down", "%addmm_1", "%linear_1", "%add", "Net:aten::add.Tensor", "down:aten::addmm"}
NAMES_OF_ITS_OWN = {"%mul", "down:aten::mul.Tensor"}  # of the first operator that only the wrong model has
PAIRS = [(a, b) for a in SOURCES for b in SOURCES if a != b]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda source: source)
def test_sources_of_one_model_agree(runs, a, b):
    report, _ = read_json("diff", runs[a, False], runs[b, False])
    assert report["verdict"] == "identical", report["sentence"]
    compared = [tensor for tensor in report["passes"][0]["tensors"] if tensor["verdict"] == "identical"]
    assert len(compared) >= 3


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda source: source)
def test_a_fault_is_named_whatever_recorded_the_two_sides(runs, a, b):
    report, _ = read_json("diff", runs[a, False], runs[b, True])
    assert report["verdict"] == "diverged"
    first = report["passes"][0]["tensors"][report["first"]["tensor"]]
    # The operator that was put in; where a side has no operators, the module, or what has its place: the fault is seen
    # by whoever is given what it made.
    if first["name"] in NAMES_OF_ITS_OWN:
        assert (first["verdict"], first["cause"]) == ("extra", "introduced")
    else:
        assert first["name"] in NAMES_OF_THE_FAULT, report["sentence"]


def test_the_files_of_a_filtered_dump_are_those_expected(tmp_path):
    class Example(nn.Module):
        def forward(self, x, y):
            x = x + x
            x = x + y
            x = x * 2
            return x - 1

    def chosen(node):
        return node if node.name in ("add_1", "sub") else None

    x, y = torch.arange(4.0).reshape(2, 2), torch.ones(2, 2)
    torch._dynamo.reset()
    with tap.graph_backend(tmp_path, filter=chosen, format="npy", stage="aot", report=False) as backend:
        out = torch.compile(Example(), backend=backend)(x, y)
    (folder,) = tmp_path.glob("worldsize1_global_rank0/graph_*/0")
    assert sorted(path.name for path in folder.iterdir()) == [
        "add_1-aten.add.Tensor.INPUT.0.npy",
        "add_1-aten.add.Tensor.INPUT.1.npy",
        "add_1-aten.add.Tensor.OUTPUT.0.npy",
        "index.json",
        "sub-aten.sub.Tensor.INPUT.0.npy",
        "sub-aten.sub.Tensor.OUTPUT.0.npy",
    ]
    assert np.array_equal(np.load(folder / "add_1-aten.add.Tensor.INPUT.0.npy"), x + x)
    assert np.array_equal(np.load(folder / "add_1-aten.add.Tensor.INPUT.1.npy"), y)
    assert np.array_equal(np.load(folder / "sub-aten.sub.Tensor.OUTPUT.0.npy"), out)
    index = json.loads((folder / "index.json").read_text())
    assert index["step"] == 0 and index["started"].startswith("20")
    assert next(event for event in index["events"] if event["name"] == "%sub")["arguments"] == "%0, 1"


def llama(wrong):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    if wrong:
        layer = model.model.layers[1].self_attn.o_proj
        layer.forward = lambda x, forward=layer.forward: forward(x) * 1.01
    return model


def record_llama(folder, source, wrong):
    model, ids = llama(wrong), torch.arange(8).reshape(1, 8)
    with torch.no_grad():
        if source == "modules":
            with tap.record(model, folder, report=False):
                model(ids)
        elif source == "ops":
            with tap.trace(model, hashes=True) as trace:
                model(ids)
            trace.save(folder)
        else:
            torch._dynamo.reset()
            with tap.graph_backend(folder, report=False, stage=source) as backend:
                torch.compile(model, backend=backend)(ids)
    return folder


def test_a_fault_in_a_llama_is_named_by_graphs_modules_and_operators(tmp_path):
    sources = ("modules", "ops", "aot", "dynamo")
    right = {source: record_llama(tmp_path / f"{source}-right", source, False) for source in sources}
    wrong = {source: record_llama(tmp_path / f"{source}-wrong", source, True) for source in sources}
    named = {}
    for a in sources:
        for b in sources:
            if a == b:
                continue
            assert read_json("diff", right[a], right[b])[0]["verdict"] == "identical", (a, b)
            report, _ = read_json("diff", right[a], wrong[b])
            tensor = report["passes"][0]["tensors"][report["first"]["tensor"]]
            named[a, b] = (tensor["name"], tensor.get("key_b"), report["sentence"])
    for pair, (name, key_b, sentence) in named.items():
        if "modules" in pair or pair[1] == "ops":
            assert "layers.1.self_attn.o_proj" in name + str(key_b), (pair, sentence)
    said = ("introduced the error", "the error begins at")
    assert {pair: told for pair, told in named.items() if not any(each in told[2] for each in said)} == {}
