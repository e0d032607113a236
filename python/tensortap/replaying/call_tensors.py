"""The tensors of a recorded call, as they lay in the program's memory."""

from __future__ import annotations

import torch

from tensortap.reading import Pass
from tensortap.records import TensorRecord, Use
from tensortap.replaying.call_text import CallArguments, UseAt
from tensortap.tensors.dtypes import TORCH_DTYPES

_COMMAND = 'level="full" (ttap run --ops --level full)'


class BytesMissing(LookupError):
    """A tensor whose values are not in the recording; the message says why."""


def argument_tensors(
    recorded: Pass,
    uses: tuple[Use, ...],
    arguments: CallArguments,
    device: torch.device,
    overwrites: bool,
) -> dict[int, torch.Tensor]:
    """The tensors among the arguments by the number of their use; copies, which a call may write to.

    Uses of one tensor object are one tensor here. What stood in an argument that is overwritten does not matter: where
    it was not recorded, it is zeros. Raises BytesMissing.
    """
    tensors: dict[int, torch.Tensor] = {}
    objects: dict[tuple[int, int], torch.Tensor] = {}  # a tensor object may hold other values later in the call

    def load(value: object) -> object:
        if isinstance(value, UseAt):
            use = uses[value.number]
            identity = (-1 - value.number if use.tensor is None else use.tensor, use.record or 0)
            if identity not in objects:
                objects[identity] = _loaded(recorded, use, overwrites).to(device)
            tensors[value.number] = objects[identity]
        return value

    arguments.map(load)
    return tensors


def _loaded(recorded: Pass, use: Use, overwrites: bool) -> torch.Tensor:
    if overwrites and use.written and use.record is not None and not recorded.records[use.record].has_bytes:
        record = recorded.records[use.record]
        if record.dtype in TORCH_DTYPES and not record.group:
            return as_it_lay(torch.zeros(record.shape, dtype=TORCH_DTYPES[record.dtype]), record)
    record = record_of(recorded, use)
    return as_it_lay(recorded[record.key], record)


def record_of(recorded: Pass, use: Use) -> TensorRecord:
    """The record with the values of a use. Raises BytesMissing where there are none."""
    where = f"{'the result' if use.role == 'out' else 'the argument'} {use.path}".rstrip()
    return with_bytes(recorded, None if use.record is None else recorded.records[use.record], where)


def with_bytes(recorded: Pass, record: TensorRecord | None, where: str) -> TensorRecord:
    """The record, which has values. Raises BytesMissing, with `where` in its words."""
    if record is None:
        raise BytesMissing(f"the values of {where} were not recorded")
    if record.group:
        raise BytesMissing(f"{where} is a quantized tensor")
    if not record.has_bytes and record.level == "full":
        raise BytesMissing(f"the bytes of {where} were dropped, or never read: ttap show {record.key}")
    if not record.has_bytes and (why := _why_unread(recorded, record)):
        raise BytesMissing(f"{where} was not read: {why}")
    if not record.has_bytes:
        raise BytesMissing(f"the bytes of {where} were not kept: record with {_COMMAND}")
    return record


def _why_unread(recorded: Pass, record: TensorRecord) -> str:
    """What the call that made a tensor notes of it; empty where it notes nothing."""
    unread = None if record.event is None else recorded._event(record.event).notes.get("unread")
    place = record.path if record.role == "in" else f"{record.role}{record.path}"
    return str(unread.get(place, "")) if isinstance(unread, dict) else ""


def dtype_name(dtype: torch.dtype) -> str:
    """As TensorTap calls it: `bf16`."""
    return next((name for name, each in TORCH_DTYPES.items() if each == dtype), str(dtype))


def as_it_lay(tensor: torch.Tensor | object, record: TensorRecord) -> torch.Tensor:
    """With the strides that it had: some operators round otherwise in another order."""
    if not isinstance(tensor, torch.Tensor):
        raise BytesMissing(f"{record.key} is a quantized tensor")
    return tensor if record.strides is None else laid_out(tensor, record.strides)


def laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same values with these strides; as they are where their places overlap and are no repetition."""
    if tensor.numel() == 0 or strides == tuple(tensor.stride()) or any(stride < 0 for stride in strides):
        return tensor
    length = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    laid = torch.zeros(length, dtype=tensor.dtype, device=tensor.device)
    # An axis of stride 0 repeats one value, and PyTorch does not write to one place twice.
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
    shape = tuple(1 if stride == 0 else size for size, stride in zip(tensor.shape, strides, strict=True))
    try:
        laid.as_strided(shape, strides).copy_(tensor[once])
    except RuntimeError:  # its elements overlap in some other way
        return tensor
    return laid.as_strided(tensor.shape, strides)
