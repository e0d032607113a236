"""One row of a recording: a tensor, a call, a tensor among the arguments of a call."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensortap.literals import DType, EventKind, Level, TensorRole, UseRole
from tensortap.typed_dicts import Stats


@dataclass(frozen=True)
class TensorRecord:
    """What is known of one tensor of a pass, its bytes apart."""

    key: str
    name: str
    call: int
    role: TensorRole
    path: str
    event: int | None
    dtype: DType
    true_dtype: DType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: str
    level: Level
    has_bytes: bool
    byte_count: int
    hash: str | None
    stats: Stats | None
    group: str = ""  # of a quantized tensor: its format and parts as JSON; it has the fingerprint of the values


class Use(NamedTuple):
    """One tensor among the arguments or results of a call.

    Attributes
    ----------
    role
        `in`: as the argument came; `after`: as the call left it, having written to it; `out`: a result.
    path
        The argument's position, or its name where it goes by name: `/0`, `/1/2`, `/out`.
    tensor
        Which tensor object of the pass it was.
    record
        Where in `Pass.records` its value is: a record of the call that made it, or of this call and role `in` when it
        came from outside. None when the value was not recorded, or was dropped.
    written
        Whether the call writes to this argument.
    """

    role: UseRole
    path: str
    tensor: int | None
    record: int | None
    written: bool


@dataclass(frozen=True)
class EventRecord:
    """One call of one operator.

    Attributes
    ----------
    name, kind, call
        Which operator, of what sort (`module`, `op`, `kernel`, …), and the how-manieth call of it in the pass.
    parent
        Where in `Pass.events` the call around it is.
    thread, time_ns, stack
        Where and when it began; `stack` has one frame per line, the innermost last.
    returned
        Whether the end of the call was recorded. What follows is known only then, and only of sources that tell it.
    duration_ns
        From its begin to its end.
    arguments, results
        As text: literals as Python writes them, `%N` for `uses[N]`, `%%` for a percent sign.
    notes
        What else the source says of it: what a hook returned, placements, why a tensor has no bytes.
    forward
        Of an op of the backward: where in `Pass.events` the op is that it differentiates.
    uses
        The tensors among arguments and results, in this order.
    """

    name: str
    kind: EventKind
    call: int
    parent: int | None
    thread: int
    time_ns: int
    stack: str
    arguments: str = ""
    results: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    forward: int | None = None
    duration_ns: int = 0
    returned: bool = False
    uses: tuple[Use, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Its pass is an open file, which is not copied along.
        return {name: value for name, value in vars(self).items() if name != "_pass"}


def notes_of(text: str) -> dict[str, Any]:
    """The notes of a call, from the JSON that its file holds."""
    try:
        notes = json.loads(text or "{}")
    except (ValueError, RecursionError):
        notes = None
    # A file may say anything; what is no object is shown as it is.
    return notes if isinstance(notes, dict) else {"text": text}
