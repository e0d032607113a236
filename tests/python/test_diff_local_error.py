"""What a call may add by itself: faults that are far smaller than the tolerance of bf16, and rounding that is none."""

import copy

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(64, 32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def made(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return Model().to(dtype).eval(), torch.randn(2, 12, 64).to(dtype)


def recorded(model, directory, *inputs, **options):
    options = {"roles": ["in", "out"], "modules": "all", "report": False} | options
    with tap.record(model, directory, **options), torch.no_grad():
        model(*inputs)
    return directory


def returning(change):
    def plant(module):
        forward = module.forward
        module.forward = lambda *args: change(forward(*args))

    return plant


def moved(tensor, row, by):
    tensor = tensor.clone()
    tensor[0, row] += by
    return tensor


FAULTS = {
    "factor": returning(lambda y: y * 1.02),
    "one_row": returning(lambda y: moved(y, 3, 0.05 * y.float().std().item())),
    "constant": returning(lambda y: y + 0.02 * y.float().std().item()),
    "through_fp8": returning(lambda y: y.to(torch.float8_e4m3fn).to(y.dtype)),
    "two_rows_swapped": returning(lambda y: y[:, [1, 0, *range(2, y.shape[1])]]),
    "truncated": returning(lambda y: (y.view(torch.int16) & -8).view(y.dtype)),
}


@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
@pytest.mark.parametrize("module", ["blocks.1.up", "blocks.1", "head"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_below_the_tolerance_of_bf16_is_named(fault, module, ops, tmp_path):
    model, x = made()
    wrong = copy.deepcopy(model)
    FAULTS[fault](wrong.get_submodule(module))
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=ops, level="full"),
        recorded(wrong, tmp_path / "b", x, ops=ops, level="full"),
    )
    first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
    assert found.verdict in ("diverged", "inconclusive") and not found.same
    assert (first["name"] if first["event_kind"] == "module" else first["parent"]) == module


def test_the_reason_says_why_it_is_no_rounding(tmp_path):
    model, x = made()
    wrong = copy.deepcopy(model)
    FAULTS["factor"](wrong.blocks[1].up)
    found = tap.diff(recorded(model, tmp_path / "a", x), recorded(wrong, tmp_path / "b", x))
    assert found.first.reason.startswith("its error is in proportion to the values, like a factor of 1.02")
    assert found.first.relative < 0.04, "the tolerance of bf16 would let it pass"


class StoredInFp8(nn.Module):
    """A weight in fp8 with a scale per channel, which is decoded at every call."""

    def __init__(self, weight):
        super().__init__()
        scale = weight.abs().amax(1, keepdim=True) / 448
        self.register_buffer("codes", (weight / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale.bfloat16())

    def forward(self, x):
        return F.linear(x, self.codes.to(torch.bfloat16) * self.scale)


def through_int8(weight):
    step = weight.abs().max() / 127
    return (weight / step).round() * step


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_a_weight_in_fp8_that_is_another_is_named_though_rounding_could_be_as_large(level, tmp_path):
    torch.manual_seed(0)
    weights = [torch.randn(64, 64) / 8 for _ in range(3)]
    model = nn.Sequential(*[StoredInFp8(weight) for weight in weights])
    wrong = nn.Sequential(*[StoredInFp8(weight) for weight in weights])
    wrong[1] = StoredInFp8(through_int8(weights[1]))
    x = torch.randn(6, 64).bfloat16()
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=True, level=level),
        recorded(wrong, tmp_path / "b", x, ops=True, level=level),
    )
    assert found.sentence.startswith("inconclusive: 1:aten::_to_copy@in/0 came in different"), found.sentence


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("level", ["full", "sketch"])
def test_a_weight_of_which_one_value_is_the_next_one_is_named(level, dtype, tmp_path):
    model, x = made(dtype)
    wrong = copy.deepcopy(model)
    value = wrong.blocks[1].up.weight.data[5, 7]
    wrong.blocks[1].up.weight.data[5, 7] = torch.nextafter(value, torch.tensor(9, dtype=dtype))
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=True, level=level),
        recorded(wrong, tmp_path / "b", x, ops=True, level=level),
    )
    assert found.verdict == "inconclusive" and found.first.key.startswith("blocks.1.up:aten::"), found.sentence
    assert "nothing that was recorded rounded it" in found.first.reason


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_a_value_that_both_sides_have_and_one_of_them_changes_is_no_rounding(level, tmp_path):
    """By its size it could be: B made A's value, bit for bit, and another one of it."""
    model, x = made()
    wrong = copy.deepcopy(model)
    returning(lambda y: moved(y, 3, 0.012 * y.float().std().item()))(wrong.blocks[1].up)
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=True, level=level),
        recorded(wrong, tmp_path / "b", x, ops=True, level=level),
    )
    first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
    assert not found.same and first["parent"] == "blocks.1.up", found.sentence


