"""A map says what a key is made of on the other side: a slice, several side by side, a sum, other axes, or nothing."""

import json
import subprocess

import pytest
import tensortap as tap
import torch
from packed_rows import PROMPTS, VOCABULARY, WHOLE, WIDTH, run_packed
from torch import nn
from ttap_command import TTAP


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        return x + self.o(torch.tanh(self.q(x)) * self.k(x) + self.v(x))


class Conv1D(nn.Module):
    """A linear layer that stores its weight the other way round."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight.detach().t().contiguous())

    def forward(self, x):
        return x @ self.weight


class EngineLayer(nn.Module):
    """Projections as one, and the residual left to the next layer. `by_head`: q, k and v of each head side by side."""

    def __init__(self, layer, by_head):
        super().__init__()
        self.by_head = by_head
        self.fused, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), Conv1D(layer.o.weight)
        weights = [each.weight.detach() for each in (layer.q, layer.k, layer.v)]
        if by_head:
            weights = [torch.stack([weight.view(4, 4, WIDTH) for weight in weights], 1).flatten(0, 2)]
        self.fused.weight = nn.Parameter(torch.cat(weights))

    def forward(self, x, residual):
        x = x + residual
        made = self.fused(x)
        q, k, v = made.unflatten(-1, (4, 3, 4)).unbind(-2) if self.by_head else made.chunk(3, -1)
        y = torch.tanh(q) * k + v
        return self.out(y.flatten(-2) if self.by_head else y), x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Engine(nn.Module):
    def __init__(self, model, by_head=False):
        super().__init__()
        self.embed, self.norm = model.embed, model.norm
        self.layers = nn.ModuleList(EngineLayer(layer, by_head) for layer in model.layers)
        self.spare = nn.Identity()

    def forward(self, ids, last=None):
        x, residual = self.embed(ids), 0
        for layer in self.layers:
            x, residual = layer(x, residual)
        return self.norm(self.spare(x + residual))


def slices(by_head=False):
    for place, name in enumerate("qkv"):
        first = place * WIDTH
        yield {
            "slice": {"a": rf"^(layers\.\d+)\.{name}$", "of": "$1.fused"}
            | (
                {"shape": "[..., 4, 3, 4]", "at": f"[..., {place}, :]"}
                if by_head
                else {"at": f"[..., {first}:{first + WIDTH}]"}
            )
        }
        yield {
            "slice": {"a": rf"^(layers\.\d+)\.{name}@param/weight$", "of": "$1.fused@param/weight"}
            | ({"shape": [4, 3, 4, WIDTH], "at": f"[:, {place}]"} if by_head else {"at": f"[{first}:{first + WIDTH}]"})
        }


REST = [
    {"transpose": {"a": r"^(layers\.\d+)\.o@param/weight$", "of": "$1.out@param/weight"}},
    {"sum": {"a": r"^(layers\.\d+)$", "of": ["$1/0", "$1/1"]}},
    {"sum": {"a": r"^(layers\.[12])@in/0$", "of": ["$1@in/0", "$1@in/1"]}},
    {r"^(layers\.\d+)\.out$": "$1.o"},
    {"drop": {"b": "^spare"}},
]
CONCAT = [
    {"concat": {"a": r"^(.+)\.fused$", "of": ["$1.q", "$1.k", "$1.v"], "dim": -1}},
    {"concat": {"a": r"^(.+)\.fused@param/weight$", "of": [f"$1.{name}@param/weight" for name in "qkv"], "dim": 0}},
    {"transpose": {"a": r"^(.+)\.out@param/weight$", "of": "$1.o@param/weight", "dims": [1, 0]}},
    {"sum": {"b": r"^(layers\.\d+)$", "of": ["$1/0", "$1/1"]}},
    {"sum": {"b": r"^(layers\.[12])@in/0$", "of": ["$1@in/0", "$1@in/1"]}},
    {r"^(layers\.\d+)\.o$": "$1.out"},
    {"drop": {"a": "^spare"}},
]

FAULTS = {
    "": lambda engine: None,
    "layers.1.v": lambda engine: engine.layers[1].fused.weight[2 * WIDTH + 3].mul_(1.5),
    "layers.0.o": lambda engine: engine.layers[0].out.weight.mul_(1.03),
    "layers.2.q": lambda engine: engine.layers[2].fused.weight[:WIDTH].mul_(1.1),
}


@torch.no_grad()
def recorded(tmp_path, fault="", by_head=False, roles="out", level="full"):
    model = Model()
    engine = Engine(model, by_head)
    FAULTS[fault](engine)
    ids = torch.tensor(PROMPTS[0])
    for name, each in (("a", model), ("b", engine)):
        with tap.record(each, tmp_path / name, roles=roles, modules="all", level=level, report=False):
            each(ids[None])
    return tmp_path / "a", tmp_path / "b"


def told(*arguments):
    return subprocess.run([TTAP, "diff", *map(str, arguments)], capture_output=True, text=True)


# ---- what each operation does ----


@pytest.mark.parametrize("roles", ["out", "in,out,param"])
@pytest.mark.parametrize("fault", FAULTS)
def test_parts_sums_and_transposes_are_compared_and_the_fault_is_named(fault, roles, tmp_path):
    a, b = recorded(tmp_path, fault, roles=roles)
    diff = tap.diff(a, b, map=[*slices(), *REST], structure=False)
    made = {tensor.key: tensor for tensor in diff.tensors if tensor.made_b}
    assert made["layers.1.k"].made_b == "layers.1.fused[..., 16:32]"
    assert made["layers.1"].made_b == "layers.1/0 + layers.1/1"
    assert {tensor.matched for tensor in made.values()} == {"map"}
    if not fault:
        assert diff.verdict in ("identical", "within tolerance"), diff
        assert made["layers.1.k"].verdict in ("identical", "within tolerance")
        return
    assert diff.verdict == "diverged" and diff.first.key.partition("@")[0] == fault, diff
    assert diff.first.cause == "introduced" or "@param" in diff.first.key
    if "param" in roles:
        assert diff.first.key == f"{fault}@param/weight", diff


@pytest.mark.parametrize("roles", ["out", "in,out,param"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_key_of_a_is_several_of_b_side_by_side(fault, roles, tmp_path):
    b, a = recorded(tmp_path, fault, roles=roles)
    diff = tap.diff(a, b, map=CONCAT, structure=False)
    found = diff["layers.1.fused"]
    assert found.made_b == "cat(layers.1.q, layers.1.k, layers.1.v, dim=-1)" and found.key_b == "layers.1.q"
    assert diff["layers.1/0"].made_a == "layers.1/0 + layers.1/1"
    assert not [
        tensor.key for tensor in diff.tensors if tensor.verdict == "extra" and tensor.key.endswith((".k", ".v"))
    ]
    if not fault:
        assert diff.verdict in ("identical", "within tolerance"), diff
        return
    fused = {"layers.1.v": "layers.1.fused", "layers.0.o": "layers.0.out", "layers.2.q": "layers.2.fused"}[fault]
    assert diff.verdict == "diverged" and diff.first.key.partition("@")[0] == fused, diff
    if fault == "layers.1.v" and roles == "out":
        assert found.measures["worst"]["index"][-1] == 2 * WIDTH + 3


@pytest.mark.parametrize("roles", ["out", "in,out,param"])
def test_parts_that_lie_head_by_head(roles, tmp_path):
    a, b = recorded(tmp_path, by_head=True, roles=roles)
    diff = tap.diff(a, b, map=[*slices(by_head=True), *REST], structure=False)
    assert diff.verdict in ("identical", "within tolerance"), diff
    assert diff["layers.2.v"].made_b == "layers.2.fused.reshape(1, 5, 4, 3, 4)[:, :, :, 2:3]"
    assert diff["layers.2.v"].measures is None or diff["layers.2.v"].measures["count"] == 5 * WIDTH


def test_a_slice_of_another_part_is_told_at_its_key(tmp_path):
    a, b = recorded(tmp_path)
    wrong = [{"slice": {"a": r"^(layers\.1)\.q$", "of": "$1.fused", "at": "[..., 16:32]"}}]
    diff = tap.diff(a, b, map=[*wrong, *slices(), *REST], structure=False)
    assert diff.first.key == "layers.1.q" and diff.first.made_b == "layers.1.fused[..., 16:32]", diff


X = torch.arange(48.0).reshape(2, 3, 8)


@pytest.mark.parametrize(
    ("a", "b", "rule"),
    [
        ({"x": X[..., ::2]}, {"y": X}, {"slice": {"a": "x", "of": "y", "at": "[..., ::2]"}}),
        ({"y": X}, {"x": X[:, -2:]}, {"slice": {"b": "x", "of": "y", "at": "[:, -2:]"}}),
        ({"x": X[:, 1]}, {"y": X}, {"slice": {"a": "x", "of": "y", "at": ["...", "1", ":"]}}),
        ({"x": X.transpose(0, 1)}, {"y": X}, {"transpose": {"a": "x", "of": "y", "dims": [1, 0, 2]}}),
        ({"y": X}, {"x": X.mT}, {"transpose": {"b": "x", "of": "y"}}),
        ({"x": X.reshape(6, 8)}, {"y": X}, {"reshape": {"a": "x", "of": "y", "shape": [-1, 8]}}),
        ({"x": X.view(2, 3, 4, 2).mT}, {"y": X}, {"transpose": {"a": "x", "of": "y", "shape": "[..., 4, 2]"}}),
        ({"x": X}, {"y": X[:1], "z": X[1:]}, {"concat": {"a": "x", "of": ["y", "z"], "dim": 0}}),
        ({"x": X * 3}, {"y": X, "z": X + X}, {"sum": {"a": "x", "of": ["y", "z"]}}),
        ({"x": X[:, :, :4].mT}, {"y": X}, {"slice": {"a": "x", "of": "y", "at": "[..., :4]", "dims": [0, 2, 1]}}),
    ],
    ids=["step", "b", "index", "dims", "last two", "reshape", "split", "concat", "sum", "slice and transpose"],
)  # fmt: skip
def test_operations_on_tensors_in_memory(a, b, rule):
    diff = tap.diff(a, b, map=[rule], structure=False)
    assert diff.verdict == "identical" and len(diff.tensors) == 1 and not diff.warnings, diff
    (name,) = b if len(b) == 1 else ["z"]
    worse = b | {name: b[name].clone(memory_format=torch.contiguous_format)}
    worse[name].view(-1)[1 if name == "x" else 8].add_(5)
    diff = tap.diff(a, worse, map=[rule], structure=False)
    assert diff.verdict == "diverged" and len(diff.tensors) == 1, diff
    assert diff.first.measures["outside"] == 1


def test_a_shape_that_does_not_fit_is_a_mismatch():
    rule = {"transpose": {"a": "x", "of": "y"}}
    diff = tap.diff({"x": torch.ones(4, 6)}, {"y": torch.ones(4, 6)}, map=[rule], structure=False)
    assert diff.tensors[0].verdict == "shape mismatch"
    assert diff.tensors[0].reason.startswith("shape [4, 6] in A, [6, 4] in B, as the map says")


# ---- a rule wins ----


def test_a_rule_undoes_the_match_of_equal_keys():
    one, other = torch.randn(4, 4), torch.randn(4, 4)
    a, b = {"x": one, "y": other}, {"x": other.t().contiguous(), "y": one}
    assert tap.diff(a, b).verdict == "diverged"
    diff = tap.diff(a, b, map=[{"transpose": {"a": "^y$", "of": "x"}}, {"^y$": "x"}], structure=False)
    assert diff.verdict == "identical" and {tensor.key_b for tensor in diff.tensors} == {"x", "y"}
    # Also where nothing takes the place of the match.
    diff = tap.diff({"x": one}, {"x": one}, map={"^x$": "gone"}, structure=False)
    assert diff.counts["missing"] == diff.counts["extra"] == 1
    # What is a term of a sum is compared there only.
    a, b = {"x": one + other, "y": other}, {"x": one, "y": other}
    diff = tap.diff(a, b, map=[{"sum": {"a": "^x$", "of": ["x", "y"]}}], structure=False)
    assert [(each.key, each.verdict) for each in diff.tensors] == [("x", "identical"), ("y", "missing")]


def test_the_first_rule_for_a_key_counts():
    x = torch.randn(4, 4)
    rules = [{"drop": {"a": "^x$"}}, {"transpose": {"a": "^x$", "of": "y"}}]
    diff = tap.diff({"x": x}, {"y": x}, map=rules, structure=False)
    assert diff.counts["missing"] == 0 and diff.counts["extra"] == 1 and len(diff.dropped) == 1


def test_what_is_dropped_is_counted_and_listed(tmp_path):
    a, b = recorded(tmp_path)
    map_file = tmp_path / "map.yaml"
    map_file.write_text("- '^(layers.\\d+)\\.out$': '$1.o'\n- drop: {b: '^spare', a: 'norm'}\n- drop: {b: 'norm'}\n")
    result = told(a, b, "--map", map_file)
    assert "dropped by the map: 1 tensor of A and 2 of B\n  A: norm (line 2)\n  B: spare (line 2)\n" in result.stdout
    found = json.loads(told(a, b, "--map", map_file, "--json").stdout)
    assert {"side": "b", "key": "norm", "map_line": 3} in found["passes"][0]["dropped"]
    diff = tap.diff(a, b, map=map_file)
    assert len(diff.dropped) == 3 and diff.dropped[0] == {"side": "a", "key": "norm", "map_line": 2}
    assert not [tensor for tensor in diff.tensors if tensor.key in ("norm", "spare")]


# ---- how it is told ----


def test_matches_are_listed_with_their_rule(tmp_path):
    a, b = recorded(tmp_path, "layers.1.v")
    map_file = tmp_path / "map.yaml"
    map_file.write_text(json.dumps([*slices(), *REST], indent=0))
    text = told(a, b, "--map", map_file, "--matches").stdout
    line = next(line for line in text.splitlines() if line.startswith("layers.2.k "))
    assert line.split("  ")[0] == "layers.2.k" and "layers.2.fused[..., 16:32]" in line and "by the map, line " in line
    assert "B calls it layers.1.fused[..., 32:48] (by the map, line " in text, text
    found = json.loads(told(a, b, "--map", map_file, "--json").stdout)
    (tensor,) = (each for each in found["passes"][0]["tensors"] if each["key"] == "layers.2.k")
    assert tensor["matched"] == "map" and tensor["made_b"] == "layers.2.fused[..., 16:32]" and tensor["map_line"] > 1


def test_fingerprints_cannot_be_sliced(tmp_path):
    a, b = recorded(tmp_path, level="fingerprint")
    diff = tap.diff(a, b, map=[*slices(), *REST], structure=False)
    found = diff["layers.0.q"]
    assert found.verdict == "inconclusive", found
    assert "cannot be sliced or combined: record at level full" in found.reason, found
    # What is whole on both sides is compared as ever.
    assert diff["norm"].evidence and diff["layers.0.o"].evidence


# ---- token by token ----


@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_map_holds_token_by_token(fault, by_head, tmp_path):
    if by_head and fault:
        return
    model = Model()
    engine = Engine(model, by_head)
    with torch.no_grad():
        FAULTS[fault](engine)
        with tap.record(model, tmp_path / "a", roles="out,param", modules="all", report=False):
            for number, prompt in enumerate(PROMPTS):
                tap.batch(
                    request_ids=[str(number)],
                    positions=torch.arange(len(prompt)),
                    query_start=[0, len(prompt)],
                    token_ids=torch.tensor(prompt),
                )
                model(torch.tensor([prompt]))
    run_packed(engine, tmp_path / "b", [WHOLE], roles="out,param", modules="all")
    diff = tap.diff(tmp_path / "a", tmp_path / "b", map=[*slices(by_head), *REST], structure=False)
    assert diff.to_json()["tokens"]["tokens"] == 15
    assert diff["layers.1.k"].made_b and diff["layers.1"].made_b and diff["layers.1.k"].evidence
    if fault:
        assert diff.verdict == "diverged" and diff.first.key == f"{fault}@param/weight", diff
    else:
        assert diff.verdict in ("identical", "within tolerance"), diff


def test_axes_are_those_of_the_recorded_tensor_token_by_token(tmp_path):
    class Heads(nn.Module):
        def __init__(self, turned):
            super().__init__()
            torch.manual_seed(3)
            self.embed, self.heads, self.turned = nn.Embedding(VOCABULARY, WIDTH), nn.Identity(), turned

        def forward(self, ids, last):
            x = self.embed(ids).unflatten(-1, (4, 4))
            return self.heads(x.transpose(1, 2).contiguous() if self.turned else x)

    run_packed(Heads(False), tmp_path / "a", [[each] for each in WHOLE])
    run_packed(Heads(True), tmp_path / "b", [WHOLE])
    rule = {"transpose": {"a": "^heads$", "of": "heads", "dims": [0, 2, 1]}}
    assert tap.diff(tmp_path / "a", tmp_path / "b").verdict == "diverged"
    diff = tap.diff(tmp_path / "a", tmp_path / "b", map=[rule], structure=False)
    assert diff["heads"].verdict == "identical" and diff["heads"].made_b.endswith("permute(0, 2, 1)"), diff
    half = {"slice": {"a": "^heads$", "of": "heads", "at": "[:5]"}}
    with pytest.raises(ValueError, match="axis 0 is that of the tokens"):
        tap.diff(tmp_path / "a", tmp_path / "b", map=[half])


# ---- mistakes ----


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("- slic: {a: x, of: y, at: '[0:1]'}", "line 1: unknown operation 'slic'"),
        ("- a: b\n- slice: {a: '(', of: y, at: '[0:1]'}", "line 2: bad pattern '('"),
        ("- slice: {a: x, of: '$1', at: '[0:1]'}", "line 1: the replacement '$1' does not fit the pattern 'x'"),
        ("- slice: {a: x, of: y}", "line 1: slice needs `at`"),
        ("- slice: {a: x, of: y, at: '[0:1:-1]'}", "line 1: '0:1:-1' in `at` is no slice"),
        ("- slice: {a: x, of: y, where: 0}", "line 1: slice has a field 'where'"),
        ("- slice: {a: x, b: y, at: '[0:1]'}", "line 1: slice needs one pattern: a or b"),
        ("- concat: {a: x, of: [y], dim: 0}", "line 1: concat is made of two keys or more, and `of` names 1"),
        ("- concat: {a: x, of: [y, z]}", "line 1: concat needs `dim`"),
        ("- drop: {of: x}", "line 1: drop says not which keys"),
        ("- reshape: {a: x, of: y, shape: [two]}", "line 1: 'two' in 'shape' is no whole number"),
        ("- slice: {a: '^x$', of: y, at: '[..., 0:9]'}",
         "line 1: slice '^x$': for 'x' of 'y': the slice 0:9 is beyond axis 1 of shape [4, 8]"),
        ("- transpose: {a: '^x$', of: y, dims: [0, 0]}", "of 'y': `dims` [0, 0] is no order of 2 axes"),
        ("- reshape: {a: '^x$', of: y, shape: [3, -1]}", "of 'y': `shape` cannot be that of a tensor of shape [4, 8]"),
        ("- concat: {a: '^x$', of: [y, y], dim: 2}", "of 'y': `dim` 2 is no axis of shape [4, 8]"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told_with_its_line(rules, said, tmp_path):
    (tmp_path / "map.yaml").write_text(rules)
    with pytest.raises(ValueError, match=r"map\.yaml") as raised:
        tap.diff({"x": torch.ones(4, 8)}, {"y": torch.ones(4, 8)}, map=tmp_path / "map.yaml")
    assert said in str(raised.value), raised.value


def test_rules_that_did_nothing_are_told(tmp_path):
    (tmp_path / "map.yaml").write_text(
        "- sum: {a: nobody, of: [x, y]}\n- sum: {a: '^x(\\d)$', of: ['y$1', 'z$1']}\n- drop: {b: '^w'}\n"
    )
    a, b = {"x1": X, "x2": X}, {"y1": X, "y2": X}
    warnings = tap.diff(a, b, map=tmp_path / "map.yaml").warnings
    assert [warning.partition("map.yaml, ")[2] for warning in warnings if warning.startswith("--map: ")] == [
        "line 1: sum 'nobody' was not needed for any key; `ttap ls RUN` lists the keys",
        "line 2: sum '^x(\\d)$': 'x1' of A is made of 'z1', and B has none, and 1 key more",
        "line 3: drop '^w' was not needed for any key; `ttap ls RUN` lists the keys",
    ]
