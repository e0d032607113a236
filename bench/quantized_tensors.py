"""Decoding of quantized tensors against torchao and against memcpy, on one thread."""

from __future__ import annotations

import contextlib
import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensortap.tensors.dtypes  # noqa: F401  # tells _core about the dtypes
import torch
from tensortap import _core

ROWS, COLUMNS = 4096, 4096
ROUNDS = 7


@dataclass
class Figure:
    """Seconds of the same work, ours and a peer's, measured in turn."""

    what: str
    peer: str
    ours_s: float
    peer_s: float
    target: float | None = None


def in_turn(ours: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for work, found in zip((ours, peer), times, strict=True):
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start)
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def values() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))


def encoded(name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """The parts of a tensor, as bytes."""
    parts = _core.quant_encode(tensor, _core.quant_format(name))
    scales = {"f32": torch.float32, "e8m0": torch.float8_e8m0fnu, "e4m3": torch.float8_e4m3fn}
    dtypes = {
        "payload": torch.uint8,
        "scale": scales[_core.quant_format(name).scale_type],
        "global": torch.float32,
        "zero_point": torch.int8,
    }
    return {
        key: None if parts[key] is None else torch.from_dlpack(parts[key][0]).view(dtype).reshape(parts[key][1])
        for key, dtype in dtypes.items()
    }


def against_memcpy() -> Iterator[Figure]:
    """Of as many bytes read and written: a value of f32 is decoded from one byte, or half of one, and scales."""
    tensor = values()
    for name, dtype, target in (
        ("fp8_e4m3", torch.float32, 0.4),
        ("fp8_e4m3", torch.bfloat16, None),
        ("fp8_block_128x128", torch.float32, 0.4),
        ("mxfp8_e4m3", torch.float32, 0.4),
        ("mxfp4", torch.float32, None),
        ("nvfp4", torch.float32, None),
        ("int8", torch.float32, None),
    ):
        parts = encoded(name, tensor)
        form = _core.quant_format(name)
        out = torch.empty(ROWS, COLUMNS, dtype=dtype)
        moved = parts["payload"].nbytes + parts["scale"].nbytes + out.nbytes
        source = torch.ones(moved // 2, dtype=torch.uint8)
        copy = torch.empty_like(source)
        ours, peer = in_turn(
            lambda form=form, parts=parts, out=out: _core.quant_decode(form, [ROWS, COLUMNS], *parts.values(), out=out),
            lambda copy=copy, source=source: copy.copy_(source),
        )
        short = str(dtype).removeprefix("torch.")
        yield Figure(f"decode {name} to {short} (16 Mi)", "memcpy, as many bytes", ours, peer, target)


def against_torchao() -> Iterator[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.prototype.mx_formats.mx_tensor import MXTensor
        from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
        from torchao.prototype.mx_formats.utils import from_blocked, to_blocked
        from torchao.quantization import PerRow
        from torchao.quantization.quantize_.workflows.float8.float8_tensor import Float8Tensor
        from torchao.quantization.quantize_.workflows.int8.int8_tensor import Int8Tensor
    tensor = values()
    theirs = {
        "fp8_e4m3_row": Float8Tensor.from_hp(tensor, torch.float8_e4m3fn, PerRow()),
        "mxfp8_e4m3": MXTensor.to_mx(tensor, torch.float8_e4m3fn),
        "mxfp4": MXTensor.to_mx(tensor, torch.float4_e2m1fn_x2),
        "nvfp4": NVFP4Tensor.to_nvfp4(tensor, per_tensor_scale=per_tensor_amax_to_scale(tensor.abs().max())),
        "int8": Int8Tensor.from_hp(tensor, PerRow()),
    }
    for name, quantized in theirs.items():
        form = _core.quant_format(name)
        whole = getattr(quantized, "per_tensor_scale", None)

        def decode(form: _core.QuantFormat = form, q: torch.Tensor = quantized, whole: torch.Tensor = whole) -> None:
            out = torch.empty(ROWS, COLUMNS)  # as torchao does, too
            _core.quant_decode(form, [ROWS, COLUMNS], q.qdata, q.scale, whole, out=out)

        ours, peer = in_turn(decode, lambda q=quantized: q.dequantize(torch.float32))
        yield Figure(f"decode {name} to float32 (16 Mi)", "torchao", ours, peer, 3)
    scales = torch.randint(0, 256, (16384, 1024), dtype=torch.uint8)
    swizzled = to_blocked(scales)
    ours, peer = in_turn(
        lambda: _core.unswizzle_scales(swizzled, torch.empty_like(scales)),
        lambda: from_blocked(swizzled, *scales.shape),
    )
    yield Figure("unswizzle 16 Mi scales", "torchao", ours, peer, 3)


def of_recipes() -> Iterator[Figure]:
    """Four recipes in one pass, against each alone."""
    tensor = values().bfloat16()
    recipes = [_core.quant_format(name) for name in ("nvfp4", "mxfp8_e4m3", "mxfp4", "fp8_block_128x128")]
    amax = float(tensor.abs().max())
    ours, peer = in_turn(
        lambda: _core.quant_statistics(tensor, recipes, amax=amax),
        lambda: [_core.quant_statistics(tensor, [recipe], amax=amax) for recipe in recipes],
    )
    yield Figure("statistics of four recipes (16 Mi of bf16)", "one after the other", ours, peer)


def measure() -> list[Figure]:
    """All figures; those against torchao only where it is installed."""
    with one_thread():
        found = list(against_memcpy())
        if importlib.util.find_spec("torchao") is not None:
            found += against_torchao()
        return found + list(of_recipes())
