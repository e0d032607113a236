"""Ports: other names, fused and split projections, merged axes, the residual beside the hidden states."""

import copy
import re

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, WORDS = 32, 4, 2, 50


class Reference(nn.Module):
    """A decoder with rotary positions, split projections and a gated MLP."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_norm, self.post_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.gate_proj, self.up_proj, self.down_proj = (
                nn.Linear(WIDTH, 2 * WIDTH),
                nn.Linear(WIDTH, 2 * WIDTH),
                nn.Linear(2 * WIDTH, WIDTH),
            )

        def forward(self, hidden):
            normed = self.input_norm(hidden)
            q, k, v = (heads(each(normed)) for each in (self.q_proj, self.k_proj, self.v_proj))
            mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
            hidden = hidden + self.o_proj(mixed.transpose(1, 2).reshape(hidden.shape))
            normed = self.post_norm(hidden)
            gated = F.gelu(self.gate_proj(normed), approximate="tanh") * self.up_proj(normed)
            return hidden + self.down_proj(gated)

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(self.Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(self.norm(hidden))


def heads(x):
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def rotate(x, base=10000.0):
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[2]).float(), base ** (-torch.arange(half).float() / half))
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    one, other = x[..., :half], x[..., half:]
    return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)


def fused(parts, order):
    """The rows of three projections in one: one after the other, head by head, or element by element."""
    if order == "concatenated":
        return torch.cat(parts)
    if order == "by head":
        return torch.cat([each.view(HEADS, -1, *each.shape[1:]) for each in parts], 1).flatten(0, 1)
    return torch.stack(parts, 1).flatten(0, 1)


def split(x, order):
    if order == "concatenated":
        return x.chunk(3, -1)
    if order == "by head":
        return [each.flatten(-2) for each in x.view(*x.shape[:-1], HEADS, -1).chunk(3, -1)]
    return x.view(*x.shape[:-1], -1, 3).unbind(-1)


class Port(nn.Module):
    """The same in other words. `fault` is made in the first layer."""

    class Block(nn.Module):
        def __init__(self, options):
            super().__init__()
            fault = options["fault"]
            self.options = options
            self.a, self.b = nn.LayerNorm(WIDTH, eps=0.5 if fault == "eps" else 1e-5), nn.LayerNorm(WIDTH)
            self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x, rest=None):
            fault, (batch, tokens) = self.options["fault"], self.options["shape"]
            if rest is not None:
                x = x + rest
            y = self.a(x)
            q, k, v = (heads(each.reshape(batch, tokens, WIDTH)) for each in split(self.qkv(y), self.options["order"]))
            base = 500.0 if fault == "rope" else 10000.0
            scale = 1.0 if fault == "scale" else None
            mixed = F.scaled_dot_product_attention(rotate(q, base), rotate(k, base), v, is_causal=True, scale=scale)
            x = x + self.mix(mixed.transpose(1, 2).reshape(x.shape))
            gate, up = self.wide(self.b(x)).chunk(2, -1)
            how = "none" if fault == "gelu" else "tanh"
            act = F.silu(gate) if fault == "act" else F.gelu(gate, approximate=how)
            out = self.narrow(act * up)
            return (out, x) if self.options["residual"] else x + out

    def __init__(self, order="concatenated", *, merged=False, residual=False, fault=None, ids):
        super().__init__()
        self.merged = merged
        self.tok = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList(
            self.Block(
                {
                    "order": order,
                    "shape": ids.shape,
                    "residual": residual,
                    "fault": fault if i == 0 else None,
                }
            )
            for i in range(LAYERS)
        )
        self.end = nn.LayerNorm(WIDTH)
        self.words = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x, rest = self.tok(ids.flatten() if self.merged else ids), None
        for block in self.h:
            x = block(x, rest)
            if isinstance(x, tuple):
                x, rest = x
        return self.words(self.end(x if rest is None else x + rest))

    def load(self, model):
        with torch.no_grad():
            self.tok.weight.copy_(model.embed.weight)
            self.words.weight.copy_(model.lm_head.weight)
            self.end.load_state_dict(model.norm.state_dict())
            for block, layer in zip(self.h, model.layers, strict=True):
                for ours, theirs in {
                    "a": "input_norm",
                    "b": "post_norm",
                    "mix": "o_proj",
                    "narrow": "down_proj",
                }.items():
                    for name, value in getattr(layer, theirs).state_dict().items():
                        getattr(getattr(block, ours), name).copy_(value)
                for name in ("weight", "bias"):
                    qkv = [getattr(each, name) for each in (layer.q_proj, layer.k_proj, layer.v_proj)]
                    getattr(block.qkv, name).copy_(fused(qkv, block.options["order"]))
                    gate_up = [getattr(layer.gate_proj, name), getattr(layer.up_proj, name)]
                    getattr(block.wide, name).copy_(torch.cat(gate_up))
        return self


PORTS = {
    "concatenated": {"order": "concatenated"},
    "by head": {"order": "by head"},
    "interleaved": {"order": "interleaved"},
    "merged axes": {"merged": True},
    "residual": {"residual": True},
}

# What is named: in a recording of modules, and in one of operators.
FAULTS = {
    "scale": ("layers.0.self_attn|layers.0.o_proj@in|layers.0$", "attention"),
    "rope": ("layers.0.o_proj@in|layers.0$", "cos|sin|outer|mul|pow|attention"),
    "eps": ("layers.0.input_norm", "layer_norm"),
    "act": ("layers.0.down_proj@in|layers.0$", "gelu|silu"),
}


def record(model, ids, path, dtype, how):
    options = {"ops": True} if how == "ops" else {"roles": ["in", "out"], "modules": "all"}
    with tap.record(model, path, report=False, **options), torch.no_grad():
        model.to(dtype)(ids)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The reference, its input, and its recordings."""
    torch.manual_seed(0)
    model = Reference().eval()
    for parameter in model.parameters():
        parameter.data.mul_(2) if parameter.ndim > 1 else parameter.data.add_(0.1 * torch.randn_like(parameter))
    ids = torch.randint(0, WORDS, (2, 7))
    folder = tmp_path_factory.mktemp("reference")
    runs = {}

    def run(dtype, how):
        if (dtype, how) not in runs:
            path = folder / f"{dtype}-{how}"
            runs[dtype, how] = record(copy.deepcopy(model), ids, path, dtype, how)
        return runs[dtype, how]

    return model, ids, run


