"""A step of an engine as one pass of every recording under way, from its scheduling to its sampling."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch import nn

from tensortap.modules.token_batch import Batch
from tensortap.recording import Recording
from tensortap.session.session import sessions_under_way
from tensortap.torch_glue.patching import Patch

if TYPE_CHECKING:
    from typing_extensions import Self

DUMMY = Batch([], {}, {"dummy": True})  # the rows of a step that only warms up


class EngineStep:
    """Begins when it is made; ends once, as a context manager or by `end()`. Nothing of it raises into the engine."""

    def __init__(self) -> None:
        self._open: list[tuple[Recording, int]] = []
        for recording in recordings_under_way():
            recording.guarded(self._begin, recording)

    def _begin(self, recording: Recording) -> None:
        self._open.append((recording, recording.tracker.begin_step()))

    def record_batch(self, batch: Batch) -> None:
        """Says which rows it has."""
        for recording, _ in self._open:
            recording._take_batch(batch)

    def end(self, *, failed: bool = False) -> None:
        """The pass is over; aborted where the step failed."""
        while self._open:
            recording, number = self._open.pop()
            recording.guarded(_end, recording, number, failed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(failed=kind is not None)


def _end(recording: Recording, number: int, failed: bool) -> None:
    recording.tracker.end_step(number, aborted=failed)


def patch_steps(owner: type, makers: Mapping[str, Callable[[Callable[..., Any]], Any]], engine: str) -> None:
    """Wraps methods of an engine's class, and says which of them this version does not have."""
    for name, make in makers.items():
        if hasattr(owner, name):
            Patch(owner, name, make)
        else:
            print(f"tensortap: this {engine} has no {owner.__name__}.{name}: its steps are not known", file=sys.stderr)


def recordings_under_way() -> list[Recording]:
    """Also that of `ttap run`, which else waits for the first call of a module."""
    if (launch := sys.modules.get("tensortap.launch")) is not None:
        launch.begin()
    return [session for session in sessions_under_way() if isinstance(session, Recording)]


def record_weights(model: nn.Module) -> None:
    """The weights of a model as they were loaded, into every recording under way."""
    for recording in recordings_under_way():
        recording.record_weights(model)
