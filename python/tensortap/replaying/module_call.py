"""A recorded call of a module, made again with a model that is here and the values that were recorded."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tensortap import _core, reading
from tensortap.reading import Pass, pass_of
from tensortap.records import EventRecord, TensorRecord
from tensortap.replaying.call_tensors import BytesMissing, as_it_lay, with_bytes
from tensortap.replaying.call_text import CallArguments, GeneratorArgument, UnreadableText, UseAt, parse_arguments
from tensortap.replaying.calling import Refused, first_line
from tensortap.replaying.exact_casts import CastsAreExact
from tensortap.replaying.find_module import Models, find_module, modules_of, refuse_other_class
from tensortap.replaying.module_copy import copied
from tensortap.replaying.module_values import recorded_values
from tensortap.replaying.precision import NoSuchPrecision, all_in_precision, counterpart
from tensortap.replaying.results import NotReplayable, Replayed, ReplayedTensor
from tensortap.tensors.dtypes import TORCH_DTYPES
from tensortap.tensors.nested import tensors_in
from tensortap.torch_glue.own_calls import own_calls

if TYPE_CHECKING:
    from tensortap.literals import ParametersFrom

HOW_TO_RECORD = 'roles="in,out,param", level="full" (ttap run --roles in,out,param --level full)'


@dataclass(frozen=True)
class _Called:
    """The note `call` of an event: arguments, and the modes that the call was made in."""

    arguments: CallArguments
    inputs: tuple[str, ...]  # paths of the tensors among them, by the numbers of `UseAt`
    training: bool
    grad: bool
    autocast: torch.dtype | None

    @staticmethod
    def of(event: EventRecord) -> _Called:
        """Raises Refused where it was not kept, or cannot be made again."""
        if event.kind != "module":
            raise Refused(f"it is a {event.kind}: of calls that are done again no arguments are kept")
        note = event.notes.get("call")
        if not isinstance(note, dict) or not isinstance(note.get("arguments"), str):
            raise Refused(f"its arguments were not recorded, or it did not return: record with {HOW_TO_RECORD}")
        try:
            arguments = parse_arguments(note["arguments"])
        except UnreadableText as error:
            raise Refused(str(error).replace("an argument is", f"the argument {error.argument} is", 1)) from error
        inputs = tuple(map(str, paths)) if isinstance(paths := note.get("inputs"), list) else ()
        autocast = TORCH_DTYPES.get(str(note.get("autocast")))
        return _Called(arguments, inputs, bool(note.get("training")), bool(note.get("grad")), autocast)


def replay_module(
    event: EventRecord, model: Models, dtype: torch.dtype | None, device: torch.device
) -> Replayed | NotReplayable:
    """The call of a module made again: in its own dtype, or with all that it is made of in another."""
    recorded = pass_of(event)
    try:
        entries = modules_of(model)
        module = find_module(entries, event.name)
        called = _Called.of(event)
        rank = reading.open(recorded.path.parent).ranks[0]
        refuse_other_class(module, event.name, rank)
        index = _index_of(event, recorded)
        with _unseen(device):
            values = recorded_values(event, index, recorded, rank, module, entries)
            made = copied(module, values, device, dtype)
            if made.training != called.training:
                made.train(called.training)
            tensors = dict(_inputs(event, recorded, called, device))
            if dtype is not None:
                tensors = all_in_precision(tensors, dtype)
            results = _results(made, called, tensors, dtype, device)
            beside = tuple(_beside_recorded(event, recorded, results))
    except (Refused, BytesMissing, NoSuchPrecision) as error:
        return NotReplayable(event, event.name, str(error))
    return Replayed(event, type(module).__name__, beside, *_parameters_from(module, values))


def _index_of(event: EventRecord, recorded: Pass) -> int:
    wanted = (event.kind, event.name, event.call)
    for index, each in enumerate(recorded.events):
        if (each.kind, each.name, each.call) == wanted:
            return index
    raise Refused(f"{event.name} is not in its pass")


def _inputs(
    event: EventRecord, recorded: Pass, called: _Called, device: torch.device
) -> Iterator[tuple[int, torch.Tensor]]:
    for number, path in enumerate(called.inputs):
        key = _core.key_text(event.name, event.call, "in", path)
        if key not in recorded:
            raise BytesMissing(f"the values of the argument {path} were not recorded")
        record = with_bytes(recorded, recorded.record(key), f"the argument {path}")
        yield number, as_it_lay(recorded[key], record).to(device)


def _results(
    module: nn.Module,
    called: _Called,
    tensors: dict[int, torch.Tensor],
    dtype: torch.dtype | None,
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """What the module returns, by path. Raises Refused, also for a module that draws random numbers."""

    def real(value: Any) -> Any:
        if isinstance(value, UseAt):
            if value.number not in tensors:
                raise Refused(f"there is no tensor %{value.number}")  # in a file that says so
            return tensors[value.number]
        if isinstance(value, GeneratorArgument):  # a Python generator has that text, too
            raise Refused("an argument is a generator, which has no text")
        if isinstance(value, torch.dtype) and dtype == torch.float64:
            return counterpart(value, dtype)
        return device if isinstance(value, torch.device) and value.type != "meta" else value

    given = called.arguments.map(real)
    before = _random_state(device)
    try:
        with _modes_of(called, dtype, device):
            returned = module(*given.args, **given.kwargs)
    except NoSuchPrecision:
        raise
    except Exception as error:  # a module of the program's may raise anything
        raise Refused(f"the module raised {type(error).__name__}: {first_line(error)}") from error
    if not _same_state(before, _random_state(device)):
        raise Refused(
            "it draws random numbers, as dropout does in training, and the state of the generator is not recorded"
        )
    return {path: tensor.detach() for path, tensor in tensors_in(returned, {})}


@contextlib.contextmanager
def _unseen(device: torch.device) -> Iterator[None]:
    """No recording sees the modules that are called, and random generators are left as they are."""
    devices = [device] if device.type == "cuda" else []
    state = random.getstate()
    with own_calls(), torch.inference_mode(False), torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(state)


@contextlib.contextmanager
def _modes_of(called: _Called, dtype: torch.dtype | None, device: torch.device) -> Iterator[None]:
    """Those that the call was recorded in; in another dtype without autocast, which would choose its own."""
    autocast = called.autocast if dtype is None else None
    with contextlib.ExitStack() as modes:
        modes.enter_context(torch.set_grad_enabled(called.grad))
        for kind in {"cpu", device.type}:
            modes.enter_context(torch.autocast(kind, dtype=autocast, enabled=autocast is not None))
        if dtype == torch.float64:
            modes.enter_context(CastsAreExact())
        yield


def _random_state(device: torch.device) -> tuple[torch.Tensor, Any, Any]:
    of_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), of_device, random.getstate()


def _same_state(one: tuple[torch.Tensor, Any, Any], other: tuple[torch.Tensor, Any, Any]) -> bool:
    same = torch.equal(one[0], other[0]) and one[2] == other[2]
    return same and (one[1] is None or torch.equal(one[1], other[1]))


def _beside_recorded(event: EventRecord, recorded: Pass, results: dict[str, torch.Tensor]) -> Iterator[ReplayedTensor]:
    for each in recorded.records:
        known = (each.name, each.call, each.role) == (event.name, event.call, "out")
        if known and not any(each.path == path or each.path.startswith(f"{path}/") for path in results):
            raise Refused(f"the result {each.path} was recorded, and the module here does not give it")
    for path, value in results.items():
        key = _core.key_text(event.name, event.call, "out", path)
        record = recorded.record(key) if key in recorded else None
        if record is not None and record.shape != tuple(value.shape):
            raise Refused(
                f"{key} is {list(value.shape)} here and {list(record.shape)} in the recording: it is another model"
            )
        has_bytes = record is not None and record.has_bytes and not record.group
        kept = recorded[key] if has_bytes else None
        yield ReplayedTensor("out", path, value, kept if isinstance(kept, torch.Tensor) else None, record)


def _parameters_from(module: nn.Module, values: dict[int, torch.Tensor]) -> tuple[ParametersFrom, tuple[str, ...]]:
    """Where its parameters and buffers are from, and the names of those that are the model's."""
    held = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    own = tuple(name for name, tensor in held if id(tensor) not in values)
    if not held:
        return "none", ()
    return "recorded" if not own else "of the model" if len(own) == len(held) else "partly recorded", own


def module_text(recorded: Pass, event: EventRecord) -> str:
    """The arguments of a module's call, with dtype and shape in place of each tensor."""
    called = _Called.of(event)

    def described(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        number = int(found[1])
        path = called.inputs[number] if number < len(called.inputs) else ""
        key = _core.key_text(event.name, event.call, "in", path)
        return _type_text(recorded.record(key)) if key in recorded else "?"

    return re.sub(r"%(?:%|(\d+))", described, event.notes["call"]["arguments"])


def _type_text(record: TensorRecord) -> str:
    return f"{record.dtype}{list(record.shape)}"
