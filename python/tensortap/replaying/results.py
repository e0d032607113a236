"""What a replay gives: the call's results beside those that were recorded, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tensortap.records import EventRecord, TensorRecord
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.torch_glue.op_extension import recording_suppressed

if TYPE_CHECKING:
    from tensortap.literals import ParametersFrom, UseRole


@dataclass(frozen=True)
class ReplayedTensor:
    """A result of the call, or an argument that it wrote to.

    Attributes
    ----------
    role, path
        `out` or `after`, and where among results or arguments it is: `/0`.
    value
        What the replay computed.
    recorded
        What was recorded; None where its bytes were not kept.
    record
        The row of the recorded tensor; None where there is none.
    """

    role: UseRole
    path: str
    value: torch.Tensor
    recorded: torch.Tensor | None
    record: TensorRecord | None

    @property
    def same_bits(self) -> bool | None:
        """Whether the replay gave the recorded bits; None where these are not known, or the dtype is another."""
        if self.recorded is None or self.recorded.dtype != self.value.dtype:
            return None
        if self.recorded.shape != self.value.shape:
            return False
        with no_modes(), recording_suppressed():
            return bool(torch.equal(bits_of(self.recorded), bits_of(self.value)))


@dataclass(frozen=True)
class Replayed:
    """A call that was made again.

    Attributes
    ----------
    call
        The recorded call.
    op
        Its operator: `aten::add.Tensor`; of a module its class.
    tensors
        Its results, and the arguments that it wrote to.
    parameters
        Of a module: whether its parameters and buffers are those that were recorded. None of an operator.
    from_model
        The names of those that are the model's.
    """

    call: EventRecord
    op: str
    tensors: tuple[ReplayedTensor, ...]
    parameters: ParametersFrom | None = None
    from_model: tuple[str, ...] = ()

    @property
    def same_bits(self) -> bool | None:
        """Whether every tensor has the recorded bits; None where there is none to compare."""
        known = [each.same_bits for each in self.tensors if each.same_bits is not None]
        return all(known) if known else None


@dataclass(frozen=True)
class NotReplayable:
    """A call that was not made again, and the reason, in one line."""

    call: EventRecord
    op: str
    reason: str


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its bytes, in the order of its elements."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8) if plain.numel() else plain.reshape(-1)
