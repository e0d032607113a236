"""From a tensor in Python's hands to a record: whatever kind of tensor it is, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from tensortap import _core
from tensortap.quant.group import Group
from tensortap.session.session import Session
from tensortap.tensors.placements import spread_of
from tensortap.tensors.quant_on_gpu import raw_memory
from tensortap.tensors.quant_values import Values, values_of
from tensortap.tensors.snapshot import (
    Part,
    Unrecordable,
    is_of_transform,
    is_plain,
    parts_of,
    parts_of_groups,
    stream_of,
)

_META = 0  # the level


class TensorCapture:
    """Hands the tensors of one recording to its recorder. What cannot be recorded is counted, or raises if `strict`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._live_rows = session.options.live_rows
        self._strict = session.options.core.strict
        self._most_decoded = session.options.core.device_staging_bytes  # of a tensor on a GPU

    def record(
        self,
        event: _core.Event | None,
        number: int,
        names: Sequence[str],
        tensor: torch.Tensor | Group,
        role: str,
        path: str,
        value: int = 0,
        *,
        stable: bool = False,
    ) -> None:
        """One tensor of an event of the pass `number`, known by `names`; uses refer to it by `value`.

        The bytes of a `stable` one are not written again when a pass before has them.
        """
        core = self._session._writer_now().core
        try:
            if isinstance(tensor, Group):
                self._record_parts(event, number, names, parts_of_groups({"": tensor}), None, role, path, value, stable)
                return
            if is_plain(tensor):
                if self._live_rows is not None:
                    tensor = self._live_rows.on_host(tensor)
                self._captured(core.capture(event, tensor, role, path, "cpu", value=value, stable=stable))
                return
            stream = stream_of(tensor)
            if stream is not None:
                rows = self._rows_of(tensor)
                self._captured(self._capture_gpu(core, event, tensor, role, path, stream, rows, value, stable=stable))
                return
            self._record_parts(event, number, names, parts_of(tensor), spread_of(tensor), role, path, value, stable)
        except (Unrecordable, RuntimeError, TypeError) as why:
            if self._strict:
                raise
            reason = str(why).partition("\n")[0]
            if isinstance(tensor, torch.Tensor) and is_of_transform(tensor):
                reason = "a tensor within vmap or grad of torch.func"
            core.count_unsupported(names[0], reason, number)
            assert self._session._coverage is not None
            self._session._coverage.cannot_record(reason, f"{names[0]}@{role}{path}")

    def _record_parts(
        self, event: _core.Event | None, number: int, names: Sequence[str], parts: Iterable[Part],
        spread: object, role: str, path: str, value: int, stable: bool,
    ) -> None:  # fmt: skip
        core = self._session._writer_now().core
        for part in parts:
            part_path = path
            for step in part.steps:
                part_path = _core.append_path(part_path, step)
            if part.note:
                self._say(part.note, names, role, path)
            if part.group is not None:
                self._record_values(core, event, part, names, role, part_path, value)
            elif part.stream is not None:
                rows = None if part.of_group else self._rows_of(part.tensor)
                stream = part.stream
                self._captured(
                    self._capture_gpu(core, event, part.tensor, role, part_path, stream, rows, value, stable=stable)
                )
            elif part.has_bytes:
                device = part.device
                self._captured(core.capture(event, part.tensor, role, part_path, device, value=value, stable=stable))
            else:
                self._captured(core.capture_meta(event, part.tensor, role, part_path, part.device, value=value))
            value = 0  # a use refers to one record: the first part's
            if spread is not None and event is not None:
                keys = [_core.key_text(name, event.call, role, part_path) for name in names]
                self._session._writer_now().placements.note(keys, spread, number)

    def _record_values(
        self, core: _core.Recorder, event: _core.Event | None, part: Part, names: Sequence[str], role: str, path: str,
        value: int,
    ) -> None:  # fmt: skip
        """The values that a group stands for: their fingerprint where they can be decoded, else dtype and shape."""
        group = part.group
        assert group is not None
        if event is None or event.level == _META:
            self._put_values(core, event, Values(None, group.description, group.note), part, names, role, path, value)
            return
        # Memory of a GPU is given back when the fingerprint is on the stream: whoever gets it there comes after.
        with values_of(group, raw_memory, self._most_decoded) as values:
            self._put_values(core, event, values, part, names, role, path, value)

    def _put_values(
        self, core: _core.Recorder, event: _core.Event | None, values: Values, part: Part, names: Sequence[str],
        role: str, path: str, value: int,
    ) -> None:  # fmt: skip
        assert part.group is not None
        tensor, description, why, gpu = values
        if why and not description and part.group.format is not None and self._strict:
            raise RuntimeError(why)
        if why:
            self._say(why, names, role, path)
        if tensor is None:
            error = core.capture_meta(event, part.tensor, role, path, part.device, value=value, group=description)
        elif gpu is None:
            error = core.capture(event, tensor, role, path, part.device, value=value, group=description)
        else:
            error = core.capture_gpu(
                event, tensor, role, path, part.device, gpu.device, gpu.stream, value=value, group=description
            )
        self._captured(error)

    def _say(self, why: str, names: Sequence[str], role: str, path: str) -> None:
        assert self._session._coverage is not None
        self._session._coverage.only_parts(why, f"{names[0]}@{role}{path}")

    def _rows_of(self, tensor: torch.Tensor) -> object:
        live = self._live_rows
        return live.rows if live is not None and live.limits(tensor) else None

    def _capture_gpu(
        self, core: _core.Recorder, event: _core.Event | None, tensor: torch.Tensor, role: str, path: str,
        stream: int, rows: object, value: int, *, stable: bool,
    ) -> str | None:  # fmt: skip
        index = tensor.get_device()
        return core.capture_gpu(
            event, tensor, role, path, f"cuda:{index}", index, stream, rows=rows, value=value, stable=stable
        )

    def _captured(self, error: str | None) -> None:
        # The recorder has counted it.
        if error is not None and self._strict:
            raise RuntimeError(error)
