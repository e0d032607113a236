"""Gradients that are zero but for rounding: no fault in a sound model, and no cover for one that was planted."""

import copy
import warnings

import pytest
import tensortap as tap
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("nothing_compiled")

LEVELS = ["sketch", "full"]


class KeyBias(nn.Module):
    """A bias of the keys adds the same to a whole row of scores, which a softmax takes away."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        return torch.softmax(scores * 0.25, -1) @ self.value(x)


MODELS = {
    "encoder layer": lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True),
    "convolution": lambda: nn.Sequential(
        nn.Conv1d(5, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 4, 3)
    ),
    "batch norm of two values": lambda: nn.Sequential(
        nn.Conv1d(5, 48, 16), nn.BatchNorm1d(48), nn.ReLU(), nn.Conv1d(48, 4, 1)
    ),
    "key bias": KeyBias,
}


def made(name):
    torch.manual_seed(0)
    return MODELS[name](), torch.randn(2, 5, 16)


def trained(function, model, x, level):
    model.zero_grad()
    torch.manual_seed(1)
    with tap.trace(level=level) as trace:
        # Behind a norm the gradient of a sum of squares is zero but for epsilon and rounding.
        function(x).square().mean().backward()
    return trace


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_that_are_zero_but_for_rounding_agree(name, level):
    model, x = made(name)
    eager = trained(model, model, x, level)
    compiled = trained(torch.compile(model), model, x, level)
    for found in (tap.diff(eager, compiled), tap.diff(compiled, eager)):
        assert found.same, found


def test_the_gradient_of_a_bias_before_a_batch_norm_says_what_it_was_held_against():
    model, x = made("convolution")
    eager = trained(model, model, x, "full")
    found = tap.diff(eager, trained(torch.compile(model), model, x, "full"))["0:backward:aten::convolution_backward/2"]
    assert found.verdict == "within tolerance"
    assert found.tolerance["source"] == "f32 default, beside what was summed"
    assert "it is zero but for rounding" in found.note


@pytest.mark.parametrize("level", LEVELS)
def test_a_tolerance_that_was_asked_for_is_kept(level):
    model, x = made("convolution")
    eager = trained(model, model, x, level)
    found = tap.diff(eager, trained(torch.compile(model), model, x, level), rtol=1e-4, atol=0)
    assert found.verdict == "diverged"


@pytest.fixture
def wrong_backward():
    """Puts a fault into what convolutions do in the backward, whoever calls them, where there are so many channels."""
    libraries = []

    def plant(channels, fault):
        right = torch.library.get_kernel("aten::convolution_backward", "CPU")

        def wrong(keys, *arguments):
            results = right.call_boxed(keys, *arguments)
            if arguments[0].shape[1] == channels:
                fault(results)
            return results

        libraries.append(torch.library.Library("aten", "IMPL"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            libraries[-1].impl("convolution_backward", wrong, "CPU", with_keyset=True)

    yield plant
    for library in libraries:
        library._destroy()


def wrong_weight(results):
    results[1].numpy()[:] *= 1.01


def wrong_bias(results):
    results[2].numpy()[:] += 1e-5


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("fault", "result"), [(wrong_weight, 1), (wrong_bias, 2)])
def test_a_wrong_gradient_before_the_batch_norm_is_named(wrong_backward, fault, result, level):
    model, x = made("convolution")
    compiled = torch.compile(model)
    eager = trained(model, model, x, level)
    assert tap.diff(eager, trained(compiled, model, x, level)).same
    wrong_backward(8, fault)
    found = tap.diff(eager, trained(compiled, model, x, level))
    assert found.first.key == f"0:backward:aten::convolution_backward/{result}"
    assert (found.verdict, found.first.cause) == ("diverged", "introduced")


@pytest.mark.parametrize("level", LEVELS)
def test_a_wrong_norm_is_named_though_gradients_are_rounding(level):
    model, x = made("encoder layer")
    wrong = copy.deepcopy(model)
    wrong.norm1.eps = 1e-2
    found = tap.diff(trained(model, model, x, level), trained(torch.compile(wrong), wrong, x, level))
    assert found.first.key == "norm1:aten::native_layer_norm/0"
    assert found.first.cause == "introduced"


@pytest.mark.filterwarnings("ignore:Warning only once")
@pytest.mark.parametrize(("terms", "factor"), [(4096, 1.0003), (16384, 1.001)])
@pytest.mark.parametrize("outlier", [False, True])
def test_a_wrong_factor_of_a_product_is_no_rounding(terms, factor, outlier):
    torch.manual_seed(0)
    x, w = torch.randn(16, terms), torch.randn(terms, 16)
    if outlier:  # which the weights take no notice of
        x[:, 3], w[3] = 2000.0, 0.0
    traces = []
    for each in (1.0, factor):
        library = torch.library.Library("aten", "IMPL")
        library.impl("mm", lambda a, b, each=each: torch.bmm(a[None], b[None])[0] * each, "CPU", allow_override=True)
        try:
            with tap.trace(level="full") as trace:
                torch.mm(x, w)
        finally:
            library._destroy()
        traces.append(trace)
    found = tap.diff(*traces)
    assert (found.verdict, found.first.key) == ("diverged", "aten::mm"), found
