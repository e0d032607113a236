"""What an engine declares of its fused modules, weights that differ, and steps that only warm up."""

import re
import subprocess

import pytest
import tensortap as tap
import torch
from packed_rows import PROMPTS, VOCABULARY, WHOLE, WIDTH, run_packed
from tensortap.session import metadata
from torch import nn
from ttap_command import TTAP


class Layer(nn.Module):
    """As Transformers writes it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate_proj = nn.Linear(WIDTH, 24, bias=False)
        self.up_proj = nn.Linear(WIDTH, 24, bias=False)
        self.act_fn = nn.SiLU()
        self.down_proj = nn.Linear(24, WIDTH, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down_proj(self.act_fn(self.gate_proj(y)) * self.up_proj(y))


class SiluAndMul(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, -1)
        return nn.functional.silu(gate) * up


class ResidualNorm(nn.Module):
    """Adds the residual of the layer before; returns the sum, too."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, x, residual=None):
        x = x if residual is None else x + residual
        return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias), x


class EngineLayer(nn.Module):
    """As an engine writes it: fused, and the residual is left to the next layer."""

    def __init__(self, layer):
        super().__init__()
        self.norm, self.down_proj, self.act_fn = ResidualNorm(layer.norm), layer.down_proj, SiluAndMul()
        self.gate_up_proj = nn.Linear(WIDTH, 48, bias=False)
        with torch.no_grad():
            self.gate_up_proj.weight.copy_(torch.cat((layer.gate_proj.weight, layer.up_proj.weight)))

    def forward(self, x, residual):
        y, residual = self.norm(x, residual)
        return self.down_proj(self.act_fn(self.gate_up_proj(y))), residual


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.embed(ids) * 4
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class EngineModel(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.embed = model.embed
        self.layers = nn.ModuleList(EngineLayer(layer) for layer in model.layers)
        self.norm = ResidualNorm(model.norm)

    def forward(self, ids, last):
        x, residual = self.embed(ids) * 4, None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return self.norm(x, residual)[0]


def declare(model, name, module):
    kind = type(module)
    if isinstance(module, SiluAndMul):
        return {"product": ["act_fn", "up_proj"]}
    if name.endswith("gate_up_proj"):
        return {"parts": ["gate_proj", "up_proj"]}
    if kind in (EngineLayer, ResidualNorm):
        return {"sums_inputs": True} | ({"sums": True} if kind is EngineLayer else {})
    return {}


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setattr(metadata, "describers", [declare])


FAULTS = {
    "": lambda engine: None,
    "layers.1.up_proj": lambda engine: engine.layers[1].gate_up_proj.weight[30].mul_(1.5),
    "layers.0.gate_proj": lambda engine: engine.layers[0].gate_up_proj.weight[:24].mul_(1.02),
    "layers.2.norm": lambda engine: setattr(
        engine.layers[2].norm, "weight", nn.Parameter(engine.layers[2].norm.weight * 1.05)
    ),
}


@pytest.mark.parametrize(("roles", "modules"), [("out", "leaf"), ("in,out", "leaf"), ("in,out,param", "all")])
@pytest.mark.parametrize("fault", FAULTS)
def test_fused_modules_are_compared_as_declared(fault, roles, modules, declared, tmp_path):
    model = Model()
    engine = EngineModel(model)
    with torch.no_grad():
        FAULTS[fault](engine)
        with tap.record(model, tmp_path / "a", roles=roles, modules=modules, report=False):
            for number, prompt in enumerate(PROMPTS):
                tap.batch(
                    request_ids=[str(number)],
                    positions=torch.arange(len(prompt)),
                    query_start=[0, len(prompt)],
                    token_ids=torch.tensor(prompt),
                )
                model(torch.tensor([prompt]))
    run_packed(engine, tmp_path / "b", [WHOLE], roles=roles, modules=modules)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    if not fault:
        assert diff.verdict in ("identical", "within tolerance"), diff
        assert not [tensor.key for tensor in diff.tensors if tensor.verdict == "missing"]
        return
    assert diff.verdict == "diverged", diff
    assert diff.first.key.partition("@")[0] == fault, diff
    if "param" in roles:
        assert "@param" in diff.first.key
    if fault == "layers.1.up_proj" and "param" in roles:
        assert diff.sentence.endswith("layers.1.up_proj@param/weight differs: 1 of its 24 rows differ")


def test_matches_are_listed_with_how_they_were_made(declared, tmp_path):
    model = Model()
    with tap.record(model, tmp_path / "a", modules="all", report=False), torch.no_grad():
        tap.batch(request_ids=["0"], positions=torch.arange(3), query_start=[0, 3], token_ids=torch.tensor([7, 2, 6]))
        model(torch.tensor([[7, 2, 6]]))
    run_packed(EngineModel(model), tmp_path / "b", [WHOLE], modules="all")
    text = subprocess.run(
        [TTAP, "diff", tmp_path / "a", tmp_path / "b", "--matches"], capture_output=True, text=True
    ).stdout
    assert re.search(
        r"layers\.0\.up_proj +layers\.0\.gate_up_proj\[\.\.\., 24:48\] +as its recording declares", text
    ), text
    assert re.search(r"layers\.0\.act_fn \* layers\.0\.up_proj +layers\.0\.act_fn ", text), text
    assert re.search(r"layers\.0 +layers\.0/0 \+ layers\.0/1 ", text), text


# ---- weights and warm-up ----


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda weight: weight.index_copy_(0, torch.tensor([1, 4]), weight[[4, 1]].clone()),
            "rows 1 and 4 are swapped in B",
        ),
        (lambda weight: weight[2].zero_(), "row 2 of B is zero"),
        (lambda weight: weight[5].neg_(), "row 5 is negated in B"),
        (lambda weight: weight[0].mul_(2), "1 of its 6 rows differ"),
    ],
    ids=["swapped", "zero", "negated", "scaled"],
)
def test_what_is_wrong_with_a_weight_is_said(edit, said, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6))
    with torch.no_grad():
        with tap.record(model, tmp_path / "a", roles="out,param", report=False):
            model(torch.ones(2, 4))
        edit(model[0].weight)
        with tap.record(model, tmp_path / "b", roles="out,param", report=False):
            model(torch.ones(2, 4))
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.sentence == f"diverged: the parameter 0@param/weight differs: {said}"


def test_what_warms_up_is_neither_compared_nor_checked(tmp_path):
    model = nn.Linear(4, 4)
    for name, value in (("a", 0.0), ("b", float("nan"))):
        with tap.record(model, tmp_path / name, report=False), torch.no_grad():
            tap.batch(request_ids=[], positions=torch.zeros(0), query_start=[0], dummy=True)
            model(torch.full((1, 4), value))
            model(torch.ones(1, 4))
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "identical", diff
    assert "1 of 2 passes only warm up, and were not compared" in str(diff)
    assert tap.check(tmp_path / "b").clean