class RmsNorm(nn.Module):
    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def test_the_first_operator_that_only_one_side_has_is_named(tmp_path):
    """A's norm casts the value that B's fault casts before."""

    def change(y):
        wrong = y.clone()
        wrong[0, 3] += 0.015 * y.float().std().to(y.dtype)
        return wrong

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 64), RmsNorm(), nn.Linear(64, 64)).bfloat16(), torch.randn(2, 12, 64)
    wrong = copy.deepcopy(model)
    returning(change)(wrong[0])
    found = tap.diff(
        recorded(model, tmp_path / "a", x.bfloat16(), ops=True, level="sketch"),
        recorded(wrong, tmp_path / "b", x.bfloat16(), ops=True, level="sketch"),
    )
    assert found.first.key == "0:aten::std.correction", found.sentence


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_another_weight_in_place_of_a_tied_one_is_named(level, tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(50, 64), nn.Linear(64, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.embed(tokens))

    torch.manual_seed(0)
    model, tokens = Tied().bfloat16(), torch.randint(0, 50, (2, 12))
    wrong = copy.deepcopy(model)
    wrong.head.weight = nn.Parameter(through_int8(model.head.weight.detach()))
    found = tap.diff(
        recorded(model, tmp_path / "a", tokens, ops=True, level=level),
        recorded(wrong, tmp_path / "b", tokens, ops=True, level=level),
    )
    first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
    assert not found.same and first["parent"] == "head", found.sentence


def test_fingerprints_tell_an_activation_that_leaves_no_zeros(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).bfloat16()
    wrong = copy.deepcopy(model)
    wrong[1] = nn.LeakyReLU(0.01)
    x = torch.randn(12, 64).bfloat16()
    for ops in (False, True):
        found = tap.diff(
            recorded(model, tmp_path / f"a{ops}", x, ops=ops, level="sketch"),
            recorded(wrong, tmp_path / f"b{ops}", x, ops=ops, level="sketch"),
        )
        first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
        assert (first["name"] if first["event_kind"] == "module" else first["parent"]) == "1", found.sentence
        assert "values are zero in A and 0 in B" in found.first.reason


def lower(model, x, dtype):
    return copy.deepcopy(model).to(dtype), x.to(dtype)


def weight_through_fp8(module):
    for parameter in module.parameters():
        parameter.data = parameter.data.to(torch.float8_e4m3fn).to(parameter.dtype)


IN_LOWER_PRECISION = {
    "factor": FAULTS["factor"],
    "constant": FAULTS["constant"],
    "through_fp8": FAULTS["through_fp8"],
    "weight_through_fp8": weight_through_fp8,
}


@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
@pytest.mark.parametrize("module", ["blocks.1.up", "blocks.2.down"])
@pytest.mark.parametrize("fault", IN_LOWER_PRECISION)
def test_a_fault_beside_the_rounding_of_bf16_is_named(fault, module, ops, tmp_path):
    """What f32 and bf16 differ by grows alike in all layers, and here it does not."""
    model, x = made(torch.float32)
    wrong, rounded = lower(model, x, torch.bfloat16)
    IN_LOWER_PRECISION[fault](wrong.get_submodule(module))
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=ops, level="full"),
        recorded(wrong, tmp_path / "b", rounded, ops=ops, level="full"),
    )
    first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
    assert not found.same
    assert (first["name"] if first["event_kind"] == "module" else first["parent"]) == module, found.sentence


