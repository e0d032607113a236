"""A tensor with the recorded values, in the place of the program's own."""

from __future__ import annotations

from typing import Any

import torch

from tensortap.grafting.report import Refused
from tensortap.replaying.call_tensors import dtype_name
from tensortap.tensors.snapshot import is_bytes, is_of_transform
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.torch_glue.op_extension import recording_suppressed

_ALIGNED = 64  # bytes; vectorised kernels may begin otherwise elsewhere


class _WithValues(torch.autograd.Function):
    """Other values, and the gradient goes to where it would have gone."""

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        return _copied(own, value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[torch.Tensor | None, None]:
        return gradient, None


def check_fit(own: torch.Tensor, value: torch.Tensor) -> str:
    """Whether the recorded tensor can stand in the place of the program's own; says what is cast. Raises Refused."""
    if is_of_transform(own):
        raise Refused("it is a tensor within vmap or grad of torch.func")
    if own.is_conj() or own.is_neg():
        raise Refused("it is a conjugate or negative view here, which has no memory of its own")
    if not is_bytes(own) or own.device.type not in ("cpu", "cuda"):
        kind = type(own).__name__
        what = kind if kind not in ("Tensor", "Parameter") else f"{own.layout} tensor on {own.device.type}"
        raise Refused(f"it is a {what} here, and only plain tensors can be replaced")
    if own.shape != value.shape:
        raise Refused(f"its shape is {list(value.shape)} in the recording and {list(own.shape)} here")
    if own.dtype == value.dtype:
        return ""
    names = dtype_name(value.dtype), dtype_name(own.dtype)
    if not (own.is_floating_point() and value.is_floating_point()):
        raise Refused(f"its dtype is {names[0]} in the recording and {names[1]} here")
    return f"{names[0]} as {names[1]}"


def in_place_of(own: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A new tensor with these values, which lies in memory as the program's own does and has its place in autograd."""
    with no_modes(), recording_suppressed():
        if own.requires_grad and torch.is_grad_enabled():
            made: torch.Tensor = _WithValues.apply(own, value)  # type: ignore[no-untyped-call]
            return made
        with torch.no_grad():
            return _copied(own, value)


def write_into(own: torch.Tensor, value: torch.Tensor) -> None:
    """The values into the program's own tensor: where it was written to in place, others refer to it.

    Unnoticed by autograd: what an operator has saved of its result is then the result.
    """
    with no_modes(), recording_suppressed(), torch.no_grad():
        own.data.copy_(value)


def _copied(own: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    made = _memory_like(own)
    # An axis of stride 0 repeats one value, and PyTorch does not write to one place twice.
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in own.stride())
    try:
        made[once].copy_(value[once])
        if made[once].shape == made.shape or (not _is_capturing(own) and torch.equal(made, value.to(made))):
            return made
    except RuntimeError:  # its elements overlap in some other way
        pass
    return torch.empty(own.shape, dtype=own.dtype, device=own.device).copy_(value)


def _is_capturing(own: torch.Tensor) -> bool:
    return own.is_cuda and torch.cuda.is_current_stream_capturing()


def _memory_like(own: torch.Tensor) -> torch.Tensor:
    """Uninitialised, with the strides of a tensor and as far from an aligned address as that."""
    if own.numel() == 0:
        return torch.empty(own.shape, dtype=own.dtype, device=own.device)
    length = 1 + sum((size - 1) * stride for size, stride in zip(own.shape, own.stride(), strict=True))
    offset = own.data_ptr() % _ALIGNED // own.element_size()
    flat = torch.empty(offset + length, dtype=own.dtype, device=own.device)
    return flat.as_strided(own.shape, own.stride(), offset)
