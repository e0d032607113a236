"""`tap.replay`: a recorded call of an operator, made again from the file alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tensortap.records import EventRecord
from tensortap.replaying.call_tensors import BytesMissing
from tensortap.replaying.calling import Call, Refused, device_of, operator_called, prepared
from tensortap.replaying.collectives import prepared_collective
from tensortap.replaying.double_kernels import kernel_in_double
from tensortap.replaying.operators import OpName, is_collective
from tensortap.replaying.precision import PRECISIONS, NoSuchPrecision, all_in_precision, arguments_in_precision
from tensortap.replaying.results import NotReplayable, Replayed, ReplayedTensor


def replay(
    call: EventRecord, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu"
) -> Replayed | NotReplayable:
    """Make a recorded call of an operator again, from the recording alone.

    The recording needs the bytes of the call's arguments: level "full". A collective is made again from what all its
    ranks gave to it, so it needs the recordings of these, in one run.

        call = next(each for each in tap.open("run").ranks[0].passes[0].events if each.name.endswith("aten::mm"))
        tap.replay(call).same_bits

    Parameters
    ----------
    call
        An event of a pass: one of `Pass.events` or `Trace.events`.
    dtype
        None: the recorded one, which gives the recorded bits on the device where it was recorded; of a collective that
        adds up what more than two ranks gave, only if the backend adds in the same order. torch.float64: every
        floating-point argument in double precision, which gives the exact result. torch.float32, bfloat16 or float16:
        likewise, which shows what the operator would lose or gain in it.
    device
        Where to run it.

    Returns
    -------
    Replayed or NotReplayable
        The results beside the recorded ones; or the reason why there are none.
    """
    if dtype is not None and dtype not in PRECISIONS:
        known = ", ".join(str(each) for each in PRECISIONS)
        raise ValueError(f"dtype is {dtype}: a call is replayed in the recorded dtype (None), or in {known}")
    where = device_of(device)
    name = OpName.of(event_name := call.name)
    try:
        ready = prepared_call(call, where)
        if dtype is None:
            made = ready.made(ready.arguments, ready.tensors)
        else:
            arguments = arguments_in_precision(name, ready.op, ready.arguments, ready.tensors, dtype)
            kernel = kernel_in_double(name) if dtype == torch.float64 else None
            made = ready.made(arguments, all_in_precision(ready.tensors, dtype), kernel)
    except (Refused, NoSuchPrecision) as error:
        return NotReplayable(call, name.op if name.library else event_name, str(error))
    return Replayed(call, name.op, tuple(_beside_recorded(ready, made)))


def _beside_recorded(call: Call, made: dict[int, torch.Tensor]) -> Iterator[ReplayedTensor]:
    for number, value in sorted(made.items()):
        use = call.event.uses[number]
        try:
            record, recorded = call.recorded_result(number)
        except BytesMissing:
            record, recorded = None, None
        yield ReplayedTensor(use.role, use.path, value, recorded, record)


def prepared_call(event: EventRecord, device: torch.device) -> Call:
    """The call with its tensors; a collective with what all ranks gave. Raises Refused."""
    name = operator_called(event)
    return prepared_collective(event, name, device) if is_collective(name) else prepared(event, device)
