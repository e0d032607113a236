"""What a trace saw, as tests want to read it."""

from __future__ import annotations

import re

import torch
from tensortap.records import EventRecord, Use
from tensortap.tracing import Trace

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}


def names(trace: Trace, kind: str | None = "op") -> list[str]:
    """The names of the calls; of operators unless another kind is asked for (None: all)."""
    return [event.name for event in trace.events if kind in (None, event.kind)]


def ops(trace: Trace) -> list[str]:
    """The operators of PyTorch, without module and direction."""
    return ["aten::" + name.rpartition("aten::")[2] for name in names(trace)]


def only(trace: Trace, name: str) -> EventRecord:
    """The one call of this name."""
    (found,) = (event for event in trace.events if event.name == name)
    return found


def uses(event: EventRecord, role: str) -> list[Use]:
    return [use for use in event.uses if use.role == role]


def lines(trace: Trace) -> list[str]:
    """Each call in a line: what it is, arguments and results with the hashes of their tensors.

    What a call writes to may be memory that nobody has written to before, so its hash is left out.
    """
    run = trace.recorded
    records = run.records

    def line(event: EventRecord) -> str:
        def of_use(found: re.Match[str]) -> str:
            use = event.uses[int(found[1])]
            if use.record is None or use.written:
                return "?"
            known = records[use.record]
            return f"{known.dtype}{list(known.shape)}#{known.hash}"

        left = ", ".join(f"%{i}" for i, use in enumerate(event.uses) if use.role == "after")
        text = [re.sub(r"%(\d+)", of_use, each) for each in (event.arguments, event.results or left)]
        return f"{event.kind} {event.name}({text[0]}) -> {text[1]}"

    return [line(event) for event in run.events]


def bits(tensor: torch.Tensor) -> list[int]:
    """A tensor's bits, so that NaN equals itself and -0 does not equal 0."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(BITS[flat.element_size()]).tolist()
