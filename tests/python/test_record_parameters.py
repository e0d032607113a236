"""The role `param`: parameters and buffers of the recorded modules, when they are new or have changed."""

import pytest
import tensortap as tap
import torch
from quantized import same_bits
from tensortap import quant
from tensortap.modules.parameters import Parameters
from torch import nn


def keys_of_passes(directory):
    return [list(kept) for kept in tap.open(directory).ranks[0].passes.values()]


def test_parameters_are_in_the_first_pass_and_wherever_they_have_changed(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    before = model[0].weight.detach().clone()
    with tap.record(model, tmp_path, roles="out,param", report=False):
        model(torch.ones(2, 3))
        model(torch.ones(2, 3))
        with torch.no_grad():
            model[0].weight.add_(1)
        model(torch.ones(2, 3))
        model[1].weight = nn.Parameter(torch.zeros(3, 3))
        model(torch.ones(2, 3))
    assert keys_of_passes(tmp_path) == [
        ["0@param/weight", "0@param/bias", "0", "1@param/weight", "1"],
        ["0", "1"],
        ["0@param/weight", "0", "1"],
        ["0", "1@param/weight", "1"],
    ]
    run = tap.open(tmp_path)
    assert torch.equal(run["0@param/weight"], before)
    assert torch.equal(run.ranks[0].passes[2]["0@param/weight"], before + 1)


def test_buffers_are_as_the_call_found_them(tmp_path):
    model = nn.Sequential(nn.BatchNorm1d(3))
    with tap.record(model, tmp_path, roles=["param"], report=False):
        model(torch.randn(4, 3))
        model(torch.randn(4, 3))
    passes = tap.open(tmp_path).ranks[0].passes
    assert list(passes[0]) == [
        f"0@param/{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    ]
    assert torch.equal(passes[0]["0@param/running_mean"], torch.zeros(3))
    assert list(passes[1]) == [f"0@param/{name}" for name in ("running_mean", "running_var", "num_batches_tracked")]


def test_a_module_that_is_called_twice_has_its_parameters_once(tmp_path):
    shared = nn.Linear(3, 3, bias=False)
    model = nn.Sequential(shared, shared)
    with tap.record(model, tmp_path, roles="param", report=False):
        model(torch.ones(1, 3))
    assert keys_of_passes(tmp_path) == [["0@param/weight", "1@param/weight"]]  # under both of its names


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_changes_them(tmp_path, kind, fused):
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    model[0].register_buffer("fixed", torch.ones(1))
    optimizer = kind(model.parameters(), lr=0.1, fused=fused)
    weights = []
    with tap.record(model, tmp_path, roles="param", report=False):
        for _ in range(3):
            weights.append(model[0].weight.detach().clone())
            model(torch.ones(1, 2)).sum().backward()
            model(torch.ones(1, 2))
            optimizer.step()
    weight, buffer = "0@param/weight", "0@param/fixed"
    assert keys_of_passes(tmp_path) == [[weight, buffer], [], [weight], [], [weight], []]
    passes = tap.open(tmp_path).ranks[0].passes
    assert all(torch.equal(passes[2 * step][weight], expected) for step, expected in enumerate(weights))


def test_optimizers_are_left_alone_when_the_recording_is_over(tmp_path):
    from torch.optim.optimizer import _global_optimizer_post_hooks as hooks

    before = len(hooks)
    model = nn.Linear(2, 1)
    with tap.record(model, tmp_path, roles="param", report=False):
        assert len(hooks) == before + 1
    assert len(hooks) == before
    with tap.record(model, tmp_path, report=False):
        assert len(hooks) == before


def test_parameters_of_inference_mode_are_in_every_pass(tmp_path):
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(2, 2, bias=False))
        with tap.record(model, tmp_path, roles="param", report=False):
            for _ in range(3):
                model(torch.ones(1, 2))
                model[0].weight.mul_(2)
    passes = tap.open(tmp_path).ranks[0].passes
    assert keys_of_passes(tmp_path) == [["0@param/weight"]] * 3
    first = passes[0]["0@param/weight"]
    assert torch.equal(passes[2]["0@param/weight"], first * 4)


@pytest.mark.parametrize("inference", [False, True])
def test_the_model_computes_the_same(tmp_path, inference):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(4, 8)
    with torch.inference_mode(inference):
        expected = model(x)
        with tap.record(model, tmp_path, roles="out,in,param", report=False) as recording:
            assert torch.equal(model(x), expected)
    assert recording.coverage["notes"] == []


def test_a_weight_in_several_parameters_is_one_group(tmp_path):
    class PackedLinear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight_packed = nn.Parameter(torch.randint(0, 256, (8, 16), dtype=torch.uint8), requires_grad=False)
            scale = torch.randint(0, 0x7E, (8, 2), dtype=torch.uint8).view(torch.float8_e4m3fn)
            self.weight_scale = nn.Parameter(scale, requires_grad=False)
            self.weight_global_scale = nn.Parameter(torch.tensor([3.0]), requires_grad=False)
            self.bias = nn.Parameter(torch.zeros(8))

        def forward(self, x):
            return x @ quant.groups_of_module(self)["weight"].decoded(torch.float32).t() + self.bias

    model = nn.Sequential(PackedLinear())
    with tap.record(model, tmp_path, roles="out,param", report=False):
        model(torch.ones(1, 32))
        model(torch.ones(1, 32))
        model[0].weight_scale.data = model[0].weight_scale.data.clone()
        model(torch.ones(1, 32))
    names = ["weight", "weight/payload", "weight/scale", "weight/global_scale", "bias"]
    group = [f"0@param/{name}" for name in names]
    assert keys_of_passes(tmp_path) == [[*group, "0"], ["0"], [*group[:-1], "0"]]
    weight = tap.open(tmp_path)["0@param/weight"]
    assert weight.format.source == "compressed-tensors"
    assert same_bits(weight.decoded(), quant.groups_of_module(model[0])["weight"].decoded())


def test_parameters_that_only_have_the_names_of_a_group_are_recorded_as_they_are(tmp_path):
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8, dtype=torch.int8), requires_grad=False)
            self.weight_scale = nn.Parameter(torch.ones(4))
            self.bias = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x

    model = nn.Sequential(Looks())
    assert quant.groups_of_module(model[0]) == {}
    with tap.record(model, tmp_path / "run", roles="in,out,param", report=False, strict=True):
        model(torch.ones(2))
    assert keys_of_passes(tmp_path / "run") == [
        ["0@param/weight", "0@param/weight_scale", "0@param/bias", "0@in/0", "0"]
    ]
    config = {"all": {"layers": {"layer_name_regex_pattern": ".*"}, "DumpTensors": {"tensors": "all"}}}
    with pytest.warns(UserWarning, match="selects none"), tap.quant.record(model, tmp_path / "dump", config):
        model(torch.ones(2))


def test_a_parameter_that_was_not_taken_is_as_new():
    module, parameters = nn.Linear(2, 2), Parameters()
    first = parameters.changed(module)
    assert next(first)[0] == "/weight"
    assert next(first)[0] == "/bias"  # so the weight was taken
    first.close()  # as when recording the bias fails
    assert [path for path, _ in parameters.changed(module)] == ["/bias"]
    assert list(parameters.changed(module)) == []
