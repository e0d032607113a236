"""tap.batch(): which token of which request each row of a step's tensors belongs to.

A step of a serving engine computes tokens of several requests at once, in rows that no two engines arrange alike. What
is recorded here lets two recordings be compared token by token (docs/serving.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from tensortap import _core
from tensortap.session.passes import SKIPPED, PassTracker
from tensortap.session.session import sessions_under_way
from tensortap.session.tensor_capture import TensorCapture, TensorPlace

if TYPE_CHECKING:
    from tensortap.modules.taps import Call

NAME = "batch"  # of the event, and its kind
_FULL = 3  # the level


@dataclass
class Batch:
    """The rows of a step. Tensors are recorded as they are; nothing here waits for a GPU."""

    request_ids: Sequence[str]
    # `token_ids`, `positions`, and for packed rows `query_start`, for rows by request `attention_mask`.
    tensors: dict[str, torch.Tensor]
    notes: dict[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """What recording a batch asks of the module source."""

    tracker: PassTracker
    capture: TensorCapture

    @property
    def core(self) -> _core.Recorder:
        """The recorder of this process."""

    def graph_now(self) -> int:
        """The recorder's taps in the CUDA graph that is captured on the current stream; 0 when none is."""


def record_batch(source: Source, batch: Batch) -> None:
    """Into the pass that this thread is in; where it is in none, into the one that it begins next."""
    thread = source.tracker.thread
    number = thread.number
    if number is None:
        thread.batch = batch
        return
    thread.batch = None
    # In a CUDA graph that is captured there is nothing to say: each replay computes other tokens.
    if number == SKIPPED or source.graph_now() != 0:
        return
    calls: list[Call] = thread.parents
    parent = next((call.event for call in reversed(calls) if call.event is not None), None)
    event = source.core.begin_event(NAME, NAME, number, _FULL, parent, False, 0)
    for name, tensor in batch.tensors.items():
        source.capture.record(tensor, TensorPlace(event, number, [NAME], "in", f"/{name}"))
    notes = json.dumps({"request_ids": list(batch.request_ids)} | batch.notes)
    source.core.end_event(event, _core.CallTexts(notes=notes))


def batch(
    *,
    request_ids: Sequence[str],
    positions: torch.Tensor,
    query_start: torch.Tensor | Sequence[int],
    token_ids: torch.Tensor | None = None,
    logits_rows: torch.Tensor | Sequence[int] | None = None,
    dummy: bool = False,
) -> None:
    """Says which tokens the next forward computes. Call it once per step, before the model is called.

    It goes into every recording under way: into the pass that this thread is in, else into the next one that it begins.
    Without a recording it costs nothing.

    Parameters
    ----------
    request_ids
        The requests of the step, in the order of their rows.
    positions
        For each row, the place of its token in its request, counted from 0. Rows beyond the last request's are padding.
    query_start
        Where the rows of each request begin, and after the last where they end: `[0, 9, 14]` for 9 and 5 tokens.
    token_ids
        For each row, its token. Requests of two recordings are told to be the same by these.
    logits_rows
        Which rows have logits; the last one of each request unless given.
    dummy
        The step only warms up: it is never compared, and nothing in it counts as wrong.
    """
    if torch.compiler.is_compiling():
        return
    made: Batch | None = None
    for recording in sessions_under_way():
        if not hasattr(recording, "_take_batch"):
            continue
        if made is None:
            tensors = {"positions": positions, "query_start": torch.as_tensor(query_start)}
            if token_ids is not None:
                tensors["token_ids"] = token_ids
            if logits_rows is not None:
                tensors["logits_rows"] = torch.as_tensor(logits_rows)
            made = Batch([str(each) for each in request_ids], tensors, {"dummy": True} if dummy else {})
        recording._take_batch(made)
