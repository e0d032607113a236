"""Where the values of a quantized group are decoded when it is recorded, and what is said where they are not."""

import pytest
import tensortap as tap
import torch
from quantized import encode, format_of
from small_models import Returns
from tensortap import _core
from tensortap.quant import Group
from tensortap.tensors.quant_on_gpu import Gpu, RawTensor, gpu_of, why_too_large
from tensortap.tensors.quant_values import values_of, why_no_room, why_not_here
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


def group_of(name, shape, dtype=torch.bfloat16, **changes):
    made = format_of(name, **changes)
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    parts = dict(zip(("payload", "scale", "global_scale", "zero_point"), encode(x, made), strict=True))
    return Group(made, shape, dtype, parts)


def no_room(*_):
    pytest.fail("the host needs no memory of a GPU")


def raw_of(tensor):
    return RawTensor(tensor.data_ptr(), tuple(tensor.shape), tensor.dtype)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 64), (0, 64), (4, 0)])
def test_raw_memory_has_the_strides_of_a_new_tensor(shape):
    tensor = torch.empty(shape)
    raw = raw_of(tensor)
    assert raw.shape == tensor.shape and raw.dtype == tensor.dtype and raw.data_ptr() == tensor.data_ptr()
    if tensor.numel() > 0:
        assert raw.stride() == tensor.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_extension_decodes_into_raw_memory_and_records_it(tmp_path, dtype):
    group = group_of("nvfp4", (100, 80), dtype)
    values = torch.zeros(100, 80, dtype=dtype)
    _core.quant_decode(group.format, [100, 80], *group.parts_in_order(), out=raw_of(values))
    assert torch.equal(values, group.decoded())
    options = _core.RecorderOptions()
    options.directory = str(tmp_path)
    recorder = _core.Recorder.create(options)
    event = recorder.begin_event("w", "module", recorder.open_pass(), 1)
    for role, tensor in (("out", values), ("in", raw_of(values))):
        assert recorder.capture(event, tensor, role, "", "cpu", group=group.description) is None
    recorder.close()
    plain, raw = tap.open(tmp_path).ranks[0].passes[0].records
    assert raw.hash == plain.hash and raw.stats == plain.stats and raw.shape == plain.shape and raw.dtype == plain.dtype


def test_on_the_host_they_are_decoded_whatever_their_size():
    group = group_of("mxfp8", (100, 96))
    assert gpu_of(group.parts().values()) is None
    with values_of(group, no_room, most_on_gpu=1) as values:
        assert torch.equal(values.tensor, group.decoded())
        assert values.description == group.description and values.why == "" and values.gpu is None


def test_parts_that_are_not_together_are_not_decoded():
    group = group_of("nvfp4", (16, 32))
    parts = group.parts()
    for place in ("payload", "global_scale"):
        apart = Group(group.format, group.shape, group.dtype, parts | {place: parts[place].to("meta")})
        with values_of(apart, no_room, most_on_gpu=1 << 30) as values:
            assert values.tensor is None and values.description == group.description
            assert values.why == why_not_here(list(apart.parts().values()))
    assert why_not_here(list(apart.parts().values())) == (
        "its parts are on cpu and meta, and are decoded only where all of them are"
    )


def test_parts_on_a_device_that_nothing_decodes_on():
    group = group_of("mxfp8", (16, 32))
    elsewhere = {name: part.to("meta") for name, part in group.parts().items()}
    with values_of(Group(group.format, group.shape, group.dtype, elsewhere), no_room, most_on_gpu=1 << 30) as values:
        assert values.tensor is None and "not in the host's memory" in values.why


def test_the_format_must_be_known_and_the_values_be_the_tensors():
    group = group_of("nvfp4", (16, 32), rotated=True)
    unknown = Group(None, group.shape, group.dtype, group.parts(), note="scales of a new kind")
    silent = Group(None, group.shape, group.dtype, group.parts())
    for each, why in (
        (group, "rotated before it was quantized"),
        (unknown, "scales of a new kind"),
        (silent, "its format is not known"),
    ):
        with values_of(each, no_room, most_on_gpu=1 << 30) as values:
            assert (values.tensor, values.description, values.why) == (None, each.description, why)


def test_both_sizes_are_told_of_values_that_are_too_large():
    assert why_too_large((256, 512), torch.bfloat16, 1 << 18) == ""
    assert why_too_large((0, 512), torch.float64, 0) == ""
    assert why_too_large((256, 512), torch.float32, 1 << 18) == (
        "its values have 524,288 bytes, more than the 262,144 of device_staging"
    )


def test_what_an_allocator_says_is_told_in_one_line():
    gpu = Gpu(device=1, stream=0)
    full = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. 3.25 MiB is free.")
    assert why_no_room(full, gpu) == "there was no memory on cuda:1 to decode it"
    assert why_no_room(RuntimeError("CUDA error: unknown\nCompile with"), gpu) == "CUDA error: unknown"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int32], ids=str)
def test_the_dtype_of_the_values_is_that_of_decoding(dtype):
    group = group_of("int8", (4, 16), dtype)
    assert group.values_dtype == group.decoded().dtype == (torch.float32 if dtype == torch.int32 else dtype)


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


class Captures(Returns):
    def forward(self, x):
        tap.capture_quantized("w", **self.value)
        return x


def test_recording_a_group_is_no_operator_of_the_program(tmp_path):
    group = group_of("nvfp4", (16, 32))
    model, x = nn.Sequential(Captures({**group.parts(), "format": group.format, "shape": group.shape})), torch.ones(1)
    with tap.record(model, tmp_path, report=False), tap.trace() as trace, Seen() as seen:
        model(x)
    assert [event.name for event in trace.events if event.kind == "op"] == [] and seen.operators == []
    assert tap.open(tmp_path).ranks[0].passes[0].record("w").hash is not None
