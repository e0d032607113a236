"""tap.quant.record(): the quantized side of what is dumped, in a run and in files."""

import json
import warnings

import pytest
import te_tensors
import tensortap as tap
import torch
from dumped_training import Mlp, config
from quantized import decode, encode, format_of, same_bits
from small_models import passes_of
from torch import nn

INSIDE = {"dump_quantized_internals": True, "high_precision_tensor": True, "quantized_tensor": True}


def dumped(tmp_path, model, x, given):
    """Runs the model once; gives the only pass of the run, and the files by name."""
    for kind in ("ttap", "pt"):
        with tap.quant.record(model, tmp_path / kind, given, format=kind, report=False, strict=True) as dump:
            model(x)
    files = (tmp_path / "pt/rank_0/iter_000000").glob("*.pt")
    read = {path.name.removesuffix("_microbatch0.pt"): torch.load(path, weights_only=True) for path in files}
    return passes_of(tmp_path / "ttap")[0], read, dump


RECIPES = ["nvfp4", "mxfp8", "mxfp4", "fp8", "fp8_e5m2_row", "fp8_block_128x128", "int8", "int4_group32", "int8_asym"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_makes_a_group_of_each_tensor_beside_its_twin(tmp_path, recipe):
    torch.manual_seed(0)
    model, x = Mlp(), torch.randn(6, 32)
    recorded, files, _ = dumped(tmp_path, model, x, config(["activation", "weight"], "fc1", recipe=recipe, **INSIDE))
    made = format_of(recipe)
    for tensor, twin in (("activation", x), ("weight", model.fc1.weight.detach())):
        payload, scale, factor, zero = encode(twin, made)
        expected = decode(made, twin.shape, payload, scale, factor, zero)
        group = recorded[f"fc1@{tensor}/quantized"]
        assert torch.equal(recorded[f"fc1@{tensor}"], twin)
        assert same_bits(group.decoded(), expected)
        assert same_bits(files[f"fc1_{tensor}"]["quantized"]["decoded"], expected)
        assert group.format.name == made.name and group.dtype == torch.float32
        assert group.statistics(recorded[f"fc1@{tensor}"])["count"] == twin.numel()
        for name, part in group.parts().items():
            stored = files[f"fc1_{tensor}"]["quantized"][name]
            assert torch.equal(part.view(torch.uint8), stored.view(torch.uint8)), name
            assert torch.equal(recorded[f"fc1@{tensor}/quantized/{name}"].view(torch.uint8), part.view(torch.uint8))
        for name in ("block_scales", "code_values"):
            inside = recorded[f"fc1@{tensor}/quantized/{name}"]
            assert torch.equal(inside, files[f"fc1_{tensor}"]["quantized"][name])
        assert json.loads(files[f"fc1_{tensor}"]["quantized"]["format"])["name"] == made.name


def test_a_pass_of_plain_tensors_decoded_on_request(tmp_path):
    model, x = Mlp(), torch.randn(6, 32)
    recorded, files, _ = dumped(tmp_path, model, x, config(["weight"], "fc1", recipe="nvfp4"))
    plain = tap.load_pass(recorded.path)
    assert set(plain) == {"fc1@weight", *(f"fc1@weight/quantized/{n}" for n in ("payload", "scale", "global_scale"))}
    decoded = tap.load_pass(recorded.path, decode=True)
    assert set(decoded) == {"fc1@weight", "fc1@weight/quantized"}
    assert torch.equal(decoded["fc1@weight/quantized"], files["fc1_weight"]["quantized"]["decoded"])


def test_a_weight_that_is_quantized_itself_is_taken_as_it_is(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torchao", reason="torchao is not installed")
        from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

    model, x = Mlp(), torch.randn(6, 32)
    weight = model.fc1.weight.detach()
    scale = per_tensor_amax_to_scale(weight.abs().amax())
    quantized = NVFP4Tensor.to_nvfp4(weight, per_tensor_scale=scale, is_swizzled_scales=True)
    model.fc1.weight = nn.Parameter(quantized, requires_grad=False)
    # The recipe is for what is not quantized: here, the activation.
    recorded, files, dump = dumped(tmp_path, model, x, config(["activation", "weight"], "fc1", recipe="fp8", **INSIDE))
    group = recorded["fc1@weight/quantized"]
    assert same_bits(group.decoded(), quantized.dequantize())
    assert group.format.source == "torchao" and group.format.scale_layout == "swizzled"
    assert recorded["fc1@activation/quantized"].format.name == "fp8_e4m3"
    # Swizzled scales come out as one for each block.
    expected = quantized.dequantize()
    scales = recorded["fc1@weight/quantized/block_scales"].repeat_interleave(16, dim=1)
    assert torch.equal(recorded["fc1@weight/quantized/code_values"] * scales, expected)
    assert "fc1@weight" not in recorded and "high_precision" not in files["fc1_weight"]
    assert same_bits(files["fc1_weight"]["quantized"]["decoded"], expected)
    assert dump.coverage["notes"] == ["no high-precision weight of fc1: it is there quantized only"]


class Takes(nn.Module):
    """A layer that only looks at what it is given: none of these libraries runs here."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))

    def forward(self, x):
        return torch.zeros(1)


@pytest.mark.parametrize("is_swizzled", [False, True])
def test_a_tensor_of_two_orientations_has_two_groups(tmp_path, is_swizzled):
    made, *values = te_tensors.mxfp8((160, 96), is_swizzled)
    model = nn.Sequential(Takes())
    recorded, files, _ = dumped(tmp_path, model, made, config(["activation"], **INSIDE))
    read = files["0_activation"]["quantized"]
    for path, expected, grid in (("", values[0], (160, 3)), ("/columnwise", values[1], (5, 96))):
        group = recorded[f"0@activation/quantized{path}"]
        of_file = read["columnwise"] if path else read
        assert same_bits(group.decoded(torch.float32), expected)
        assert same_bits(of_file["decoded"], expected.to(torch.bfloat16))
        scales = recorded[f"0@activation/quantized{path}/block_scales"]
        assert scales.shape == grid and torch.equal(of_file["block_scales"], scales)
        every = scales.repeat_interleave(32, dim=1 if path == "" else 0)
        assert same_bits(recorded[f"0@activation/quantized{path}/code_values"] * every, expected)


def test_what_was_rotated_is_not_decoded(tmp_path):
    made, values, _ = te_tensors.nvfp4((32, 64), False, quantizer=te_tensors.Quantizer(with_rht=True))
    recorded, files, _ = dumped(tmp_path, nn.Sequential(Takes()), made, config(["activation"], **INSIDE))
    read = files["0_activation"]["quantized"]
    assert same_bits(read["decoded"], values.to(torch.bfloat16)) and "decoded" not in read["columnwise"]
    assert json.loads(read["columnwise"]["format"])["rotated"] is True
    assert recorded["0@activation/quantized/columnwise"].format.rotated


def test_a_module_that_keeps_its_weight_in_several_tensors(tmp_path):
    class Compressed(nn.Module):
        def __init__(self):
            super().__init__()
            self.in_features, self.out_features = 48, 20
            payload = torch.randint(0, 256, (20, 24), dtype=torch.uint8)
            scale = torch.randint(0, 0x7E, (20, 3), dtype=torch.uint8).view(torch.float8_e4m3fn)
            self.register_parameter("weight_packed", nn.Parameter(payload, requires_grad=False))
            self.register_parameter("weight_scale", nn.Parameter(scale, requires_grad=False))
            self.register_parameter("weight_global_scale", nn.Parameter(torch.tensor([3.0]), requires_grad=False))

        def forward(self, x):
            return x

    model = nn.Sequential(Compressed())
    recorded, files, _ = dumped(tmp_path, model, torch.zeros(1), config(["weight"], **INSIDE))
    expected = tap.quant.groups_of_module(model[0])["weight"].decoded()
    assert same_bits(recorded["0@weight/quantized"].decoded(), expected)
    assert same_bits(files["0_weight"]["quantized"]["decoded"], expected)


def test_what_a_recipe_cannot_take_is_told(tmp_path):
    model = nn.Sequential(nn.Embedding(10, 4))
    given = config(["activation", "output"], recipe="nvfp4", quantized_tensor=True)
    recorded, files, dump = dumped(tmp_path, model, torch.tensor([1, 2]), given)
    assert {record.role for record in recorded.records} == {"output"} and set(files) == {"0_output"}
    assert dump.coverage["notes"] == [
        "no quantized activation of 0: nvfp4 is for plain tensors of float32, bfloat16 and float16"
    ]


@pytest.mark.parametrize("kind", ["safetensors", "npy"])
def test_other_formats_hold_the_plain_parts(tmp_path, kind):
    model, x = Mlp(), torch.randn(6, 32)
    given = config(["weight"], "fc1", recipe="mxfp8", **INSIDE)
    with tap.quant.record(model, tmp_path, given, format=kind, report=False):
        model(x)
    kept = passes_of(tmp_path)[0]
    payload, _, _, _ = encode(model.fc1.weight.detach(), format_of("mxfp8"))
    assert torch.equal(kept["fc1@weight/quantized/payload"].view(torch.uint8), payload)
    assert torch.equal(kept["fc1@weight"], model.fc1.weight)