@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
def test_code_of_a_block_is_named_beside_the_rounding_of_bf16(ops, tmp_path):
    model, x = made(torch.float32)
    wrong, rounded = lower(model, x, torch.bfloat16)
    wrong.blocks[1].forward = lambda x, block=wrong.blocks[1]: x + 1.05 * block.down(F.gelu(block.up(block.norm(x))))
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=ops, level="full"),
        recorded(wrong, tmp_path / "b", rounded, ops=ops, level="full"),
    )
    first = found.to_json()["passes"][0]["tensors"][found.first.order - 1]
    assert not found.same
    assert (first["name"] if first["event_kind"] == "module" else first["parent"]) == "blocks.1", found.sentence


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
@pytest.mark.parametrize("seed", range(3))
def test_lower_precision_alone_is_no_fault(seed, ops, dtype, tmp_path):
    model, _ = made(torch.float32)
    torch.manual_seed(seed)
    x = torch.randn(2, 12, 64) * torch.rand(64).exp()
    other, rounded = lower(model, x, dtype)
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=ops, level="full"),
        recorded(other, tmp_path / "b", rounded, ops=ops, level="full"),
    )
    assert found.verdict == "within tolerance", found.sentence


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
def test_another_way_to_add_is_rounding(dtype, ops, tmp_path):
    class Halves(nn.Linear):
        def forward(self, x):
            half = self.in_features // 2
            parts = x[..., :half] @ self.weight[:, :half].t(), x[..., half:] @ self.weight[:, half:].t()
            return parts[0] + parts[1] + self.bias

    model, x = made(dtype)
    other = copy.deepcopy(model)
    for block in other.blocks:
        block.up.__class__ = Halves
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=ops, level="full"),
        recorded(other, tmp_path / "b", x, ops=ops, level="full"),
    )
    assert found.verdict == "within tolerance", found.sentence


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_program_may_end_with_a_product_that_is_summed_in_halves(dtype, tmp_path):
    """Half of a product is no match of the whole: what both modules returned agrees."""

    class Halves(nn.Linear):
        def forward(self, x):
            half = self.in_features // 2
            return (F.linear(x[..., :half], self.weight[:, :half]) + F.linear(x[..., half:], self.weight[:, half:])).to(
                x.dtype
            )

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 300, bias=False)).to(dtype), torch.randn(2, 20, 64)
    other = copy.deepcopy(model)
    other[1].__class__ = Halves
    found = tap.diff(
        recorded(model, tmp_path / "a", x.to(dtype), ops=True, level="full"),
        recorded(other, tmp_path / "b", x.to(dtype), ops=True, level="full"),
    )
    assert found.verdict == "within tolerance", found.sentence


class Attention(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way, self.qkv, self.out = way, nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.way == "fused":
            made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            lowest = torch.finfo(x.dtype).min
            mask = torch.full((x.shape[1], x.shape[1]), lowest, dtype=x.dtype).triu(2 if self.way == "late" else 1)
            scale = 0.3 if self.way == "scaled" else 0.25
            made = (q @ k.transpose(-1, -2) * scale + mask).softmax(-1) @ v
        return self.out(made.transpose(1, 2).flatten(2))


def attention(way, dtype):
    torch.manual_seed(0)
    return Attention(way).to(dtype).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("ops", [False, True], ids=["modules", "ops"])
def test_attention_in_another_kernel_is_rounding(dtype, ops, tmp_path):
    x = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    a = recorded(attention("fused", dtype), tmp_path / "a", x, ops=ops, level="full")
    b = recorded(attention("plain", dtype), tmp_path / "b", x, ops=ops, level="full")
    assert tap.diff(a, b).verdict == "within tolerance"


def test_code_between_two_modules_is_named_with_both(tmp_path):
    x = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Linear(64, 64), attention("plain", torch.float32))
    wrong = nn.Sequential(model[0], attention("scaled", torch.float32))
    found = tap.diff(recorded(model, tmp_path / "a", x), recorded(wrong, tmp_path / "b", x))
    assert found.sentence == "diverged: 1 introduced the error"
    assert "made by code of 1, between 1.qkv and 1.out@in/0, of inputs that agree bit for bit" in found.first.reason


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16], ids=str)
def test_a_mask_is_a_mask_in_every_dtype(narrow, tmp_path):
    x = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(1))
    wide = recorded(attention("plain", torch.float32), tmp_path / "a", x, ops=True, level="full")
    same = recorded(attention("plain", narrow), tmp_path / "b", x.to(narrow), ops=True, level="full")
    late = recorded(attention("late", narrow), tmp_path / "c", x.to(narrow), ops=True, level="full")
    assert tap.diff(wide, same).verdict == "within tolerance"
    assert tap.diff(wide, late).verdict == "diverged"


class CastUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.scale = nn.Linear(64, 64), nn.Parameter(torch.ones(64))

    def forward(self, x):
        y = self.up(x).float()
        return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * self.scale


def test_what_was_cast_up_from_bf16_has_the_precision_of_bf16(tmp_path):
    torch.manual_seed(0)
    model, x = CastUp().eval(), torch.randn(4, 64)
    a = recorded(model, tmp_path / "a", x, ops=True, level="full")
    b = recorded(copy.deepcopy(model).bfloat16(), tmp_path / "b", x.bfloat16(), ops=True, level="full")
    found = tap.diff(a, b)
    assert found.verdict == "within tolerance", found.sentence
    assert {tensor.tolerance["source"] for tensor in found.tensors if tensor.tolerance} == {"bf16 default"}


