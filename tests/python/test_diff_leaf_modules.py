"""Small faults in bf16 where only modules without others inside were recorded: attention is code between them."""

import copy

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS = 128, 4


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(WIDTH)), 1e-6

    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.plain, self.factor, self.edit = False, 1.0, lambda k, v, made: made

    def forward(self, x):
        q, k, v = (each(x).view(-1, HEADS, WIDTH // HEADS).transpose(0, 1) for each in (self.q, self.k, self.v))
        q = q * self.factor
        if self.plain:  # softmax in f32, as an engine has it
            scores = (q @ k.transpose(1, 2)).float() * q.shape[-1] ** -0.5
            past = torch.ones(scores.shape[1:]).tril().bool()
            made = scores.masked_fill(~past, -torch.inf).softmax(-1).to(v.dtype) @ v
        else:
            made = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        return self.o(self.edit(k, v, made).transpose(0, 1).reshape(-1, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attn = Norm(), Attention()

    def forward(self, x):
        return x + self.attn(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(5))
        self.last, self.head = Norm(), nn.Linear(WIDTH, 320, bias=False)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x))


def in_halves(linear, x):
    half = WIDTH // 2
    return F.linear(x[:, :half], linear.weight[:, :half]) + F.linear(x[:, half:], linear.weight[:, half:], linear.bias)


@pytest.fixture(scope="module")
def sides():
    """The same model twice, which rounds in other places."""
    torch.manual_seed(0)
    model = Model().bfloat16().eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.06 if ".q." in name or ".k." in name else 0.12)
    other = copy.deepcopy(model)
    for layer in other.layers:
        layer.attn.plain = True
    other.stem.forward = lambda x, stem=other.stem: in_halves(stem, x)
    return model, other


def compared(sides, plant, tmp_path, **options):
    model, other = sides[0], copy.deepcopy(sides[1])
    other.stem.forward = lambda x: in_halves(other.stem, x)
    plant(other)
    x = torch.randn(48, WIDTH, generator=torch.Generator().manual_seed(1)).bfloat16()
    for name, each in (("a", model), ("b", other)):
        recording = tap.record(each, tmp_path / name, roles=["in", "out"], modules="leaf", level="full", report=False)
        with recording, torch.no_grad():
            each(x)
    return tap.diff(tmp_path / "a", tmp_path / "b", **options)


def with_edit(edit, layer=2):
    return lambda model: setattr(model.layers[layer].attn, "edit", edit)


def one_token_off(k, v, made):
    made = made.clone()
    made[:, 9] += (v[:, 3] - made[:, 9]) / 8
    return made


def through_fp8(k, v, made):
    return made.to(torch.float8_e4m3fn).to(made.dtype)


def scale_channel(model):
    model.layers[2].norm.weight.data[4] *= 1.3


def scale_head(model):
    model.head.forward = lambda x: F.linear(x, model.head.weight) * 1.01


def other_epsilon(model):
    model.layers[2].norm.eps = 0.015


FAULTS = {
    "one_token": (with_edit(one_token_off), "layers.2.attn.o@in/0", "of axis 0"),
    "channel": (scale_channel, "layers.2.norm", "index 4 of axis 1"),
    "head": (scale_head, "head", "in proportion to the values"),
    "epsilon": (other_epsilon, "layers.2.norm", "which shows"),
}


def test_rounding_in_other_places_is_no_fault(sides, tmp_path):
    found = compared(sides, lambda model: None, tmp_path)
    assert found.verdict == "within tolerance"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_below_the_tolerance_is_named(fault, sides, tmp_path):
    plant, key, reason = FAULTS[fault]
    found = compared(sides, plant, tmp_path)
    assert (found.verdict, found.first.key) == ("diverged", key)
    assert reason in found.first.reason and found.first.relative < 0.04


def test_attention_whose_error_grows_more_than_in_other_layers_stands_out(sides, tmp_path):
    found = compared(sides, with_edit(through_fp8), tmp_path)
    assert found.first.key == "layers.2.attn.o@in/0" and not found.same


def test_attention_that_was_given_the_same_bits_may_only_round(sides, tmp_path):
    def plant(model):
        del model.stem.forward
        model.layers[0].attn.factor = 1.05

    found = compared(sides, plant, tmp_path)
    assert (found.verdict, found.first.key) == ("diverged", "layers.0.attn.o@in/0")
    assert found.first.relative < 0.04


def test_what_no_recorded_call_says_it_was_made_of_is_not_guessed_when_strict(sides, tmp_path):
    found = compared(sides, with_edit(one_token_off), tmp_path, strict=True)
    assert found.first is None or found.first.key != "layers.2.attn.o@in/0"
