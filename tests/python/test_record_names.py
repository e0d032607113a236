"""The names that modules are recorded under, and what else a run tells of a model."""

import tensortap as tap
import torch
from small_models import Model, passes_of
from torch import nn


def test_models_by_name_come_first_in_the_keys(tmp_path):
    parts = {"vision": nn.Linear(2, 2), "lm": nn.Sequential(nn.Linear(2, 2))}
    with tap.record(parts, tmp_path, step="manual", report=False) as recording, recording.step():
        parts["lm"](parts["vision"](torch.ones(1, 2)))
    assert list(passes_of(tmp_path)[0]) == ["vision", "lm.0"]


class Tied(nn.Module):
    """Encoder and decoder use one embedding."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(7, 2)
        self.encoder, self.decoder = nn.ModuleDict({"embed": self.shared}), nn.ModuleDict({"embed": self.shared})

    def forward(self, x):
        return self.encoder["embed"](x) + self.decoder["embed"](x + 1)


def test_a_shared_module_is_known_by_all_its_names(tmp_path):
    model = Tied()
    with tap.record(model, tmp_path, filter=["decoder"], report=False):
        model(torch.tensor([3]))
    recorded = passes_of(tmp_path)[0]
    names = ["shared", "encoder.embed", "decoder.embed"]
    assert set(recorded) == {name + call for name in names for call in ("", "::call2")}
    for name in names:
        assert torch.equal(recorded[name], model.shared.weight[3:4])
        assert torch.equal(recorded[name + "::call2"], model.shared.weight[4:5])
    assert len(recorded.events) == 2  # it was called twice, whatever it is called


def test_wrapped_and_bare_models_have_the_same_keys(tmp_path):
    class DistributedDataParallel(nn.Module):  # as torch's, without a process group
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args):
            return self.module(*args)

    model = Model()
    for name, wrapped in {
        "bare": model,
        "ddp": DistributedDataParallel(model),
        "compiled": torch.compile(model, disable=True),
        "both": DistributedDataParallel(torch.compile(model, disable=True)),
    }.items():
        with tap.record(wrapped, tmp_path / name, modules="all", report=False):
            wrapped(torch.ones(1, 4))
        assert list(passes_of(tmp_path / name)[0]) == list(passes_of(tmp_path / "bare")[0]), name
        assert len(passes_of(tmp_path / name)) == 1


def test_a_child_that_is_called_module_keeps_its_name(tmp_path):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = nn.Linear(2, 2)

        def forward(self, x):
            return self.module(x)

    with tap.record(model := Holder(), tmp_path, report=False):
        model(torch.ones(1, 2))
    assert list(passes_of(tmp_path)[0]) == ["module"]


def test_attention_that_does_not_call_its_projection_is_a_leaf(tmp_path):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with tap.record(layer, tmp_path, report=False):
        layer(torch.randn(2, 3, 8))
    assert "self_attn/0" in passes_of(tmp_path)[0]


def test_names_with_slashes_and_other_signs(tmp_path):
    model = nn.Sequential()
    model.add_module("a/b@c::call2 %", nn.Linear(1, 1))
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(1, 1))
    recorded = passes_of(tmp_path)[0]
    (key,) = recorded
    assert recorded.record(key).name == "a/b@c::call2 %"
    assert recorded[key].shape == (1, 1)


# ---- what else is in a run ----


def test_the_run_tells_about_the_program_and_the_model(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, level="fingerprint", report=False):
        model(torch.ones(1, 4))
    (rank,) = tap.open(tmp_path).ranks
    program = rank.metadata["program"]
    assert program["versions"]["torch"] == torch.__version__
    assert program["options"]["level"] == "fingerprint"
    assert rank.metadata["host"] and rank.metadata["command"]
    (described,) = rank.model["models"]
    assert described["type"].endswith("Model")
    names = {module["name"]: module for module in described["modules"]}
    assert names["head"] == {
        "name": "head",
        "type": "torch.nn.modules.linear.Linear",
        "detail": "in_features=4, out_features=3, bias=True",
        "settings": {"in_features": 4, "out_features": 3},
        "selected": True,
    }
    assert names["blocks"]["selected"] is False
    assert rank.passes[0].metadata["program"]["options"]["level"] == "fingerprint"


def test_the_report_says_what_was_not_seen(tmp_path, capsys):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.direct = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
            self.scripted = torch.jit.script(nn.Linear(2, 2))

        def forward(self, x):
            return self.scripted(self.direct.forward(self.used(x)))

    with tap.record(model := Parts(), tmp_path) as recording:
        model(torch.ones(1, 2))
    why = {item["name"]: item["why"] for item in recording.coverage["never_called"]}
    assert why["unused"].startswith("never called")  # other tests may have compiled something
    assert why["direct"].startswith("called through .forward() at test_record_names.py:")
    assert why["scripted"] == "scripted"
    assert tap.open(tmp_path).ranks[0].coverage["source"]["never_called"] == recording.coverage["never_called"]
    told = capsys.readouterr().err
    assert told.startswith("tensortap: 1 pass, 1 tensor, 8 B in ")
    assert "called through .forward(): direct (test_record_names.py:" in told
    assert f"ttap ls --coverage {tmp_path}" in told


def test_a_module_that_only_holds_weights_for_others_is_not_said_to_be_unused(tmp_path):
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 2))

        def forward(self, x):
            del x
            raise RuntimeError("the weights are used where logits are computed")

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.unused = nn.Linear(2, 2), Head(), nn.Linear(2, 2)

        def forward(self, x):
            return self.body(x) @ self.head.weight

    with tap.record(model := Tied(), tmp_path, report=False) as recording:
        model(torch.ones(1, 2))
    why = {item["name"]: item["why"] for item in recording.coverage["never_called"]}
    assert why["head"] == "its forward only raises: others use its parameters"
    assert why["unused"].startswith("never called")


def test_modules_in_a_compiled_region_are_said_to_be_there(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = torch.compile(model, backend="eager")
    with tap.record(compiled, tmp_path, report=False) as recording:
        compiled(torch.ones(1, 2))
    assert {item["why"] for item in recording.coverage["never_called"]} == {"inside a compiled region"}
    assert len(passes_of(tmp_path)) == 1  # the call itself was seen


def test_a_shared_module_has_the_name_of_whom_it_is_called_by(tmp_path):
    shared = nn.GELU()

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.act = nn.Linear(4, 4), shared

        def forward(self, x):
            return self.act(self.linear(x))

    model = nn.Sequential(Layer(), Layer())
    with tap.record(model, tmp_path / "run", report=False):
        model(torch.ones(1, 4))
    assert list(tap.open(tmp_path / "run").ranks[0].passes[0]) == ["0.linear", "0.act", "1.linear", "1.act"]


def test_a_module_that_a_part_of_its_holder_holds_too_has_both_names(tmp_path):
    class Inner(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            return self.linear(x)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.inner = Inner(self.linear)

        def forward(self, x):
            return self.inner(x)

    model = nn.Sequential(Outer())
    with tap.record(model, tmp_path / "run", report=False):
        model(torch.ones(1, 4))
    assert set(tap.open(tmp_path / "run").ranks[0].passes[0]) == {"0.linear", "0.inner.linear"}
