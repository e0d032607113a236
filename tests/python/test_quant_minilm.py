"""A real model whose weights torchao has quantized: recorded as groups, read back, exported as plain tensors."""

import json
import struct
import warnings

import models
import pytest
import tensortap as tap
import torch
from quantized import same_bits

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.prototype.mx_formats import NVFP4WeightOnlyConfig
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

CONFIGS = {
    "nvfp4": NVFP4WeightOnlyConfig(),
    "int8_channel_asym": Int8WeightOnlyConfig(version=2),
    "fp8_e4m3_row": Float8WeightOnlyConfig(),
}


@pytest.fixture(autouse=True)
def one_thread():
    """torchao's many small operators would have threads wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def quantized_minilm(name, layers=6):
    model, arguments = models.minilm()
    model.encoder.layer = model.encoder.layer[:layers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_(model, CONFIGS[name])
    return model, arguments


def weights_of(model):
    """The quantized weights by the key they are recorded under."""
    return {
        f"{name}@param/weight": module.weight
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_every_weight_is_a_group_that_decodes_as_torchao_does(tmp_path, name):
    model, arguments = quantized_minilm(name)
    with torch.no_grad():
        expected = model(**arguments).last_hidden_state
        with tap.record(model, tmp_path, roles="out,param", report=False) as recording:
            recorded = model(**arguments).last_hidden_state
            model(**arguments)
    assert torch.equal(recorded, expected)
    assert recording.coverage["unsupported"] == []
    first, second = tap.open(tmp_path).ranks[0].passes.values()
    weights = weights_of(model)
    assert len(weights) == 37
    assert [record.key for record in first.records if record.group] == list(weights)
    for key, weight in weights.items():
        group = first[key]
        assert group.format.name == name
        assert same_bits(group.decoded(), weight.dequantize().contiguous())
    assert not any("@param" in key for key in second)
    decoded = tap.load_pass(first.path, decode=True)
    assert all(same_bits(decoded[key], weight.dequantize().contiguous()) for key, weight in weights.items())
    assert not any(key.endswith(("/payload", "/scale")) for key in decoded)


def test_a_file_of_safetensors_has_the_plain_parts_and_tells_of_the_groups(tmp_path):
    model, arguments = quantized_minilm("nvfp4", layers=1)
    with torch.no_grad(), tap.record(model, tmp_path, roles="out,param", format="safetensors", report=False):
        model(**arguments)
    (path,) = tmp_path.rglob("*.safetensors")
    with path.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    weights = weights_of(model)
    for key, weight in weights.items():
        assert header[f"{key}/payload"]["shape"] == list(weight.qdata.shape)
        assert header[f"{key}/payload"]["dtype"] == "U8"
        assert header[f"{key}/scale"]["dtype"] == "F8_E4M3"
        assert key not in header
    kept = tap.Pass(path)
    assert all(same_bits(kept[key].decoded(), weight.dequantize()) for key, weight in weights.items())
