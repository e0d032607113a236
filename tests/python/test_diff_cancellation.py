"""Sound pairs whose errors are small beside what was summed, or where a threshold was passed; and faults there."""

import warnings

import pytest
import tensortap as tap
import torch
from torch import nn
from torch.nn import functional

LEVELS = ["sketch", "full"]


@pytest.fixture(params=LEVELS)
def level(request):
    return request.param


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def replaced():
    """Puts another kernel in the place of an operator's, given what the right one makes and its arguments."""
    libraries = []

    def replace(name, change):
        right = torch.library.get_kernel(f"aten::{name}", "CPU")

        def wrong(keys, *arguments):
            return change(right.call_boxed(keys, *arguments), *arguments)

        libraries.append(torch.library.Library("aten", "IMPL"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            libraries[-1].impl(name, wrong, "CPU", with_keyset=True)

    yield replace
    for library in libraries:
        library._destroy()


def split_linear(x, weight, _):
    """As a GEMM that splits the sum in two, each rounded to bf16."""
    half = weight.shape[1] // 2
    return x[..., :half] @ weight[:, :half].t() + x[..., half:] @ weight[:, half:].t()


def trace(model, function, level, linear=functional.linear):
    model.zero_grad()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "linear", linear)
        with tap.trace(model, level=level) as made:
            function().backward()
    return made


# ---- sums that are made in bf16 ----


def gradients_of_norm(level, threads):
    torch.manual_seed(0)
    norm, x = nn.LayerNorm(64).bfloat16(), torch.randn(400, 64).bfloat16()
    gradient = torch.randn(400, 64).bfloat16()
    torch.set_num_threads(threads)
    return trace(norm, lambda: (norm(x) * gradient).sum(), level)


def test_rows_added_up_in_bf16_by_two_threads_agree(one_thread, level):
    found = tap.diff(gradients_of_norm(level, 1), gradients_of_norm(level, 2))
    bias = found["LayerNorm:backward:aten::native_layer_norm_backward/2"]
    assert bias.verdict == "within tolerance"
    assert bias.measures["relative"] > 2 / 128  # more than one that is rounded once
    assert found.same, found


def test_a_wrong_row_in_such_a_sum_is_named(one_thread, replaced, level):
    right = gradients_of_norm(level, 1)

    def leave_out(results, gradient, *_):
        results[2].sub_(gradient[:40].sum(0))
        return results

    replaced("native_layer_norm_backward", leave_out)
    found = tap.diff(right, gradients_of_norm(level, 1))
    assert (found.verdict, found.first.key) == ("diverged", "LayerNorm:backward:aten::native_layer_norm_backward/2"), (
        found
    )


def gradients_of_convolution(level, onednn=True):
    torch.manual_seed(0)
    layer, x = nn.Conv2d(16, 16, 3, padding=1).bfloat16(), torch.randn(16, 16, 16, 16).bfloat16().requires_grad_()
    gradient = torch.randn(16, 16, 16, 16).bfloat16()
    with torch.backends.mkldnn.flags(enabled=onednn):
        return trace(layer, lambda: (layer(x) * gradient).sum(), level)


def test_windows_added_up_in_bf16_by_another_convolution_agree(one_thread, level):
    found = tap.diff(gradients_of_convolution(level), gradients_of_convolution(level, onednn=False))
    assert found.same, found


def test_windows_left_out_of_such_a_sum_are_named(one_thread, replaced, level):
    right = gradients_of_convolution(level)

    def leave_out(results, gradient, x, *_):
        windows = functional.unfold(x[:1], 3, padding=1)[0]
        results[1].sub_((gradient[0].flatten(1) @ windows.t()).view_as(results[1]))
        return results

    replaced("convolution_backward", leave_out)
    found = tap.diff(right, gradients_of_convolution(level))
    assert (found.verdict, found.first.key) == ("diverged", "Conv2d:backward:aten::convolution_backward/1"), found


# ---- terms that cancel ----


class TwoValues(nn.Module):
    """A batch norm of two values: their mean takes most of both."""

    def __init__(self):
        super().__init__()
        self.conv, self.over_windows = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.linear, self.over_two = nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8)
        for norm in (self.over_windows, self.over_two):
            norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None

    def forward(self, x):
        return self.over_two(self.linear(self.over_windows(self.conv(x)).relu().mean((2, 3))))


