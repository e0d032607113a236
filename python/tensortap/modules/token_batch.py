"""tap.batch(): which token of which request each row of a step's tensors belongs to; tap.logprobs(): how likely it is.

A step of a serving engine computes tokens of several requests at once, in rows that no two engines arrange alike. What
is recorded here lets two recordings be compared token by token (docs/serving.md).
"""

from __future__ import annotations

import json
import math
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

BATCH, LOGPROBS = "batch", "logprobs"  # names of events, and their kinds
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
    if thread.number is None:
        thread.batch = batch
        return
    thread.batch = None
    _record_event(source, BATCH, batch)
    if (opened := source.tracker.opened(thread.number)) is not None:
        opened.says_tokens = True


def record_logprobs(source: Source, scored: Batch) -> None:
    """Into the pass that this thread is in; where it is in none, into one of its own."""
    if source.tracker.thread.number is not None:
        _record_event(source, LOGPROBS, scored)
        return
    number = source.tracker.begin_step()
    try:
        _record_event(source, LOGPROBS, scored)
    finally:
        source.tracker.end_step(number, aborted=False)


def _record_event(source: Source, name: str, batch: Batch) -> None:
    thread = source.tracker.thread
    number = thread.number
    # In a CUDA graph that is captured there is nothing to say: each replay computes other tokens.
    if number is None or number == SKIPPED or source.graph_now() != 0:
        return
    calls: list[Call] = thread.parents
    parent = next((call.event for call in reversed(calls) if call.event is not None), None)
    event = source.core.begin_event(name, name, number, _FULL, parent, False, 0)
    for path, tensor in batch.tensors.items():
        role = "out" if path == "logprobs" else "in"
        source.capture.record(tensor, TensorPlace(event, number, [name], role, f"/{path}"))
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
        For each row, its token. Requests of two recordings with the same tokens are the same.
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


def logprobs(
    token_ids: Sequence[torch.Tensor | Sequence[int]],
    values: Sequence[torch.Tensor | Sequence[float]],
    *,
    request_ids: Sequence[str] | None = None,
) -> None:
    """Records how likely the tokens of texts are, for `ttap mismatch`: what an engine returned, or a trainer computed.

    It goes into every recording under way, as a pass of its own unless this thread is in one. `Recording.logprobs` goes
    into that recording only.

    Parameters
    ----------
    token_ids
        For each text all its tokens, those of the prompt first.
    values
        For each text the log-probabilities of its last tokens: as many as were generated.
    request_ids
        Names of the texts. Two recordings may use other names: texts with the same tokens are the same.
    """
    scored = scored_texts(token_ids, values, request_ids)
    for recording in sessions_under_way():
        if hasattr(recording, "_take_logprobs"):
            recording._take_logprobs(scored)


def scored_texts(
    token_ids: Sequence[torch.Tensor | Sequence[int]],
    values: Sequence[torch.Tensor | Sequence[float]],
    request_ids: Sequence[str] | None,
) -> Batch:
    """What logprobs() is given, as packed rows."""
    texts = [torch.as_tensor(text).reshape(-1) for text in token_ids]
    scores = [torch.as_tensor(score).detach().reshape(-1).double() for score in values]
    names = [str(name) for name in request_ids] if request_ids is not None else [str(i) for i in range(len(texts))]
    if not texts or not len(texts) == len(scores) == len(names):
        raise ValueError(f"{len(texts)} texts, {len(scores)} lists of log-probabilities and {len(names)} names")
    for name, text, score in zip(names, texts, scores, strict=True):
        if len(score) > len(text):
            raise ValueError(f"text {name} has {len(text)} tokens and {len(score)} log-probabilities")
    lengths = torch.tensor([len(text) for text in texts])
    unknown = [score.new_full((len(text) - len(score),), math.nan) for text, score in zip(texts, scores, strict=True)]
    return Batch(
        names,
        {
            "token_ids": torch.cat(texts),
            "positions": torch.cat([torch.arange(length) for length in lengths.tolist()]),
            "query_start": torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]),
            "logprobs": torch.cat([part for pair in zip(unknown, scores, strict=True) for part in pair]),
        },
    )
