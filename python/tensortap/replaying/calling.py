"""A recorded call of an operator, to be made again with its recorded arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from tensortap.reading import Pass, pass_of
from tensortap.records import EventRecord, TensorRecord
from tensortap.replaying.call_tensors import BytesMissing, argument_tensors, record_of
from tensortap.replaying.call_text import (
    CallArguments,
    GeneratorArgument,
    UnreadableText,
    UseAt,
    parse_arguments,
)
from tensortap.replaying.double_kernels import Kernel
from tensortap.replaying.operators import (
    OpName,
    UnknownOperator,
    find_operator,
    is_collective,
    is_random,
    leaves_uninitialised,
    overwrites,
)
from tensortap.replaying.random_draws import StateMissing, copy_of, default_generator_as, generator_of
from tensortap.torch_glue.dispatch_modes import no_modes


class Refused(Exception):
    """A call that is not made again; the message is the reason."""


@dataclass(frozen=True)
class Call:
    """A recorded call that can be made again.

    Attributes
    ----------
    arguments
        With `UseAt` where a tensor stands.
    tensors
        The recorded tensors among the arguments, by the number of their use, in the recorded dtype.
    """

    event: EventRecord
    recorded: Pass
    name: OpName
    op: OpOverload[..., Any]
    arguments: CallArguments
    tensors: dict[int, torch.Tensor]
    device: torch.device
    # What it draws random numbers from, as the call found it.
    generator: torch.Generator | None = field(default=None, kw_only=True)

    def made(
        self,
        arguments: CallArguments,
        tensors: dict[int, torch.Tensor],
        kernel: Kernel | None = None,
        differentiable: bool = False,
    ) -> dict[int, torch.Tensor]:
        """Call the operator, or a kernel in its place: what it returned and what it wrote to, by the number of the use.

        With `differentiable` autograd follows it. Raises Refused.
        """

        def real(value: Any) -> Any:
            if isinstance(value, UseAt):
                return tensors[value.number]
            if isinstance(value, GeneratorArgument):
                return torch.Generator(self.device) if self.generator is None else copy_of(self.generator)
            return self.device if isinstance(value, torch.device) and value.type != "meta" else value

        given = arguments.map(real)
        try:
            with no_modes(), torch.set_grad_enabled(differentiable), self._draws():
                returned = (kernel or self.op)(*given.args, **given.kwargs)
        except Exception as error:  # an operator of somebody's may raise anything
            raise Refused(f"the operator refused the call: {first_line(error)}") from error
        found = dict(_returned(parse_arguments(self.event.results), returned))
        for number, use in enumerate(self.event.uses):
            if use.role == "after":
                found[number] = tensors[self._argument_at(use.path)]
        return {number: value for number, value in found.items() if isinstance(value, torch.Tensor)}

    def _draws(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.generator is None else default_generator_as(self.generator)

    def recorded_result(self, number: int) -> tuple[TensorRecord, torch.Tensor | None]:
        """What was recorded of the result of a use; None for a quantized tensor. Raises BytesMissing."""
        record = record_of(self.recorded, self.event.uses[number])
        kept = self.recorded[record.key]
        return record, kept if isinstance(kept, torch.Tensor) else None

    def _argument_at(self, path: str) -> int:
        return next(i for i, use in enumerate(self.event.uses) if use.role == "in" and use.path == path)


def device_of(device: str | torch.device) -> torch.device:
    """The device that is meant. Raises ValueError where there is none."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # the latter of a PyTorch without CUDA
        raise ValueError(f"there is no device {device} here: {first_line(error)}") from error
    return found


def operator_called(event: EventRecord) -> OpName:
    """The operator of a call that may be made again. Raises Refused."""
    if event.kind != "op":
        raise Refused(f"it is a {event.kind}, not an operator of PyTorch's dispatcher")
    if not event.returned:
        raise Refused("it did not return")
    if "dtensor" in event.notes:
        raise Refused("its arguments are spread over several ranks")
    return OpName.of(event.name)


def prepared(event: EventRecord, device: torch.device, *, in_its_dtype: bool = False) -> Call:
    """The call with its tensors; no collective. Raises Refused.

    Random numbers are drawn again `in_its_dtype` only: in another one the same generator gives others.
    """
    recorded = pass_of(event)
    name = operator_called(event)
    if is_collective(name):
        raise Refused("a collective: its result depends on other ranks")
    if leaves_uninitialised(name):
        raise Refused("its result is memory that nothing was written to")
    try:
        op = find_operator(name)
        arguments = parse_arguments(event.arguments)
        generator = None
        if is_random(op) and not _draws_nothing(op, arguments):
            if not in_its_dtype:
                raise Refused("it draws random numbers, which are others in float64")
            generator = generator_of(recorded, event, device)
        tensors = argument_tensors(recorded, event.uses, arguments, device, overwrites(name))
    except (UnknownOperator, UnreadableText, BytesMissing, StateMissing) as error:
        raise Refused(str(error)) from error
    return Call(event, recorded, name, op, arguments, tensors, device, generator=generator)


def _returned(text: CallArguments, value: Any) -> Iterator[tuple[int, Any]]:
    """The tensors of a result by the uses that its text names."""
    shown = text.args[0] if len(text.args) == 1 else text.args
    yield from _paired(shown, value)


def _paired(shown: Any, value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(shown, UseAt):
        yield shown.number, value
    elif isinstance(shown, list | tuple) and isinstance(value, list | tuple) and len(shown) == len(value):
        for each, part in zip(shown, value, strict=True):
            yield from _paired(each, part)


def _draws_nothing(op: OpOverload[..., Any], arguments: CallArguments) -> bool:
    """Whether this is a dropout with a probability of zero, or outside of training."""
    for place, argument in enumerate(op._schema.arguments):
        if argument.name in ("dropout_p", "p", "train", "training"):
            given = arguments.args[place] if place < len(arguments.args) else argument.default_value
            if arguments.kwargs.get(argument.name, given) == 0:  # False, too
                return True
    return False


def first_line(error: Exception) -> str:
    """What an exception says, or else its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
