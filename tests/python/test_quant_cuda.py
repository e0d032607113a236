"""Quantized groups decoded on a GPU: the bits that the CPU gives."""

import pytest
import torch
from quantized import decode as decode_on_cpu
from quantized import encode, format_of
from tensortap import _core

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHAPES = [(100, 80), (1, 16), (3, 48), (2, 3, 64), (129, 4096)]
FORMATS = [
    "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "fp8_row", "fp8_block_1x128", "fp8_block_128x128",
    "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4", "nvfp4_2d", "nvfp4_row",
    "int8", "int8_asym", "int4", "int4_group16_asym",
]  # fmt: skip


def tensor_of(shape, seed=1):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    x.view(-1)[0] = float("nan")
    return x


def on_gpu(parts):
    return [None if part is None else part.cuda() for part in parts]


def decode(made, shape, parts, dtype, stream=None):
    """Of CUDA tensors, on the current stream."""
    out = torch.empty(*shape, dtype=dtype, device="cuda")
    stream = stream or torch.cuda.current_stream()
    _core.quant_decode_gpu(made, list(shape), *parts, out=out, device=out.device.index, stream=stream.cuda_stream)
    return out


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_the_bits_of_the_cpu(name, shape, dtype):
    made = format_of(name)
    parts = encode(tensor_of(shape), made)
    expected = decode_on_cpu(made, shape, *parts, dtype=dtype)
    assert torch.equal(bits(decode(made, shape, on_gpu(parts), dtype).cpu()), bits(expected))


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
@pytest.mark.parametrize("transposed", [False, True])
def test_swizzled_scales_are_read_where_they_lie(name, transposed):
    made = format_of(name, scale_layout="swizzled", stored_transposed=transposed)
    shape = (100, 80)
    parts = encode(tensor_of(shape), made)
    expected = decode_on_cpu(made, shape, *parts)
    assert torch.equal(bits(decode(made, shape, on_gpu(parts), torch.float32).cpu()), bits(expected))


def test_strided_parts_are_read_where_they_lie():
    made = format_of("mxfp8")
    payload, scale, _, _ = encode(tensor_of((64, 128)), made)
    apart = torch.zeros(64, 256, dtype=torch.uint8, device="cuda")[:, ::2]
    apart.copy_(payload)
    found = decode(made, (64, 128), [apart, scale.cuda(), None, None], torch.bfloat16)
    assert torch.equal(bits(found.cpu()), bits(decode_on_cpu(made, (64, 128), payload, scale, dtype=torch.bfloat16)))


def test_a_tensor_without_elements():
    made = format_of("mxfp8")
    parts = [torch.empty(0, 64, dtype=torch.uint8, device="cuda"), torch.empty(0, 2, dtype=torch.uint8, device="cuda")]
    assert decode(made, (0, 64), [*parts, None, None], torch.bfloat16).shape == (0, 64)


def test_in_a_graph_and_on_another_stream():
    made = format_of("nvfp4")
    first, second = (encode(tensor_of((256, 512), seed), made) for seed in (1, 2))
    parts = on_gpu(first)
    out = torch.empty(256, 512, dtype=torch.bfloat16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        _core.quant_decode_gpu(made, [256, 512], *parts, out=out, device=0, stream=stream)
    for each in (first, second):
        for part, values in zip(parts, each):
            if part is not None:
                part.copy_(values)
        graph.replay()
        expected = decode_on_cpu(made, (256, 512), *each, dtype=torch.bfloat16)
        assert torch.equal(bits(out.cpu()), bits(expected))


def test_what_does_not_fit_is_refused():
    made = format_of("mxfp8")
    payload = torch.zeros(4, 64, dtype=torch.uint8, device="cuda")
    scale = torch.zeros(4, 1, dtype=torch.uint8, device="cuda")
    with pytest.raises(ValueError, match=r"scales of shape \[4, 1\] for 4 × 2 blocks"):
        decode(made, (4, 64), [payload, scale, None, None], torch.float32)
    with pytest.raises(ValueError, match="f32, f64, bf16 or f16"):
        decode(made, (4, 64), [payload, scale.expand(4, 2).contiguous(), None, None], torch.int32)
