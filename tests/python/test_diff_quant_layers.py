"""`ttap diff` and `ttap check --against` of a model and the same with quantized weights: which layer suffers."""

import browser
import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import read_json, run

LAYERS = 8
FORMATS = {"int4_group32": (32, 7), "int8": (64, 127)}  # the columns of a block, and the largest code


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.layers = nn.ModuleList([nn.Linear(64, 64, bias=False) for _ in range(LAYERS)])

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(self.norm(x)))
        return x


def made(outlier=None):
    """A model; in one layer every 16th column is large."""
    torch.manual_seed(0)
    model = Net()
    if outlier is not None:
        model.layers[outlier].weight.data[:, ::16] *= 60
    return model


def decoded(weight, format):
    """Quantized to nearest with a scale for each block, and decoded again."""
    columns, largest = FORMATS[format]
    blocks = weight.reshape(-1, columns)
    scale = blocks.abs().amax(1, keepdim=True) / largest
    return (torch.round(blocks / scale) * scale).reshape(weight.shape)


def decode_all(model, format="int4_group32"):
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.copy_(decoded(layer.weight, format))
    return model


def recorded(model, directory):
    with tap.record(model, directory, roles=("param", "in", "out"), report=False), torch.no_grad():
        model(torch.randn(4, 7, 64, generator=torch.Generator().manual_seed(1)))
    return str(directory)


def torchao_config(name):
    import torchao.quantization as tq

    if name == "int8":
        return tq.Int8WeightOnlyConfig()
    if name == "fp8":
        return tq.Float8WeightOnlyConfig()
    if name == "nvfp4":
        from torchao.prototype.mx_formats.inference_workflow import NVFP4WeightOnlyConfig

        return NVFP4WeightOnlyConfig()
    return tq.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=tq.PerGroup(32))


def quantized(model, name):
    from torchao.quantization import quantize_

    quantize_(model, torchao_config(name))
    return model


@pytest.mark.parametrize("outlier", [1, 6])
@pytest.mark.parametrize("name", ["int4", "nvfp4", "int8"])
def test_the_layer_that_suffers_is_named(tmp_path, name, outlier):
    a = recorded(made(outlier).bfloat16().float(), tmp_path / "a")
    b = recorded(quantized(made(outlier).bfloat16().float(), name), tmp_path / "b")
    found = tap.diff(a, b)
    assert found.first.key == f"layers.{outlier}@param/weight"
    assert "B's weights are quantized (" in found.sentence
    assert f", and layers.{outlier} suffers: " in found.sentence
    assert "of its values become zero, where " in found.sentence
    assert f"{LAYERS - 1} other layers are as their format explains" in found.evidence
    assert found.introduced == []
    assert [layer["layer"] for layer in found.quantized["layers"] if layer["outlier"]] == [f"layers.{outlier}"]
    assert (found.quantized["side"], found.quantized["inferred"]) == ("b", False)
    # The other way round it is A.
    assert tap.diff(b, a).sentence.split("; ")[-1].removeprefix("diverged: ").startswith("A's weights are quantized (")


@pytest.mark.parametrize("name", ["int4", "nvfp4", "int8", "fp8"])
def test_a_sound_quantization_is_as_its_format_explains(tmp_path, name):
    a = recorded(made(), tmp_path / "a")
    b = recorded(quantized(made(), name), tmp_path / "b")
    found = tap.diff(a, b)
    assert f"and all {LAYERS} layers are as their format explains; layers." in found.sentence
    assert found.introduced == []
    assert not any(layer["outlier"] for layer in found.quantized["layers"])
    largest = max(found.quantized["layers"], key=lambda layer: layer["added"])
    assert f"; {largest['layer']} adds the largest error, " in found.sentence


def test_the_error_of_a_layer_is_its_own(tmp_path):
    a, b = recorded(made(), tmp_path / "a"), recorded(quantized(made(), "int4"), tmp_path / "b")
    runs = [tap.open(run).ranks[0].passes[0] for run in (a, b)]
    for layer in tap.diff(a, b).quantized["layers"]:
        key = layer["layer"]
        before, after = runs[0][f"{key}@param/weight"], runs[1][f"{key}@param/weight"].decoded()
        x = runs[1][f"{key}@in/0"].reshape(-1, 64)[::3]  # of 28 rows these were multiplied
        own = (x @ (after - before).T).norm() / (x @ before.T).norm()
        assert layer["own_error"] == pytest.approx(float(own), rel=1e-3)


