"""What is said of a group's values when it is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch

from tensortap import _core
from tensortap.quant.group import Group
from tensortap.tensors.quant_on_gpu import Gpu, RawTensor, Room, decode_on_gpu, gpu_of, why_not_on_gpu
from tensortap.tensors.snapshot import is_plain
from tensortap.torch_glue.op_extension import recording_suppressed


class Values(NamedTuple):
    """The values of a group, or why there are none."""

    tensor: torch.Tensor | RawTensor | None
    description: str  # of the group; empty when it is none
    why: str = ""  # they were not decoded
    gpu: Gpu | None = None  # that decodes them; None: the host has


@contextlib.contextmanager
def values_of(group: Group, room: Room, most_on_gpu: int) -> Iterator[Values]:
    """The values, if they can be decoded where the parts are, and are the tensor's.

    Nothing is copied from a GPU: the program would have to wait. They are decoded on it, into memory that `room` gives
    for as long as this lasts, if they have no more bytes than `most_on_gpu`.
    """
    why, parts = why_not_the_values(group), list(group.parts().values())
    if why:
        yield Values(None, group.description, why)
    elif all(is_plain(part) for part in parts):
        yield _decoded_on_host(group)
    elif (gpu := gpu_of(parts)) is None:
        yield Values(None, group.description, why_not_here(parts))
    else:
        with contextlib.ExitStack() as held:
            yield _decoded_on_gpu(group, gpu, room, most_on_gpu, held)


def why_not_the_values(group: Group) -> str:
    """Why a group is not decoded, wherever it is; empty when it can be."""
    if group.note or group.format is None:
        return group.note or "its format is not known"
    return "rotated before it was quantized" if group.format.rotated else ""


def why_not_here(parts: list[torch.Tensor]) -> str:
    """Why these parts, which are neither all in the host's memory nor all in that of one GPU, are not decoded."""
    devices = list(dict.fromkeys(str(part.device) for part in parts))
    if len(devices) > 1:
        return f"its parts are on {' and '.join(devices)}, and are decoded only where all of them are"
    return "its parts are not in the host's memory, where they are decoded"


def _decoded_on_host(group: Group) -> Values:
    try:
        with recording_suppressed():
            return Values(group.decoded(), group.description)
    except ValueError as error:  # what the tensor says of itself is not so
        return Values(None, "", _first_line(error))


def _decoded_on_gpu(group: Group, gpu: Gpu, room: Room, most: int, held: contextlib.ExitStack) -> Values:
    if why := why_not_on_gpu(group, gpu, most):
        return Values(None, group.description, why)
    try:
        out = held.enter_context(room(group.shape, group.values_dtype, gpu))
    except RuntimeError as error:
        return Values(None, group.description, why_no_room(error, gpu))
    try:
        decode_on_gpu(group, gpu, out)
    except (_core.FormatError, OSError) as error:  # the group is sound; a GPU cannot read it, or does nothing any more
        return Values(None, group.description, _first_line(error))
    except ValueError as error:
        return Values(None, "", _first_line(error))
    return Values(out, group.description, "", gpu)


def why_no_room(error: RuntimeError, gpu: Gpu) -> str:
    """What is said when PyTorch's allocator gave no memory. How much it had left is different each time."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return f"there was no memory on cuda:{gpu.device} to decode it"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
