"""From a tensor in Python's hands to a record: whatever kind of tensor it is, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from tensortap.torch_glue.program_errors import raise_if_of_program

_META = 0  # the level


class TensorPlace(NamedTuple):
    """Where a tensor stands: the event and the names it is known by, and within the event the role and path."""

    event: _core.Event | None
    pass_number: int
    names: Sequence[str]
    role: str
    path: str
    value: int = 0  # by which uses refer to it
    stable: bool = False  # its bytes are not written again when a pass before has them

    def __str__(self) -> str:
        return f"{self.names[0]}@{self.role}{self.path}"


class TensorCapture:
    """Hands the tensors of one recording to its recorder. What cannot be recorded is counted, or raises if `strict`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._live_rows = session.options.live_rows
        self._strict = session.options.core.strict
        self._most_decoded = session.options.core.device_staging_bytes  # of a tensor on a GPU

    def record(self, tensor: torch.Tensor | Group, place: TensorPlace) -> None:
        """One tensor of an event."""
        core = self._session._writer_now().core
        try:
            if isinstance(tensor, Group):
                self._record_parts(core, parts_of_groups({"": tensor}), None, place)
            elif is_plain(tensor):
                if self._live_rows is not None:
                    tensor = self._live_rows.on_host(tensor)
                event, _, _, role, path, value, stable = place
                self._captured(core.capture(event, tensor, role, path, "cpu", value=value, stable=stable))
            elif (stream := stream_of(tensor)) is not None:
                self._capture_gpu(core, tensor, stream, self._rows_of(tensor), place)
            else:
                self._record_parts(core, parts_of(tensor), spread_of(tensor), place)
        except (Unrecordable, RuntimeError, TypeError) as why:
            if self._strict:
                raise
            raise_if_of_program(why)
            reason = str(why).partition("\n")[0]
            if isinstance(tensor, torch.Tensor) and is_of_transform(tensor):
                reason = "a tensor within vmap or grad of torch.func"
            core.count_unsupported(place.names[0], reason, place.pass_number)
            assert self._session._coverage is not None
            self._session._coverage.cannot_record(reason, str(place))

    def _record_parts(self, core: _core.Recorder, parts: Iterable[Part], spread: object, whole: TensorPlace) -> None:
        value = whole.value
        for part in parts:
            path = whole.path
            for step in part.steps:
                path = _core.append_path(path, step)
            place = whole._replace(path=path, value=value)
            event, role, stable = place.event, place.role, place.stable
            if part.note:
                self._say(part.note, whole)
            if part.group is not None:
                self._record_values(core, part, place)
            elif part.stream is not None:
                rows = None if part.of_group else self._rows_of(part.tensor)
                self._capture_gpu(core, part.tensor, part.stream, rows, place)
            elif part.has_bytes:
                self._captured(core.capture(event, part.tensor, role, path, part.device, value=value, stable=stable))
            else:
                self._captured(core.capture_meta(event, part.tensor, role, path, part.device, value=value))
            value = 0  # a use refers to one record: the first part's
            if spread is not None and event is not None:
                keys = [_core.key_text(name, event.call, role, path) for name in place.names]
                self._session._writer_now().placements.note(keys, spread, place.pass_number)

    def _record_values(self, core: _core.Recorder, part: Part, place: TensorPlace) -> None:
        """The values that a group stands for: their fingerprint where they can be decoded, else dtype and shape."""
        group = part.group
        assert group is not None
        if place.event is None or place.event.level == _META:
            self._put_values(core, Values(None, group.description, group.note), part, place)
            return
        # Memory of a GPU is given back when the fingerprint is on the stream: whoever gets it there comes after.
        with values_of(group, raw_memory, self._most_decoded) as values:
            self._put_values(core, values, part, place)

    def _put_values(self, core: _core.Recorder, values: Values, part: Part, place: TensorPlace) -> None:
        assert part.group is not None
        tensor, description, why, gpu = values
        event, _, _, role, path, value, _ = place
        if why and not description and part.group.format is not None and self._strict:
            raise RuntimeError(why)
        if why:
            self._say(why, place)
        if tensor is None:
            error = core.capture_meta(event, part.tensor, role, path, part.device, value=value, group=description)
        elif gpu is None:
            error = core.capture(event, tensor, role, path, part.device, value=value, group=description)
        else:
            error = core.capture_gpu(
                event, tensor, role, path, part.device, gpu.device, gpu.stream, value=value, group=description
            )
        self._captured(error)

    def _say(self, why: str, place: TensorPlace) -> None:
        assert self._session._coverage is not None
        self._session._coverage.only_parts(why, str(place))

    def _rows_of(self, tensor: torch.Tensor) -> object:
        live = self._live_rows
        return live.rows if live is not None and live.limits(tensor) else None

    def _capture_gpu(
        self, core: _core.Recorder, tensor: torch.Tensor, stream: int, rows: object, place: TensorPlace
    ) -> None:
        event, _, _, role, path, value, stable = place
        index = tensor.get_device()
        self._captured(
            core.capture_gpu(
                event, tensor, role, path, f"cuda:{index}", index, stream, rows=rows, value=value, stable=stable
            )
        )

    def _captured(self, error: str | None) -> None:
        # The recorder has counted it.
        if error is not None and self._strict:
            raise RuntimeError(error)