@pytest.mark.parametrize("seed", [1, 4, 14])
def test_a_spread_of_two_values_is_held_against_their_errors(seed, level):
    torch.manual_seed(seed)
    model, x = TwoValues().bfloat16(), torch.randn(2, 3, 8, 8).bfloat16()
    found = tap.diff(
        *(
            trace(model, lambda: model(x).float().square().sum(), level, linear)
            for linear in (functional.linear, split_linear)
        )
    )
    assert found.same, found


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.norm = *(nn.Linear(64, 64) for _ in range(3)), nn.LayerNorm(64)

    def forward(self, x, eager):
        q, k, v = (each(x).unflatten(-1, (4, 16)).transpose(1, 2) for each in (self.query, self.key, self.value))
        if eager:
            made = torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v
        else:
            made = functional.scaled_dot_product_attention(q, k, v)
        return self.norm(x + made.transpose(1, 2).flatten(2))


def attentions(level, seed, eager):
    torch.manual_seed(seed)
    model = nn.ModuleList([Attention(), Attention()]).bfloat16()
    x, ramp = torch.randn(2, 20, 64).bfloat16(), torch.linspace(-1, 2, 2 * 20 * 64).view(2, 20, 64)
    return trace(model, lambda: (model[1](model[0](x, eager), eager).float() * ramp).mean(), level)


@pytest.mark.parametrize("seed", [3, 9])
def test_a_mean_that_cancels_is_held_against_the_errors_of_its_terms(seed, level):
    found = tap.diff(attentions(level, seed, False), attentions(level, seed, True))
    assert found.same, found


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64, bias=False), nn.LayerNorm(64)) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_errors_beside_a_gradient_of_which_a_norm_takes_most_have_not_grown():
    torch.manual_seed(7)
    model, x = Norms().bfloat16(), torch.randn(40, 64).bfloat16()
    nearly_one = 1 + 0.01 * torch.randn(40, 64).bfloat16()
    traces = [
        trace(model, lambda: (model(x) * nearly_one).sum(), "full", linear)
        for linear in (functional.linear, split_linear)
    ]
    found = tap.diff(*traces)
    assert found.same, found


# ---- thresholds ----


class Relus(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU()) for _ in range(8)))

    def forward(self, x):
        return self.layers(x)


def relus(level, linear):
    torch.manual_seed(0)
    model, x = Relus().bfloat16(), torch.randn(40, 64).bfloat16()
    ramp = torch.linspace(-1, 2, 40 * 64).view(40, 64)
    return trace(model, lambda: (model(x).float() * ramp).mean(), level, linear)


def test_values_that_rounding_carries_past_zero_are_near_ties(level):
    found = tap.diff(relus(level, functional.linear), relus(level, split_linear))
    assert found.verdict != "diverged", found
    flipped = [each.key for each in found.tensors if each.verdict == "flipped"]
    assert flipped, found
    assert all(key.endswith("threshold_backward") for key in flipped)


def test_another_threshold_is_no_near_tie(replaced, level):
    right = relus(level, functional.linear)
    replaced("threshold_backward", lambda made, gradient, x, threshold: torch.where(x > 0.2, gradient, 0))
    found = tap.diff(right, relus(level, split_linear))
    assert (found.verdict, found.first.cause) == ("diverged", "introduced"), found
    assert found.first.key == "layers.7.1:backward:aten::threshold_backward"


# ---- what computes nothing ----


def test_an_axis_counted_from_the_end_is_the_same_axis(level):
    torch.manual_seed(0)
    model, x = nn.Linear(64, 64, bias=False).bfloat16(), torch.randn(2, 40, 64).bfloat16()
    traces = [
        trace(model, lambda: model(x).transpose(*axes).float().square().sum(), level, linear)  # noqa: B023
        for axes, linear in (((-2, -1), functional.linear), ((1, 2), split_linear))
    ]
    found = tap.diff(*traces)
    assert found.same, found


@pytest.mark.parametrize(("off", "verdict"), [(4e-7, "within tolerance"), (4e-3, "diverged")])
def test_a_value_that_has_cancelled_is_off_by_the_rounding_of_its_sum(tmp_path, off, verdict):
    """Many steps of its own, and next to nothing beside the terms."""

    def recorded(name, value):
        torch.manual_seed(0)
        layer = nn.Linear(64, 32).bfloat16()

        def forward(x):
            y = nn.functional.linear(x, layer.weight, layer.bias)
            y[3, 5] = value
            return y

        layer.forward = forward
        with tap.record(layer, tmp_path / name, roles=["in", "out"], level="full", report=False), torch.no_grad():
            layer(torch.randn(16, 64).bfloat16())
        return tmp_path / name

    found = tap.diff(recorded("a", 2e-6), recorded("b", 2e-6 + off))
    assert found.verdict == verdict, found.sentence
