"""Eager against compiled: what is sound has no divergence, and what was planted is named."""

import copy

import pytest
import tensortap as tap
import torch
import traced_models
from torch import nn

pytestmark = pytest.mark.usefixtures("nothing_compiled")

LEVELS = ["sketch", "full"]


class Attention(nn.Module):
    """Three products of the same input, whose gradients inductor makes in another order."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16, bias=False) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        return torch.softmax(scores * 0.25, -1) @ self.value(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 16)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True) for _ in range(2))
        self.out = nn.Linear(16, 10)

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


MODELS = {
    "norm": lambda: nn.LayerNorm(16),
    "norm and products": lambda: nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
    "encoder layer": lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True),
    "attention": Attention,
    "net": Net,
}


def made(name):
    """A model whose norms are no longer what they are when new, and its input."""
    torch.manual_seed(0)
    model = MODELS[name]()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    return model, torch.randint(0, 10, (2, 5)) if name == "net" else torch.randn(2, 5, 16)


def traced(function, x, training=False, level="sketch"):
    torch.manual_seed(1)
    with tap.trace(level=level) as trace, torch.set_grad_enabled(training):
        y = function(x)
        if training:
            # No sum of squares: behind a norm its gradient is zero but for rounding.
            (y * torch.linspace(-1, 2, y.numel()).view(y.shape)).sum().backward()
    return trace


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_sound_model_compiled_by_inductor_does_not_diverge(name, training):
    model, x = made(name)
    compiled = torch.compile(model)
    for level in LEVELS:
        model.zero_grad()
        eager = traced(model, x, training, level)
        model.zero_grad()
        other = traced(compiled, x, training, level)
        for found in (tap.diff(eager, other), tap.diff(other, eager)):
            assert found.same, found


def step(called, args, kwargs):
    """A training step of one of `traced_models`."""
    called.zero_grad(set_to_none=True)
    with tap.trace(hashes=True) as trace:
        traced_models.loss_of(called(*args, **kwargs)).backward()
    return trace


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "moe", "vit", "resnet", "rnn", "unet"])
def test_a_sound_model_that_is_trained_does_not_diverge(name, backend):
    """Compiled, masks are made otherwise, gradients come in another order, and sums are taken in another one."""
    model, args, kwargs = traced_models.MODELS[name]()
    compiled = torch.compile(model, backend=backend)
    step(compiled, args, kwargs)  # which compiles it
    found = tap.diff(step(model, args, kwargs), step(compiled, args, kwargs))
    assert found.same, found


def wrong_norm(model, name):
    norm = model.get_submodule(name)
    setattr(norm, "eps" if hasattr(norm, "eps") else "variance_epsilon", 3e-2)


def wrong_weight(model, name):
    with torch.no_grad():
        model.get_submodule(name).weight[0].mul_(1.05)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("name", "spoil", "module", "named"),
    [
        ("llama", wrong_norm, "model.layers.1.post_attention_layernorm", ":aten::"),
        ("llama", wrong_weight, "model.layers.1.self_attn.o_proj", "@in/0 came in different"),
        ("gpt2", wrong_norm, "transformer.h.1.ln_1", ":aten::native_layer_norm/0"),
        ("bert", wrong_weight, "encoder.layer.0.output.dense", "@in/0 came in different"),
    ],
)
def test_a_fault_in_a_compiled_model_that_takes_another_way_is_named(name, spoil, module, named, backend):
    model, args, kwargs = traced_models.MODELS[name]()
    wrong = copy.deepcopy(model)
    spoil(wrong, module)
    compiled = torch.compile(wrong, backend=backend)
    step(compiled, args, kwargs)  # which compiles it
    found = tap.diff(step(model, args, kwargs), step(compiled, args, kwargs))
    assert found.sentence.startswith(f"diverged: {module}"), found
    assert named in found.sentence


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("training", [False, True])
def test_a_wrong_norm_in_a_compiled_model_is_named(training, level):
    model, x = made("net")
    wrong = copy.deepcopy(model)
    wrong.layers[1].norm1.eps = 1e-2
    found = tap.diff(traced(model, x, training, level), traced(torch.compile(wrong), x, training, level))
    assert found.first.key == "layers.1.norm1:aten::native_layer_norm/0"
    assert found.first.cause == "introduced"


def program(factor, end):
    def run(x, weight):
        return end(torch.relu(x @ weight) * factor)

    return run


def mean_of_squares(x):
    return torch.mean(x * x)


@pytest.mark.parametrize("end", [torch.tanh, torch.sum, mean_of_squares, lambda x: torch.softmax(x, -1)])
def test_a_wrong_kernel_is_found_where_nothing_comes_after_it(end):
    x, weight = torch.randn(6, 16), torch.randn(16, 16)
    eager = traced(lambda x: program(2.0, end)(x, weight), x)
    found = tap.diff(eager, traced(lambda x: torch.compile(program(2.1, end))(x, weight), x))
    assert found.verdict == "diverged", found
    torch._dynamo.reset()
    assert tap.diff(eager, traced(lambda x: torch.compile(program(2.0, end))(x, weight), x)).same


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 16)),
        lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True),
    ],
)
def test_a_dropout_is_the_same_whatever_it_is_made_of(make, level):
    torch.manual_seed(0)
    model, x = make(), torch.randn(2, 3, 16)
    eager = traced(model, x, True, level)
    model.zero_grad()
    found = tap.diff(eager, traced(torch.compile(model, backend="aot_eager"), x, True, level))
    assert found.verdict == "identical", found


@pytest.mark.parametrize("same_numbers", [True, False])
def test_a_dropout_of_inductors_is_random_unless_it_draws_as_eager_does(same_numbers):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4)), torch.randn(4, 8)
    eager = traced(model, x, True, "sketch")
    model.zero_grad()
    with torch._inductor.config.patch(fallback_random=same_numbers):
        found = tap.diff(eager, traced(torch.compile(model), x, True, "sketch"))
    assert (found.verdict != "diverged") == same_numbers, found
    if not same_numbers:
        assert found.first.key == "2:aten::mul.Tensor"
    assert ("random numbers are drawn there" in str(found)) != same_numbers


def test_another_seed_is_said():
    x = torch.ones(8)
    runs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        with tap.trace(hashes=True) as trace:
            nn.functional.dropout(x) + 1
        runs.append(trace)
    found = tap.diff(*runs)
    assert found.first.key.startswith("aten::bernoulli_")
    assert "random numbers are drawn there: both runs need the same seed" in str(found)


def inserted(x, weight, factor=None):
    y = torch.relu(x)
    if factor is not None:
        y = y * factor
    return (y @ weight).softmax(-1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("factors", "side", "verdict"), [((None, 1.01), "B", "extra"), ((1.01, None), "A", "missing")])
def test_an_operator_that_one_side_has_alone_is_where_the_error_begins(factors, side, verdict, level):
    x, weight = torch.randn(4, 8), torch.randn(8, 8)
    a, b = (traced(lambda x, factor=factor: inserted(x, weight, factor), x, level=level) for factor in factors)
    found = tap.diff(a, b)
    assert found.sentence == f"diverged: the error begins at aten::mul.Tensor, which only {side} has"
    assert (found.first.key, found.first.verdict, found.first.cause) == ("aten::mul.Tensor", verdict, "introduced")
    assert found["aten::mm"].cause == "inherited"
    assert found["aten::mm"].reason == f"its argument 0 comes from aten::mul.Tensor, which only {side} has"
    assert "aten::mul.Tensor" in str(found) and found.fails_on("introduced")


def test_a_product_that_is_given_another_operand_says_so():
    x, weight = torch.randn(4, 8), torch.randn(8, 8)

    def run(x, wrong):
        sine, cosine = x.sin(), x.cos()
        return (cosine if wrong else sine) @ weight

    found = tap.diff(*(traced(lambda x, wrong=wrong: run(x, wrong), x) for wrong in (False, True)))
    assert found.first.key == "aten::mm"
    assert found.first.reason == "it was given another tensor: its argument 0 is aten::sin in A and aten::cos in B"