def test_one_module_that_computes_in_bf16_is_not_how_the_side_runs(tmp_path):
    model, x = made(torch.float32)
    wrong = copy.deepcopy(model)
    forward = wrong.blocks[1].up.bfloat16().forward
    wrong.blocks[1].up.forward = lambda y: forward(y.bfloat16()).float()
    found = tap.diff(recorded(model, tmp_path / "a", x), recorded(wrong, tmp_path / "b", x))
    assert found.sentence == "diverged: blocks.1.up introduced the error"


class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.rows = nn.Linear(8, 4, bias=False), nn.Parameter(torch.randn(4, 8) * 100)

    def forward(self, x):
        _, chosen = self.score(x).topk(1)
        return self.rows[chosen.view(-1)]


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_a_near_tie_that_flips_is_no_fault_and_all_follows_from_it(tmp_path, level):
    torch.manual_seed(0)
    model = Choice()
    model.score.weight.data[1] = model.score.weight.data[0] * (1 + 2**-23)
    model.score.weight.data[2:] *= 0.01
    other = copy.deepcopy(model)
    other.score.weight.data[0] = model.score.weight.data[0] * (1 + 2**-22)
    x = torch.rand(3, 8) * model.score.weight.data[0].sign()
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=True, level=level),
        recorded(other, tmp_path / "b", x, ops=True, level=level),
    )
    assert found.counts["flipped"] == 1 and found.verdict == "inconclusive"
    assert found.sentence.startswith("inconclusive: rounding, then a near tie flipped at Choice:aten::topk/1; all")
    flipped = next(tensor for tensor in found.tensors if tensor.verdict == "flipped")
    assert "ties" in flipped.reason


def test_a_flip_far_from_a_tie_is_a_fault(tmp_path):
    torch.manual_seed(0)
    model, x = Choice(), torch.randn(3, 8)
    wrong = copy.deepcopy(model)
    wrong.score.weight.data = wrong.score.weight.data.flip(0)
    found = tap.diff(
        recorded(model, tmp_path / "a", x, ops=True, level="full"),
        recorded(wrong, tmp_path / "b", x, ops=True, level="full"),
    )
    assert found.verdict == "diverged" and found.counts["flipped"] == 0


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_a_setting_that_differs_is_named_though_its_effect_is_small(level, tmp_path):
    model, x = made(torch.float32)
    wrong = copy.deepcopy(model)
    wrong.blocks[1].norm.eps = 1.0001e-5
    a, b = recorded(model, tmp_path / "a", x, level=level), recorded(wrong, tmp_path / "b", x, level=level)
    found = tap.diff(a, b)
    settings = found.to_json()["passes"][0]["settings"]
    assert settings == [
        {"call_a": "blocks.1.norm", "call_b": "blocks.1.norm", "name": "eps", "a": "1e-05", "b": "1.0001e-05"}
    ]
    assert "eps is 1e-05 in A and 1.0001e-05 in B" in str(found)


def test_an_argument_of_an_operator_that_differs_is_named(tmp_path):
    class Scaled(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self._factor = [factor]

        def forward(self, x):
            return torch.add(x, x, alpha=self._factor[0]) * self._factor[0]

    x = torch.randn(4, 8)
    a = recorded(Scaled(0.5), tmp_path / "a", x, ops=True, level="full")
    b = recorded(Scaled(0.25), tmp_path / "b", x, ops=True, level="full")
    found = tap.diff(a, b)
    texts = {(each["name"], each["a"], each["b"]) for each in found.to_json()["passes"][0]["settings"]}
    assert texts == {("alpha", "0.5", "0.25"), ("argument 1", "0.5", "0.25")}
    assert "its alpha is 0.5 in A and 0.25 in B" in str(found)


def test_where_the_bits_part_first_is_named_also_within_tolerance(tmp_path):
    model, x = made(torch.float32)
    other = copy.deepcopy(model)
    other.blocks[1].up.weight.data[0, 0] *= 1.001
    found = tap.diff(recorded(model, tmp_path / "a", x), recorded(other, tmp_path / "b", x), rtol=1e-3, atol=1e-3)
    assert found.verdict == "within tolerance" and found.first_unequal.key == "blocks.1.up"
    assert "the bits first differ at blocks.1.up" in found.sentence