@pytest.mark.parametrize("format", FORMATS)
def test_weights_that_were_decoded_before_are_recognised(tmp_path, format):
    a = recorded(made(2), tmp_path / "a")
    found = tap.diff(a, recorded(decode_all(made(2), format), tmp_path / "b"))
    assert f"B's weights look quantized ({format}), and layers.2 suffers: " in found.sentence
    assert found.quantized["inferred"]


def test_wrong_rows_in_one_quantized_layer_are_found(tmp_path):
    wrong = decode_all(made())
    with torch.no_grad():
        wrong.layers[4].weight.copy_(wrong.layers[4].weight.roll(1, 0))
    found = tap.diff(recorded(made(), tmp_path / "a"), recorded(wrong, tmp_path / "b"))
    assert ", and layers.4 suffers: its values keep -" in found.sentence


def test_a_layer_whose_inputs_hit_what_is_rounded_is_an_outlier(tmp_path):
    # One small column among 64 harms no weight; but what is multiplied with it is large.
    factors = torch.ones(64)
    factors[3] = 500.0

    def with_small_column():
        model = made()
        model.layers[5].weight.data[:, 3] *= 0.03
        model.layers[5].register_forward_pre_hook(lambda module, args: (args[0] * factors,))
        return model

    a = recorded(with_small_column(), tmp_path / "a")
    found = tap.diff(a, recorded(decode_all(with_small_column()), tmp_path / "b"))
    assert ", and layers.5 suffers: the error that it adds is " in found.sentence


def test_weights_that_differ_otherwise_do_not_look_quantized(tmp_path):
    other = made()
    with torch.no_grad():
        for layer in other.layers:
            layer.weight.add_(0.01 * torch.randn_like(layer.weight))
    found = tap.diff(recorded(made(), tmp_path / "a"), recorded(other, tmp_path / "b"))
    assert found.quantized is None
    # Nor does one that only has a few large columns.
    found = tap.diff(recorded(made(), tmp_path / "c"), recorded(made(3), tmp_path / "d"))
    assert found.quantized is None, found.sentence


def test_an_error_before_the_quantized_layers_comes_first(tmp_path):
    wrong = decode_all(made(3))
    wrong.norm.eps = 0.5
    found = tap.diff(recorded(made(3), tmp_path / "a"), recorded(wrong, tmp_path / "b"))
    assert found.sentence.startswith("diverged: norm introduced the error"), found.sentence


def test_check_needs_no_format(tmp_path):
    a, b = recorded(made(2), tmp_path / "a"), recorded(quantized(made(2), "int4"), tmp_path / "b")
    result = run("check", b, "--against", a)
    assert result.returncode == 1
    assert "int4_group32_asym  1 of 8" in result.stdout
    assert "layers.2@param/weight  loses " in result.stdout
    assert result.stdout.endswith(f"1 suffers of {LAYERS} tensors of 1 pass\n")
    report, code = read_json("check", b, "--against", a)
    assert (code, report["judged"], report["suffering"]) == (1, LAYERS, 1)
    assert [(recipe["recipe"], recipe["suffering"]) for recipe in report["quant"]] == [("int4_group32_asym", 1)]
    assert all(recipe["in_use"] for tensor in report["found"] for recipe in tensor["recipes"])


def test_check_recognises_weights_that_were_decoded_before(tmp_path):
    a, b = recorded(made(2), tmp_path / "a"), recorded(decode_all(made(2)), tmp_path / "b")
    report, code = read_json("check", b, "--against", a)
    assert (code, report["judged"], report["suffering"]) == (1, LAYERS, 1)
    assert report["found"][0]["key"] == "layers.2@param/weight"
    assert [recipe["recipe"] for recipe in report["quant"]] == ["int4_group32"]
    result = run("check", a, "--against", a)
    assert result.returncode == 2
    assert "is quantized, and no weight has the values of a quantized one" in result.stderr


def test_the_report_page_names_the_layer(tmp_path):
    if not (browser.BINARY and browser.DRIVER):
        pytest.skip("needs chromium and chromedriver: apt-get install chromium-driver")
    a, b = recorded(made(2), tmp_path / "a"), recorded(decode_all(made(2)), tmp_path / "b")
    assert run("diff", a, b, "--html", tmp_path / "diff.html").returncode == 1
    driver = browser.start()
    try:
        page = browser.Page(driver, tmp_path / "diff.html")
        assert ", and layers.2 suffers: " in page.text("#sentence")
        assert "7 other layers are as their format explains" in page.texts("#evidence li")
        assert page.console() == []
    finally:
        driver.quit()
