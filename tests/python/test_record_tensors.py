"""What is kept of any tensor and of any nested output."""

import collections
import dataclasses

import pytest
import tensortap as tap
import torch
from small_models import passes_of, record_output
from torch import nn


def test_an_in_place_op_after_a_module_does_not_change_what_was_recorded(tmp_path):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            self.before = y.clone()
            return y.add_(1)

    model = InPlace()
    with torch.no_grad(), tap.record(model, tmp_path, report=False):
        model(torch.randn(2, 3))
    assert torch.equal(passes_of(tmp_path)[0]["linear"], model.before)


def test_a_view_records_only_its_own_elements(tmp_path):
    whole = torch.arange(1000.0).reshape(10, 100)
    recorded, _ = record_output(tmp_path, whole[2:4, ::10])
    assert torch.equal(recorded["0"], whole[2:4, ::10])
    assert recorded.record("0").byte_count == 2 * 10 * 4
    assert recorded.record("0").strides == (100, 10)


def test_what_is_loaded_is_the_readers_own(tmp_path):
    big = torch.randn(1 << 20)  # mapped
    recorded, _ = record_output(tmp_path, [big, torch.ones(3)])
    for key in ("0/0", "0/1"):
        recorded[key].fill_(7)
        assert not torch.equal(recorded[key], torch.full_like(recorded[key], 7))
    assert torch.equal(recorded["0/0"], big)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.empty(0, 4),
        torch.tensor([float("nan"), float("inf"), -0.0]),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.randn(3, dtype=torch.complex64).conj().imag,
        torch.randn(4, 4).to(torch.float8_e4m3fn),
        torch.randn(4).to(torch.bfloat16).expand(3, 4),
        torch.arange(6).reshape(2, 3).T,
        torch.tensor([True, False]),
        torch.tensor([2**63, 1], dtype=torch.uint64),
    ],
    ids=["0-d", "empty", "nan", "conj", "neg", "fp8", "expanded", "transposed", "bool", "u64"],
)
def test_any_strided_tensor_is_recorded_right(tensor, tmp_path):
    recorded, _ = record_output(tmp_path, tensor)
    assert recorded["0"].dtype == tensor.dtype and recorded["0"].shape == tensor.shape
    resolved = tensor.resolve_conj().resolve_neg()
    assert torch.equal(recorded["0"].reshape(-1).view(torch.uint8), resolved.reshape(-1).contiguous().view(torch.uint8))


def test_a_sparse_tensor_is_recorded_as_its_parts(tmp_path):
    sparse = torch.eye(3).to_sparse()
    recorded, _ = record_output(tmp_path, sparse)
    assert torch.equal(recorded["0/indices"], sparse._indices())
    assert torch.equal(recorded["0/values"], sparse._values())


def test_a_tensor_without_bytes_keeps_its_shape(tmp_path):
    recorded, _ = record_output(tmp_path, torch.empty(5, 6, device="meta"))
    record = recorded.record("0")
    assert (record.level, record.shape, record.device) == ("meta", (5, 6), "meta")
    with pytest.raises(LookupError, match="level 'meta'"):
        recorded["0"]


def test_what_cannot_be_recorded_is_counted_and_does_not_raise(tmp_path):
    quantized = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.quint8)
    recorded, recording = record_output(tmp_path, (quantized, torch.ones(2)))
    assert list(recorded) == ["0/1"]
    assert recording.coverage["unsupported"] == [
        {"why": "a quantized tensor of torch.ao", "count": 1, "first": "0@out/0"}
    ]
    assert tap.open(tmp_path).ranks[0].coverage["drops"]["unsupported"] == 1


def test_strict_raises_what_cannot_be_recorded(tmp_path):
    quantized = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.quint8)
    with pytest.raises(Exception, match="quantized"):
        record_output(tmp_path, quantized, strict=True)


# ---- nested outputs ----

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Result:
    hidden: torch.Tensor
    extra: object = None


def test_nested_outputs_keep_their_paths(tmp_path):
    one = torch.ones(1)
    value = {
        "plain": one,
        "pair": Pair(one * 2, one * 3),
        "result": Result(one * 4, [one * 5, None, "text", (one * 6,)]),
        "a/b@c": one * 7,
        3: one * 8,
    }
    recorded, _ = record_output(tmp_path, value)
    assert {key: tensor.item() for key, tensor in tap.load_pass(recorded.path).items()} == {
        "0/plain": 1,
        "0/pair/left": 2,
        "0/pair/right": 3,
        "0/result/hidden": 4,
        "0/result/extra/0": 5,
        "0/result/extra/3/0": 6,
        "0/a%2Fb@c": 7,
        "0/3": 8,
    }


def test_a_single_survivor_keeps_its_position(tmp_path):
    recorded, _ = record_output(tmp_path, (None, torch.ones(2)))
    assert list(recorded) == ["0/1"]


def test_an_output_without_tensors_is_said(tmp_path):
    recorded, recording = record_output(tmp_path, "text")
    assert len(recorded) == 0
    assert recording.coverage["without_tensors"] == [{"name": "0", "calls": 1}]
