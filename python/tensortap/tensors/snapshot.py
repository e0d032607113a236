"""From any tensor to strided ones that the recorder can copy, or the reason why there is none."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

import tensortap.tensors.dtypes  # noqa: F401  # registers PyTorch's dtypes
from tensortap import _core
from tensortap.quant.group import Group
from tensortap.quant.libraries.recognise import groups_of
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.torch_glue.op_extension import recording_suppressed
from tensortap.torch_glue.program_errors import raise_if_of_program

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


@dataclass(frozen=True)
class Part:
    """A tensor to record: the whole of a tensor, or with a step into it a part of one."""

    tensor: torch.Tensor  # strided, unless it has no bytes; on the CPU, unless it has a stream
    device: str
    steps: tuple[str, ...] = ()
    has_bytes: bool = True
    stream: int | None = None  # of a GPU: the recorder takes it from there
    group: Group | None = None  # set: it stands for the values of a quantized tensor, whose parts come after it
    of_group: bool = False  # one of those parts
    note: str = ""  # what is to be said of the tensor: why it is recorded as its parts only


class Unrecordable(Exception):
    """A tensor that cannot be read; says why."""


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the recorder can copy this tensor as it is: the common case on the CPU."""
    return tensor.is_cpu and is_bytes(tensor)


def stream_of(tensor: torch.Tensor) -> int | None:
    """The stream on which the recorder can take this tensor as it is: the common case on a GPU. None for any other.

    It is the current one, where the model's next operation would read the tensor, too. When the tensor is freed,
    PyTorch's allocator gives its memory out again on the same stream only, and there the recorder's kernel comes first.
    """
    if not tensor.is_cuda or not is_bytes(tensor) or not _reads_gpus():
        return None
    return torch._C._cuda_getCurrentRawStream(tensor.get_device())


def is_bytes(tensor: torch.Tensor) -> bool:
    """Whether its memory holds its values, by shape and strides."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_quantized
    )


@functools.cache  # asked when there is a CUDA tensor: before that, a process may still fork
def _reads_gpus() -> bool:
    return _core.cuda_available()


def is_of_transform(tensor: torch.Tensor) -> bool:
    """Whether torch.func works on it, under vmap or grad: it stands for another tensor, and has no memory."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def parts_of(tensor: torch.Tensor) -> Iterator[Part]:
    """What to record of a tensor that is not plain. Raises Unrecordable."""
    if is_fake(tensor) or tensor.device.type == "meta":
        yield Part(tensor, str(tensor.device), has_bytes=False)
    elif (arrived := _arrived(tensor)) is not None:
        yield from _whole(arrived)
    elif (groups := known_groups(tensor)) is not None:
        yield from parts_of_groups(groups)
    elif (names := _inner_names(tensor)) is not None:
        note = "" if _is_known(tensor) else f"{type(tensor).__name__}, whose format is not known"
        for name in names:
            inner = getattr(tensor, name)
            if isinstance(inner, torch.Tensor):
                for part in _below(inner, name):
                    yield replace(part, note=part.note or note)
                    note = ""
    elif tensor.layout in _SPARSE_PARTS:
        for method in _SPARSE_PARTS[tensor.layout]:
            yield from _below(getattr(tensor, method)(), method.strip("_"))
    elif tensor.is_quantized:
        raise Unrecordable("a quantized tensor of torch.ao")
    elif tensor.is_nested:
        raise Unrecordable("a nested tensor of strided layout")
    else:
        yield Part(_on_host(tensor), str(tensor.device))


def parts_of_groups(groups: dict[str, Group]) -> Iterator[Part]:
    """What to record of a quantized tensor: of each of its groups the values, then payload, scale and the rest."""
    for step, group in groups.items():
        steps = (step,) if step else ()
        with no_modes(), recording_suppressed():
            values = torch.empty(group.shape, dtype=group.dtype, device="meta")
        device = str(next(iter(group.parts().values())).device)
        yield Part(values, device, steps, has_bytes=False, group=group)
        for name, member in group.parts().items():
            for part in _below(member, name):
                yield replace(part, steps=(*steps, *part.steps), of_group=True)


def known_groups(tensor: torch.Tensor) -> dict[str, Group] | None:
    """The groups of a quantized tensor, whatever state it is in; None for any other."""
    if type(tensor) in _PLAIN:
        return None
    try:
        return groups_of(tensor) or None
    except Exception as error:  # it looks like one and is not: it is recorded like any other subclass
        raise_if_of_program(error)
        return None


def _is_known(tensor: torch.Tensor) -> bool:
    """Of a wrapper subclass: its inner tensors are all there is to say."""
    return hasattr(tensor, "_local_tensor") or tensor.is_nested


def _whole(tensor: torch.Tensor) -> Iterator[Part]:
    if is_plain(tensor):
        yield Part(tensor, "cpu")
    elif (stream := stream_of(tensor)) is not None:
        yield Part(tensor, str(tensor.device), stream=stream)
    else:
        yield from parts_of(tensor)


def _below(inner: torch.Tensor, step: str) -> Iterator[Part]:
    for part in _whole(inner):
        yield replace(part, steps=(step, *part.steps))


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether it is a FakeTensor, which has no bytes."""
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    return fake is not None and isinstance(tensor, fake.FakeTensor)


def _arrived(tensor: torch.Tensor) -> torch.Tensor | None:
    """The result of a collective that may still be under way, when it is there; None for any other tensor."""
    functional = sys.modules.get("torch.distributed._functional_collectives")
    if functional is None or not isinstance(tensor, functional.AsyncCollectiveTensor):
        return None
    with no_modes():
        return tensor.trigger_wait()


def _inner_names(tensor: torch.Tensor) -> list[str] | None:
    """The tensors a wrapper subclass consists of; a DTensor is its local one."""
    if type(tensor) in _PLAIN or not hasattr(tensor, "__tensor_flatten__"):
        return None
    if hasattr(tensor, "_local_tensor"):
        return ["_local_tensor"]
    return list(tensor.__tensor_flatten__()[0])


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A strided CPU tensor with the same values; a copy unless it is one already."""
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise Unrecordable("a CUDA tensor while a graph is captured")
    with no_modes(), torch.no_grad():
        tensor = tensor.detach()
        if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
            tensor = tensor.to_dense()
        if tensor.layout is not torch.strided:
            raise Unrecordable(f"a tensor of layout {tensor.layout}")
        if not tensor.is_cpu:
            tensor = tensor.cpu()
        return tensor.resolve_conj().resolve_neg()
