"""Groups in the memory of a GPU are decoded there, on the current stream, and nobody waits."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch

from tensortap import _core
from tensortap.quant.group import Group
from tensortap.tensors.snapshot import stream_of
from tensortap.torch_glue import cuda_graphs
from tensortap.torch_glue.dispatch_modes import no_modes


class Gpu(NamedTuple):
    """A GPU and its current stream."""

    device: int
    stream: int


class RawTensor:
    """Memory of a GPU that no operator has made, so that nobody sees it made. The extension takes it for a tensor."""

    is_cuda = True

    def __init__(self, address: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shape = shape
        self.dtype = dtype
        self._address = address

    def data_ptr(self) -> int:
        """Where it lies."""
        return self._address

    def stride(self) -> tuple[int, ...]:
        """Of a contiguous tensor."""
        return tuple(math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))


# Gives memory for values of a shape and dtype. What it gives may be used up to the end of the context by work that is
# put on the stream. Raises RuntimeError when there is none.
Room = Callable[[tuple[int, ...], torch.dtype, Gpu], "contextlib.AbstractContextManager[torch.Tensor | RawTensor]"]


@contextlib.contextmanager
def raw_memory(shape: tuple[int, ...], dtype: torch.dtype, gpu: Gpu) -> Iterator[RawTensor]:
    """A Room past the dispatcher: from PyTorch's allocator, which gives it out again on the same stream only."""
    size = math.prod(shape) * dtype.itemsize
    address = torch.cuda.caching_allocator_alloc(size, gpu.device, gpu.stream) if size > 0 else 0
    try:
        yield RawTensor(address, shape, dtype)
    finally:
        if address != 0:
            torch.cuda.caching_allocator_delete(address)


@contextlib.contextmanager
def new_tensor(shape: tuple[int, ...], dtype: torch.dtype, gpu: Gpu) -> Iterator[torch.Tensor]:
    """A Room that is a tensor, for whoever keeps it."""
    with no_modes():
        made = torch.empty(shape, dtype=dtype, device=f"cuda:{gpu.device}")
    yield made


def gpu_of(parts: Iterable[torch.Tensor]) -> Gpu | None:
    """The GPU in whose memory all of these lie, each as it is; None when there is none."""
    found = None
    for part in parts:
        stream = stream_of(part)
        if stream is None or (found is not None and found.device != part.get_device()):
            return None
        found = Gpu(part.get_device(), stream)
    return found


def why_not_on_gpu(group: Group, gpu: Gpu, most: int) -> str:
    """Why a group is not decoded on its GPU now; empty when it can be."""
    # Memory within a graph would have to live as long as the graph. Taking some from the device may end a capture on
    # whatever stream.
    if cuda_graphs.under_way() or _is_capturing(gpu):
        return "a CUDA graph is being captured, in which nothing is decoded"
    return why_too_large(group.shape, group.values_dtype, most)


def why_too_large(shape: tuple[int, ...], dtype: torch.dtype, most: int) -> str:
    """What is said of values that have more bytes than `most`; empty when they do not."""
    size = math.prod(shape) * dtype.itemsize
    return f"its values have {size:,} bytes, more than the {most:,} of device_staging" if size > most else ""


def _is_capturing(gpu: Gpu) -> bool:
    with torch.cuda.device(gpu.device):
        return torch.cuda.is_current_stream_capturing()


def decode_on_gpu(group: Group, gpu: Gpu, out: torch.Tensor | RawTensor) -> None:
    """Puts the decoding on the stream. Raises ValueError for a group that is none, FormatError where a GPU cannot."""
    _core.quant_decode_gpu(
        group.format, list(group.shape), *group.parts_in_order(), out=out, device=gpu.device, stream=gpu.stream
    )