@pytest.mark.parametrize("how", ["modules", "ops"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("port", PORTS)
def test_a_sound_port_is_within_tolerance(reference, tmp_path, port, dtype, how):
    model, ids, run = reference
    path = record(Port(**PORTS[port], ids=ids).load(model).eval(), ids, tmp_path / "port", dtype, how)
    found = tap.diff(run(dtype, how), path)
    assert found.same, found
    assert found.verdict in ("identical", "within tolerance")


@pytest.mark.parametrize("how", ["modules", "ops"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("port", PORTS)
def test_a_fault_in_a_port_is_named(reference, tmp_path, port, fault, dtype, how):
    model, ids, run = reference
    path = record(Port(**PORTS[port], fault=fault, ids=ids).load(model).eval(), ids, tmp_path / "port", dtype, how)
    found = tap.diff(run(dtype, how), path)
    assert found.verdict == "diverged", found
    assert re.search(FAULTS[fault][how == "ops"], found.first.key), found


@pytest.mark.parametrize("level", ["full", "sketch"])
@pytest.mark.parametrize("port", PORTS)
def test_another_approximation_of_gelu_is_named_though_rounding_could_be_as_large(reference, tmp_path, port, level):
    model, ids, _ = reference
    wrong = Port(**PORTS[port], fault="gelu", ids=ids).load(model).eval()
    for name, each in {"a": copy.deepcopy(model), "b": wrong}.items():
        with tap.record(each.bfloat16(), tmp_path / name, ops=True, level=level, report=False), torch.no_grad():
            each(ids)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert (found.verdict, found.first.key) == ("inconclusive", "layers.0:aten::gelu"), found
    assert "approximate is 'tanh' in A, and B has none" in found.first.reason


def test_each_part_of_a_fused_projection_is_compared_with_its_columns(reference, tmp_path):
    model, ids, run = reference
    port = Port("by head", ids=ids).load(model).eval()
    with torch.no_grad():  # one key of one head
        port.h[1].qkv.weight[3 * WIDTH // HEADS + WIDTH // HEADS + 2] *= 1.5
    path = record(port, ids, tmp_path / "port", torch.float32, "modules")
    found = tap.diff(run(torch.float32, "modules"), path)
    assert found.first.key == "layers.1.k_proj", found
    assert found.first.key_b == "h.1.qkv"
    assert found["layers.1.q_proj"].verdict != "diverged"


def test_weights_that_are_stored_transposed_are_the_same(reference, tmp_path):
    class Transposed(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.matrix, self.shift = nn.Parameter(linear.weight.T.clone()), nn.Parameter(linear.bias.clone())

        def forward(self, x):
            return x @ self.matrix + self.shift

    class Other(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.one, self.two = Transposed(model[0]), Transposed(model[1])

        def forward(self, x):
            return self.two(self.one(x))

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)), torch.randn(5, 16)
    for name, each in {"one": model, "other": Other(model)}.items():
        with tap.record(each, tmp_path / name, roles=["in", "out", "param"], report=False), torch.no_grad():
            each(x)
    found = tap.diff(tmp_path / "one", tmp_path / "other")
    assert found.same, found
    assert found["0@param/weight"].verdict == "identical", found
    assert found["0@param/weight"].matched == "values"


def test_a_guess_makes_no_divergence(tmp_path):
    torch.manual_seed(0)
    shapes = {"alpha": (4, 8), "beta": (4, 8)}
    one = {"x": torch.randn(4, 3)} | {name: torch.randn(shape) for name, shape in shapes.items()}
    other = {"x": one["x"], "gamma": torch.randn(4, 8), "delta": torch.randn(4, 8), "eta": torch.randn(4, 8)}
    found = tap.diff(one, other)
    assert found.verdict != "diverged", found


def test_set_up_is_left_out_unless_it_is_asked_for(reference):
    model, ids, _ = reference

    def run(factor):
        with tap.trace(level="full") as trace, torch.no_grad():
            torch.cos(torch.linspace(1, 2, 30) * factor)
            model(ids)
        return trace

    one, other = run(2), run(3)
    found = tap.diff(one, other)
    assert found.verdict == "identical"
    assert "not compared: 3 operators of A and 3 of B ran before the first forward" in str(found)
    assert tap.diff(one, other, all_ops=True).verdict == "diverged"
