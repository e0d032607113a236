"""Random numbers drawn again: from a generator in the state that the recorded call found it in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from tensortap import _core
from tensortap.reading import Pass
from tensortap.records import EventRecord

_ROLE = "generator"


class StateMissing(LookupError):
    """Random numbers that cannot be drawn again; the message says why."""


def generator_of(recorded: Pass, event: EventRecord, device: torch.device) -> torch.Generator:
    """A generator in the state that the call found its own in. Raises StateMissing."""
    key = _core.key_text(event.name, event.call, _ROLE, "")
    if key not in recorded or not recorded.record(key).has_bytes:
        raise StateMissing("it draws random numbers, and the state of the generator was not recorded")
    state = recorded[key]
    assert isinstance(state, torch.Tensor)
    made = torch.Generator(device)
    try:
        made.set_state(state)
    except (RuntimeError, TypeError) as error:
        raise StateMissing(f"it draws random numbers, and not from a generator of {device}") from error
    return made


def copy_of(generator: torch.Generator) -> torch.Generator:
    """Another one that draws the same."""
    made = torch.Generator(generator.device)
    made.set_state(generator.get_state())
    return made


@contextlib.contextmanager
def default_generator_as(generator: torch.Generator) -> Iterator[None]:
    """Meanwhile the default generator of the device draws what this one would; then it is as it was before."""
    default = _default_of(generator.device)
    before = default.get_state()
    default.set_state(generator.get_state())
    try:
        yield
    finally:
        default.set_state(before)


def _default_of(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
