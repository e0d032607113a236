"""The places a probe looks at: what can be probed, where it lies, and what comes back of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tensortap import _core
from tensortap.tensors.dtypes import TORCH_DTYPES
from tensortap.tensors.snapshot import is_fake, known_groups

_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}
_SMALLEST_ROOM = 4096  # bytes


def dtype_name(dtype: torch.dtype) -> str:
    """As TensorTap calls it."""
    return _NAMES[dtype]


def described(tensor: torch.Tensor) -> str:
    """Dtype and shape, for messages."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def readable(tensor: torch.Tensor, name: str, *, copies: bool) -> torch.Tensor:
    """The tensor as its bytes can be read, detached. Raises ValueError or TypeError, saying what to do."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"probe {name!r}: {type(tensor).__name__} is no tensor")
    if is_fake(tensor) or tensor.device.type == "meta":
        raise ValueError(f"probe {name!r}: a {'fake' if is_fake(tensor) else 'meta'} tensor has no values")
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"probe {name!r}: a tensor on {tensor.device}: CPU and CUDA tensors can be probed")
    if known_groups(tensor) is not None:
        kind = type(tensor).__name__
        raise TypeError(f"probe {name!r}: a {kind}, quantized: probe tensortap.quant.groups_of(tensor)[''].parts()")
    if hasattr(tensor, "__tensor_flatten__") and type(tensor) is not torch.nn.Parameter:
        raise TypeError(f"probe {name!r}: a {type(tensor).__name__}: probe the tensors inside it")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        raise ValueError(f"probe {name!r}: a tensor of layout {tensor.layout}: only dense tensors can be probed")
    if tensor.dtype not in _NAMES:
        raise ValueError(f"probe {name!r}: dtype {tensor.dtype} is not one TensorTap knows")
    lazy = tensor.is_conj() or tensor.is_neg()
    if not copies and (lazy or not tensor.is_contiguous()):
        what = "a tensor whose conjugation or sign is still to be applied" if lazy else "a non-contiguous tensor"
        raise ValueError(
            f"probe {name!r}: {what} ({described(tensor)}, strides {list(tensor.stride())}): "
            "probe a contiguous one, or pass non_contiguous='copy'"
        )
    tensor = tensor.detach()
    return tensor.resolve_conj().resolve_neg() if lazy else tensor


def live_rows(tensor: torch.Tensor, rows: Any, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The tensor with as many rows as the host can tell are alive, and the tensor with that number on the device."""
    if rows is None:
        return tensor, None
    if tensor.dim() == 0:
        raise ValueError(f"probe {name!r}: rows= needs a first axis, and the tensor has none")
    if isinstance(rows, torch.Tensor):
        if rows.numel() != 1 or rows.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"probe {name!r}: rows= is {described(rows)}: it must hold one int32 or int64")
        if rows.device == tensor.device and rows.is_cuda:
            return tensor, rows
        if rows.device.type != "cpu" or tensor.is_cuda:
            raise ValueError(f"probe {name!r}: rows= is on {rows.device}, the tensor on {tensor.device}")
    return tensor.narrow(0, 0, max(0, min(int(rows), tensor.shape[0]))), None


@dataclass(frozen=True)
class Call:
    """What is known of a call on the host."""

    number: int  # of calls outside a graph; in a graph the replay says it
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class DeviceSite:
    """One call of a probe in a captured graph, or calls outside one, one after the other on a stream."""

    def __init__(self, core: Any, device: torch.device, invocation: int | None, remembered: int) -> None:
        self.core = core
        self.device = device
        self.invocation = invocation  # None outside a graph
        self.calls: dict[int, Call] = {}  # by their index in the ring; in a graph all are the first
        self._remembered = remembered  # calls outside a graph, at most: those before them were overwritten
        self.enqueued = 0
        self.next_index = 0  # that is expected to come
        self.taken = 0

    @property
    def eager(self) -> bool:
        return self.invocation is None

    def enqueue(self, tensor: torch.Tensor, number: int, stream: int, **more: Any) -> None:
        """Puts the work on the stream: now, or into the graph that is captured there."""
        call = Call(number, tuple(tensor.shape), tensor.dtype, tensor.device)
        index = self.enqueued
        self.calls[index] = call  # before the device can be done with it
        try:
            self.core.enqueue(tensor, stream, **more)
        except BaseException:
            del self.calls[index]
            raise
        self.enqueued += 1
        if self.eager:
            self.calls.pop(index - self._remembered, None)

    def next(self) -> tuple[int, Call, Any, int, torch.Tensor] | None:
        """What arrived next: index in the ring, call, fingerprint, bytes looked at, and what was taken of them."""
        while (arrived := self.core.next()) is not None:
            index, fingerprint, looked_at, taken = arrived
            call = self.calls.get(index if self.eager else 0)
            if call is not None:
                self.taken += 1
                return index, call, fingerprint, looked_at, torch.from_dlpack(taken)
        return None

    def passed_over(self, index: int) -> Sequence[int]:
        """The numbers of the replays, or calls, that were overwritten before this one; then it is expected no more."""
        missed = range(self.next_index, index)
        numbers = [self.calls.pop(i).number for i in missed if i in self.calls] if self.eager else missed
        if self.eager:
            self.calls.pop(index, None)
        self.next_index = index + 1
        return numbers


def room_for(tensor: torch.Tensor, *, exact: bool) -> int:
    """Bytes of a site: outside graphs shapes change, and sites serve many of them."""
    needed = tensor.numel() * tensor.element_size()
    return needed if exact else max(_SMALLEST_ROOM, 1 << max(needed - 1, 0).bit_length())


def live_shape(call: Call, looked_at: int) -> tuple[int, ...]:
    """The shape of what was looked at."""
    row = torch.empty(0, dtype=call.dtype).element_size()
    for length in call.shape[1:]:
        row *= length
    return (looked_at // row, *call.shape[1:]) if call.shape and row > 0 else call.shape


def as_tensor(taken: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Bytes that are the tensor's own."""
    return taken.view(dtype).view(shape) if len(taken) > 0 else torch.empty(shape, dtype=dtype)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in C order, of any dtype: PyTorch cannot copy packed ones as what they are."""
    if tensor.dtype.itemsize == 1 and tensor.dtype is not torch.bool:
        return tensor.view(torch.uint8).clone(memory_format=torch.contiguous_format).view(tensor.dtype)
    return tensor.clone(memory_format=torch.contiguous_format)


def first_values(taken: torch.Tensor, dtype: torch.dtype, most: int) -> list[Any]:
    """As Python numbers."""
    return _core.values(taken, dtype_name(dtype), most)
