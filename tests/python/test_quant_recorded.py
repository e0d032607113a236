"""Quantized tensors in a recording: parts, a description, the fingerprint of the values; and all of it read back."""

import json
import warnings
import zipfile

import numpy as np
import pytest
import te_tensors
import tensortap as tap
import torch
from quantized import same_bits
from tensortap import quant
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.quantization import PerRow
    from torchao.quantization.quantize_.workflows.float8.float8_tensor import Float8Tensor
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor
    from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import IntxUnpackedToInt8Tensor


class Gives(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, x):
        return self.output


def record_output(directory, output, **options):
    """A pass in which module `0` gave this."""
    model = nn.Sequential(Gives(output))
    with tap.record(model, directory, report=False, **options) as recording:
        model(torch.ones(1))
    return tap.open(directory).ranks[0].passes[0], recording


def values(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def nvfp4(x, **options):
    return NVFP4Tensor.to_nvfp4(x, per_tensor_scale=per_tensor_amax_to_scale(x.abs().amax()), **options)


MADE = {
    "fp8": lambda x: Float8Tensor.from_hp(x, torch.float8_e4m3fn, PerRow()),
    "fp8, transposed": lambda x: Float8Tensor.from_hp(x, torch.float8_e5m2, PerRow()).t(),
    "mxfp8": lambda x: MXTensor.to_mx(x, torch.float8_e4m3fn, 32, is_swizzled_scales=False),
    "mxfp8, swizzled": lambda x: MXTensor.to_mx(x, torch.float8_e4m3fn, 32, is_swizzled_scales=True),
    "mxfp6": lambda x: MXTensor.to_mx(x, "fp6_e3m2", 32),
    "mxfp4, swizzled": lambda x: MXTensor.to_mx(x, torch.float4_e2m1fn_x2, 32, is_swizzled_scales=True),
    "nvfp4": nvfp4,
    "nvfp4, one level": NVFP4Tensor.to_nvfp4,
    "nvfp4, swizzled": lambda x: nvfp4(x, is_swizzled_scales=True),
    "nvfp4, swizzled and transposed": lambda x: nvfp4(x, is_swizzled_scales=True).t(),
    "int8": lambda x: Int8Tensor.from_hp(x, PerRow()),
    "int4": lambda x: IntxUnpackedToInt8Tensor.from_hp(x, (1, 32), torch.int4),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", MADE)
def test_a_tensor_of_torchao_is_read_back_and_decoded_as_torchao_does(tmp_path, kind, dtype):
    made = MADE[kind](values(100, 96, dtype=dtype))
    kept, recording = record_output(tmp_path / "quantized", made)
    expected = made.dequantize().contiguous()
    group = kept["0"]
    assert isinstance(group, quant.Group)
    assert same_bits(group.decoded(), expected)
    # The parts are plain tensors with keys of their own, and the bytes that the program had.
    ours, theirs = group.parts(), quant.groups_of(made)[""].parts()
    assert list(kept) == ["0", *(f"0/{step}" for step in theirs)]
    for step, part in theirs.items():
        assert torch.equal(kept[f"0/{step}"].flatten().view(torch.uint8), part.flatten().view(torch.uint8))
        assert ours[step].dtype == part.dtype and ours[step].shape == part.shape
    # What is kept of the values is what would be kept of the tensor that they are.
    record = kept.record("0")
    plain = record_output(tmp_path / "plain", expected, level="fingerprint")[0].record("0")
    assert (record.hash, record.stats, record.shape, record.dtype) == (
        plain.hash,
        plain.stats,
        plain.shape,
        plain.dtype,
    )
    assert record.group and not record.has_bytes and record.level == "sketch"
    assert recording.coverage["notes"] == [] and recording.coverage["unsupported"] == []


def test_both_directions_of_a_tensor_are_two_groups(tmp_path):
    made, rowwise, columnwise = te_tensors.mxfp8((96, 160), True)
    kept, _ = record_output(tmp_path, made)
    assert list(kept) == [
        "0", "0/payload", "0/scale", "0/columnwise", "0/columnwise/payload", "0/columnwise/scale",
    ]  # fmt: skip
    assert same_bits(kept["0"].decoded(torch.float32), rowwise)
    assert same_bits(kept["0/columnwise"].decoded(torch.float32), columnwise)
    assert same_bits(tap.open(tmp_path)["0/columnwise"].decoded(torch.float32), columnwise)


def test_what_was_rotated_is_recorded_and_not_decoded(tmp_path):
    made, _, columnwise = te_tensors.nvfp4((32, 64), False, quantizer=te_tensors.Quantizer(with_rht=True))
    kept, recording = record_output(tmp_path, made)
    assert kept.record("0").hash is not None
    record = kept.record("0/columnwise")
    assert record.level == "meta" and record.hash is None and record.shape == (32, 64)
    assert kept["0/columnwise"].format.rotated
    assert same_bits(kept["0/columnwise"].decoded(torch.float32, rotated=True), columnwise)
    (note,) = recording.coverage["notes"]
    assert "1 tensor recorded as parts" in note and "rotated" in note and "0@out/columnwise" in note


def test_at_level_fingerprint_there_are_hashes_of_parts_and_values(tmp_path):
    kept, _ = record_output(tmp_path, nvfp4(values(64, 64)), level="fingerprint")
    assert [record.level for record in kept.records] == ["fingerprint"] * 4
    assert all(record.hash for record in kept.records)
    with pytest.raises(LookupError, match="'0/payload' has no bytes"):
        kept["0"]


def test_at_level_meta_nothing_is_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(quant.Group, "decoded", lambda *_: pytest.fail("decoded"))
    kept, _ = record_output(tmp_path, nvfp4(values(64, 64)), level="meta")
    assert [record.level for record in kept.records] == ["meta"] * 4
    assert kept.record("0").shape == (64, 64) and kept.record("0").group


class Unknown(torch.Tensor):
    """A wrapper of which nobody knows anything."""

    @staticmethod
    def __new__(cls, first, second):
        self = torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)
        self.first, self.second = first, second
        return self

    def __tensor_flatten__(self):
        return ["first", "second"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} ran on a wrapper")


def test_an_unknown_subclass_is_its_parts_with_a_note(tmp_path):
    first, second = torch.rand(3), torch.rand(2)
    kept, recording = record_output(tmp_path, (Unknown(first, second), Unknown(first, second)))
    assert list(kept) == ["0/0/first", "0/0/second", "0/1/first", "0/1/second"]
    assert torch.equal(kept["0/1/second"], second)
    assert recording.coverage["notes"] == [
        "2 tensors recorded as parts, without the values: Unknown, whose format is not known, first 0@out/0"
    ]


def test_a_tensor_that_is_not_what_it_says_is_its_parts_with_a_note(tmp_path):
    made = nvfp4(values(64, 64))
    made.scale = made.scale[:3]
    kept, recording = record_output(tmp_path / "kept", made)
    assert kept.record("0").level == "meta" and not kept.record("0").group
    assert torch.equal(kept["0/payload"], made.qdata)
    (note,) = recording.coverage["notes"]
    assert "scales of shape [3, 4]" in note
    with pytest.raises(RuntimeError, match="scales of shape"):
        record_output(tmp_path / "strict", made, strict=True)


def test_what_is_not_all_in_one_memory_is_not_decoded(tmp_path):
    codes = torch.empty(4, 8, dtype=torch.uint8, device="meta")
    made = te_tensors.Float8Tensor((4, 8), _data=codes, _scale_inv=torch.ones(1), _fp8_dtype=te_tensors.E4M3)
    kept, recording = record_output(tmp_path, made)
    assert [(record.key, record.level) for record in kept.records] == [
        ("0", "meta"),
        ("0/payload", "meta"),
        ("0/scale", "full"),
    ]
    assert kept.record("0").group and kept.record("0").shape == (4, 8)
    (note,) = recording.coverage["notes"]
    assert "its parts are on meta and cpu, and are decoded only where all of them are, first 0@out" in note


def test_a_pass_is_loaded_as_parts_or_decoded(tmp_path):
    made = nvfp4(values(64, 48))
    kept, _ = record_output(tmp_path, {"weight": made, "plain": torch.ones(2)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is missing
        parts = tap.load_pass(kept.path)
        decoded = tap.load_pass(kept.path, decode=True)
    assert list(parts) == ["0/weight/payload", "0/weight/scale", "0/weight/global_scale", "0/plain"]
    assert all(type(part) is torch.Tensor for part in parts.values())
    assert list(decoded) == ["0/weight", "0/plain"]
    assert same_bits(decoded["0/weight"], made.dequantize())


def with_first_group(path, edit):
    """The same safetensors file, in which something else is said of its first group."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    groups = json.loads(header["__metadata__"]["ttap.groups"])
    edit(groups[0])
    header["__metadata__"]["ttap.groups"] = json.dumps(groups)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])


WRONG = {
    "another shape": lambda group: group.update(shape=[63, 48]),
    "an unknown element": lambda group: group["description"]["format"].update(element="int3"),
    "no format": lambda group: group["description"].pop("format"),
    "no list of parts": lambda group: group["description"].update(parts=5),
    "a part that is not there": lambda group: group["description"]["parts"].append("zero_point"),
    "a part too few": lambda group: group["description"].update(parts=["payload"]),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_description_that_cannot_be_leaves_the_parts(tmp_path, kind):
    first, second = nvfp4(values(64, 48)), nvfp4(values(32, 16))
    kept, _ = record_output(tmp_path, {"a": first, "b": second}, format="safetensors")
    with_first_group(kept.path, WRONG[kind])
    steps = ("payload", "scale", "global_scale")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is missing
        assert list(tap.load_pass(kept.path)) == [f"0/{name}/{step}" for name in "ab" for step in steps]
    with pytest.warns(UserWarning, match="0/a of .* is not decoded"):
        decoded = tap.load_pass(kept.path, decode=True)
    assert set(decoded) == {*(f"0/a/{step}" for step in steps), "0/b"}
    assert same_bits(decoded["0/b"], second.dequantize())


@pytest.mark.parametrize("format", ["safetensors", "pt", "npy"])
@pytest.mark.parametrize("kind", ["fp8", "mxfp8, swizzled", "nvfp4"])
def test_other_formats_have_the_plain_parts_and_decode(tmp_path, format, kind):
    made = MADE[kind](values(64, 64))
    kept, _ = record_output(tmp_path, made, format=format)
    assert not list(tmp_path.rglob("*.ttap")), "the other format says all there is to say"
    assert torch.equal(kept["0/payload"].view(torch.uint8), made.qdata.view(torch.uint8))
    assert torch.equal(kept["0/scale"].view(torch.uint8), made.scale.view(torch.uint8))
    assert same_bits(kept["0"].decoded(), made.dequantize())
    assert same_bits(tap.load_pass(kept.path, decode=True)["0"], made.dequantize())


def test_a_pt_file_of_quantized_tensors_is_one_of_plain_tensors(tmp_path):
    made = nvfp4(values(64, 48))
    kept, _ = record_output(tmp_path, made, format="pt")
    for mapped in (False, True):
        plain = torch.load(kept.path, weights_only=True, mmap=mapped)
        assert list(plain) == ["0/payload", "0/scale", "0/global_scale"]
        assert torch.equal(plain["0/payload"], made.qdata)
    with zipfile.ZipFile(kept.path) as archive:
        (told,) = json.loads(archive.read("archive/ttap.groups.json"))
    assert told["name"] == "0" and told["description"]["format"]["name"] == "nvfp4"


def test_an_npy_folder_of_quantized_tensors_holds_their_codes(tmp_path):
    made = Float8Tensor.from_hp(values(64, 48), torch.float8_e4m3fn, PerRow())
    kept, _ = record_output(tmp_path, made, format="npy")
    index = json.loads((kept.path / "index.json").read_text())
    (payload,) = (entry for entry in index["tensors"] if entry["key"] == "0/payload")
    assert payload["dtype"] == "u8" and payload["bytes_of"] == "f8_e4m3fn"
    codes = np.load(kept.path / payload["file"])
    assert codes.dtype == np.uint8 and np.array_equal(codes, made.qdata.view(torch.uint8).numpy())
    assert index["groups"][0]["description"]["parts"] == ["payload", "scale"]


def test_pieces_become_a_group_when_the_program_says_so(tmp_path):
    made = nvfp4(values(64, 48, dtype=torch.bfloat16))
    pieces = {"payload": made.qdata, "scale": made.scale, "global_scale": made.per_tensor_scale}

    class Holds(nn.Module):
        def forward(self, x):
            tap.capture_quantized("fc.weight", format="nvfp4", **pieces)
            tap.capture_quantized("fc.weight", format="nvfp4", role="in", **pieces)
            tap.capture_quantized("left.out", format="nvfp4", **pieces)
            return x

    tap.capture_quantized("nobody.records", format="nvfp4", **pieces)
    model = nn.Sequential(Holds())
    with tap.record(model, tmp_path, filter=[r"^(fc|0)"], report=False) as recording:
        model(torch.ones(1))
        recording.capture_quantized("fc.late", format="nvfp4", **pieces)
    kept = tap.open(tmp_path).ranks[0].passes[0]
    assert [key for key in kept if "/" not in key] == ["fc.weight", "fc.weight::call2@in", "0"]
    assert same_bits(kept["fc.weight"].decoded(), made.dequantize())
    assert kept["fc.weight"].shape == (64, 48) and kept["fc.weight"].dtype == torch.bfloat16
    assert recording.coverage["notes"] == ["fc.late was captured outside any pass, and is not recorded"]


def test_pieces_with_a_format_of_ones_own(tmp_path):
    codes, scale = torch.randint(-8, 8, (12, 40), dtype=torch.int8), torch.rand(12, 5, dtype=torch.float16)
    zeros = torch.randint(-3, 3, (12, 5), dtype=torch.int8)

    class Holds(nn.Module):
        def forward(self, x):
            tap.capture_quantized(
                "w", payload=codes, scale=scale, zero_point=zeros, format="int8", block_columns=8, dtype=torch.float32
            )
            return x

    model = nn.Sequential(Holds())
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(1))
    expected = (codes.float() - zeros.repeat_interleave(8, 1)) * scale.float().repeat_interleave(8, 1)
    assert same_bits(tap.open(tmp_path)["w"].decoded(), expected)


def captured(directory, pieces, **options):
    """A pass in which a module said that these pieces are `w`."""

    class Holds(nn.Module):
        def forward(self, x):
            tap.capture_quantized("w", **pieces)
            return x

    model = nn.Sequential(Holds())
    with tap.record(model, directory, report=False, **options) as recording:
        model(torch.ones(1))
    return tap.open(directory).ranks[0].passes[0], recording


NO_GROUP = {
    "an unknown format": ({"format": "nvfp5"}, "ValueError: no quantized format is called 'nvfp5'"),
    "a role that is none": ({"role": "my weight"}, "capture_quantized('w', role='my weight'): a role is letters"),
    "no role": ({"role": ""}, "capture_quantized('w', role=''): a role is letters"),
    "a number for a role": ({"role": 5}, "capture_quantized('w', role=5): a role is letters"),
    "an unknown field": ({"blocks": 8}, "TypeError: a quantized format has no 'blocks'"),
    "no scale": ({"scale": None}, "AttributeError"),
    "a number for a scale": ({"scale": 1.0}, "AttributeError"),
}


@pytest.mark.parametrize("kind", NO_GROUP)
def test_pieces_that_make_no_group_do_not_disturb_the_model(tmp_path, kind):
    wrong, why = NO_GROUP[kind]
    pieces = {"payload": torch.ones(4, 8, dtype=torch.int8), "scale": torch.ones(1), "format": "int8"} | wrong
    tap.capture_quantized("w", **pieces)  # nobody records
    kept, recording = captured(tmp_path / "kept", pieces)
    assert list(kept) == ["0"]
    assert any(why in note for note in (*recording.coverage["notes"], str(recording.coverage["unsupported"])))
    with pytest.raises((ValueError, TypeError, AttributeError)):
        captured(tmp_path / "strict", pieces, strict=True)


def test_pieces_whose_scales_cannot_be_decoded_are_parts_with_a_note(tmp_path):
    scale = torch.ones(1, dtype=torch.float64)
    pieces = {"payload": torch.ones(4, 8, dtype=torch.int8), "scale": scale, "format": "int8"}
    kept, recording = captured(tmp_path, pieces)
    assert list(kept) == ["w", "w/payload", "w/scale", "0"]
    assert torch.equal(kept["w/scale"], scale)
    (note,) = recording.coverage["notes"]
    assert "scales of torch.float64" in note


def test_pieces_that_were_rotated_keep_their_description(tmp_path):
    made = nvfp4(values(16, 32))
    pieces = {"payload": made.qdata, "scale": made.scale, "global_scale": made.per_tensor_scale, "format": "nvfp4"}
    kept, recording = captured(tmp_path, pieces | {"rotated": True, "dtype": torch.float32}, strict=True)
    record = kept.record("w")
    assert record.level == "meta" and record.hash is None
    assert kept["w"].format.rotated
    assert same_bits(kept["w"].decoded(rotated=True), made.dequantize())
    (note,) = recording.coverage["notes"]
    assert "rotated before it was quantized" in note


@pytest.mark.parametrize("shape", [None, ()])
def test_pieces_of_no_dimensions(tmp_path, shape):
    payload = torch.tensor(3, dtype=torch.int8)
    pieces = {"payload": payload, "scale": torch.tensor(0.5), "format": "int8", "shape": shape}
    kept, _ = captured(tmp_path, pieces)
    assert torch.equal(kept["w/payload"], payload)
    assert torch.equal(kept["w"].decoded(torch.float32), torch.tensor(1.5))


def test_a_compiled_region_that_captures_pieces_stays_whole(tmp_path):
    class Holds(nn.Module):
        def forward(self, x):
            pieces = {"payload": x.to(torch.int8), "scale": torch.ones(1)}
            tap.capture_quantized("w", format="int8", **pieces)
            recording.capture_quantized("w", format="int8", **pieces)
            return x + 1

    compiled = torch.compile(Holds(), backend="eager", fullgraph=True)
    with tap.record(nn.Linear(1, 1), tmp_path, report=False) as recording:
        assert torch.equal(compiled(torch.ones(2, 2)), torch.full((2, 2), 2.0))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_zero_points_of_any_integer_are_codes(tmp_path, dtype):
    codes, zeros = torch.tensor([[5, 6, 7, 8]], dtype=torch.int8), torch.tensor([3], dtype=dtype)

    class Holds(nn.Module):
        def forward(self, x):
            tap.capture_quantized("w", payload=codes, scale=torch.tensor([0.5]), zero_point=zeros, format="int8")
            return x

    model = nn.Sequential(Holds())
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(1))
    assert torch.equal(tap.open(tmp_path)["w"].decoded(torch.float32), (codes.float() - 3) * 0.5)
