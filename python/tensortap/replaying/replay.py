"""`tap.replay`: a recorded call, made again: of an operator from the recording alone, of a module with its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from tensortap.reading import pass_of
from tensortap.records import EventRecord
from tensortap.replaying.call_tensors import BytesMissing
from tensortap.replaying.calling import Call, Refused, device_of, operator_called, prepared
from tensortap.replaying.collectives import prepared_collective
from tensortap.replaying.double_kernels import kernel_in_double
from tensortap.replaying.module_call import HOW_TO_RECORD, replay_module
from tensortap.replaying.operators import OpName, is_collective
from tensortap.replaying.precision import PRECISIONS, NoSuchPrecision, all_in_precision, arguments_in_precision
from tensortap.replaying.results import NotReplayable, Replayed, ReplayedTensor
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.torch_glue.op_extension import recording_suppressed


def replay(
    call: EventRecord,
    *,
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> Replayed | NotReplayable:
    """Make a recorded call again: of an operator from the recording alone, of a module with its model.

    The recording needs the bytes of the call's arguments: level "full", for modules with the roles "in", "out" and
    "param". A collective is made again from what all its ranks gave to it, so it needs the recordings of these, in one
    run.

        call = next(each for each in tap.open("run").ranks[0].passes[0].events if each.name.endswith("aten::mm"))
        tap.replay(call).same_bits

    Parameters
    ----------
    call
        An event of a pass: one of `Pass.events` or `Trace.events`.
    model
        For the call of a module: the model that has it, or several by the names that the recording gives them. A copy
        of the module is called, with the parameters and buffers that were recorded and its own in place of others.
    dtype
        None: the recorded one, which gives the recorded bits on the device where it was recorded; of a collective that
        adds up what more than two ranks gave, only if the backend adds in the same order. torch.float64: every
        floating-point argument in double precision, which gives the exact result. torch.float32, bfloat16 or float16:
        likewise, which shows what the operator would lose or gain in it. Of a module the parameters and buffers, too;
        what it casts by itself is cast, except in float64.
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
    with no_modes(), recording_suppressed():  # a recording that is under way does not see it
        where = device_of(device)
        if call.kind not in ("module", "recompute"):
            return _replay_operator(call, dtype, where)
        if model is not None:
            return replay_module(call, model, dtype, where)
    pass_of(call)  # raises for an event of no pass
    return NotReplayable(call, call.name, f"it is a module: give its model, as recorded with {HOW_TO_RECORD}; "
                         "or replay its operators, recorded with ops=True (ttap run --ops --level full)")  # fmt: skip


def prepared_call(event: EventRecord, device: torch.device, *, in_its_dtype: bool = False) -> Call:
    """The call of an operator with its tensors; a collective with what all ranks gave. Raises Refused."""
    name = operator_called(event)
    if is_collective(name):
        return prepared_collective(event, name, device)
    return prepared(event, device, in_its_dtype=in_its_dtype)


def _replay_operator(call: EventRecord, dtype: torch.dtype | None, where: torch.device) -> Replayed | NotReplayable:
    name = OpName.of(event_name := call.name)
    try:
        ready = prepared_call(call, where, in_its_dtype=dtype is None)
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
