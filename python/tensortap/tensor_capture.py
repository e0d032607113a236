"""From a tensor in Python's hands to a record: whatever kind of tensor it is, wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tensortap import _core
from tensortap.placements import spread_of
from tensortap.snapshot import Unrecordable, is_of_transform, is_plain, parts_of, stream_of

if TYPE_CHECKING:
    from tensortap.session import Session


class TensorCapture:
    """Hands the tensors of one recording to its recorder. What cannot be recorded is counted, or raises if `strict`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._live_rows = session.options.live_rows
        self._strict = session.options.core.strict

    def record(
        self,
        event: _core.Event | None,
        number: int,
        names: Sequence[str],
        tensor: torch.Tensor,
        role: str,
        path: str,
        value: int = 0,
    ) -> None:
        """One tensor of an event of the pass `number`, known by `names`; uses refer to it by `value`."""
        core = self._session._writer_now().core
        try:
            if is_plain(tensor):
                if self._live_rows is not None:
                    tensor = self._live_rows.on_host(tensor)
                self._captured(core.capture(event, tensor, role, path, "cpu", value))
                return
            stream = stream_of(tensor)
            if stream is not None:
                self._captured(self._capture_gpu(core, event, tensor, role, path, stream, value))
                return
            spread = spread_of(tensor)
            for part in parts_of(tensor):
                part_path = path
                for step in part.steps:
                    part_path = _core.append_path(part_path, step)
                if part.stream is not None:
                    self._captured(self._capture_gpu(core, event, part.tensor, role, part_path, part.stream, value))
                else:
                    capture = core.capture if part.has_bytes else core.capture_meta
                    self._captured(capture(event, part.tensor, role, part_path, part.device, value))
                value = 0  # a use refers to one record: the first part's
                if spread is not None and event is not None:
                    keys = [_core.key_text(name, event.call, role, part_path) for name in names]
                    self._session._writer_now().placements.note(keys, spread, number)
        except (Unrecordable, RuntimeError, TypeError) as why:
            if self._strict:
                raise
            reason = str(why).partition("\n")[0]
            if is_of_transform(tensor):
                reason = "a tensor within vmap or grad of torch.func"
            core.count_unsupported(names[0], reason, number)
            assert self._session._coverage is not None
            self._session._coverage.cannot_record(reason, f"{names[0]}@{role}{path}")

    def _capture_gpu(
        self, core: _core.Recorder, event: _core.Event | None, tensor: torch.Tensor, role: str, path: str,
        stream: int, value: int,
    ) -> str | None:  # fmt: skip
        index, live = tensor.get_device(), self._live_rows
        rows = live.rows if live is not None and live.limits(tensor) else None
        return core.capture_gpu(event, tensor, role, path, f"cuda:{index}", index, stream, rows, value)

    def _captured(self, error: str | None) -> None:
        # The recorder has counted it.
        if error is not None and self._strict:
            raise RuntimeError(error)
