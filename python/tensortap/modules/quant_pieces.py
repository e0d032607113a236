"""tap.capture_quantized(): a quantized tensor that a program holds in pieces goes into the recording as one group."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import torch

from tensortap import _core
from tensortap.literals import TensorRole
from tensortap.modules.module_source import ModuleSource
from tensortap.quant.formats import NotDecoded, scale_type_of
from tensortap.quant.group import Group
from tensortap.session.passes import SKIPPED
from tensortap.session.tensor_capture import TensorPlace
from tensortap.session.writer import recordings
from tensortap.typed_dicts import FormatFields

if TYPE_CHECKING:
    from typing_extensions import Unpack


def capture_quantized(
    name: str,
    *,
    payload: torch.Tensor,
    scale: torch.Tensor,
    global_scale: torch.Tensor | None = None,
    zero_point: torch.Tensor | None = None,
    format: str | _core.QuantFormat,
    shape: tuple[int, ...] | None = None,
    dtype: torch.dtype | None = None,
    role: TensorRole = "out",
    **fields: Unpack[FormatFields],
) -> None:
    """Records a quantized tensor of which no object knows that its pieces belong together.

    It goes into every recording under way, in the pass that this thread is in; without one it costs nothing. Filter and
    level count for its name. Pieces that make no group are counted, and raise if the recording is strict. In a region
    that torch.compile compiles nothing is recorded.

    Parameters
    ----------
    name
        What it is called; a second one of the name in a pass is `name::call2`.
    payload, scale, global_scale, zero_point
        The pieces. Scales may be padded, or swizzled if `scale_layout="swizzled"` says so.
    format
        The name of a format, or one that was made. By name, the type of the scales is theirs, and there is a global
        scale or zero point if it is given.
    shape
        Of the values; found by the payload unless given.
    dtype
        Of the values; bfloat16 unless given.
    role
        As in the keys of a recording: `out`, `in`, ….
    **fields
        What is different in the format: `block_columns=64`, `stored_transposed=True`.
    """
    if torch.compiler.is_compiling():  # Dynamo cannot follow what comes now
        return
    for recording in recordings():
        if hasattr(recording, "capture_quantized"):
            recording.capture_quantized(
                name,
                role=role,
                payload=payload,
                scale=scale,
                global_scale=global_scale,
                zero_point=zero_point,
                format=format,
                shape=shape,
                dtype=dtype,
                **fields,
            )


def group_from(
    *,
    payload: torch.Tensor,
    scale: torch.Tensor,
    format: str | _core.QuantFormat,
    global_scale: torch.Tensor | None = None,
    zero_point: torch.Tensor | None = None,
    shape: tuple[int, ...] | None = None,
    dtype: torch.dtype | None = None,
    **fields: Any,
) -> Group:
    """A group of these pieces, as capture_quantized() takes them. Raises ValueError for a format that there is not.

    It has no format when no scales are of the type that these are of.
    """
    note = ""
    if isinstance(format, str):
        made = _core.quant_format(format)
        made.source = "capture"
        if scale.dtype != torch.uint8:
            try:
                made.scale_type = scale_type_of(scale.dtype)
            except NotDecoded as why:
                note = str(why)
        if global_scale is None:
            made.global_scale = "none"
        elif made.global_scale == "none":
            made.global_scale = "factor"
        if zero_point is not None and made.zero_point == "none":
            made.zero_point = "value" if zero_point.dtype.is_floating_point else "integer"
    else:
        made = copy.copy(format)
    for field, value in fields.items():
        if not hasattr(made, field):
            raise TypeError(f"a quantized format has no {field!r}")
        setattr(made, field, value)
    parts = {"payload": payload, "scale": scale, "global_scale": global_scale, "zero_point": zero_point}
    shape = tuple(shape) if shape is not None else _shape_of(made, payload)
    return Group(None if note else made, shape, dtype or torch.bfloat16, parts, note=note)


def _shape_of(made: _core.QuantFormat, payload: torch.Tensor) -> tuple[int, ...]:
    """Of the values, when all of the payload is codes."""
    if payload.dim() == 0:
        return ()
    bits = 8
    if made.packing != "none":
        bits = 6 if made.element in ("e2m3", "e3m2") else 4
    last = payload.shape[-1] * payload.element_size() * 8 // bits
    shape = (*payload.shape[:-1], last)
    return (*shape[1:], shape[0]) if made.stored_transposed else shape


def _check_key(name: str, role: str) -> None:
    # What makes no key the recorder only counts: here it is still known whose it is.
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"capture_quantized({name!r}): a name is a text that is not empty and has no NUL")
    if not isinstance(role, str) or not re.fullmatch("[A-Za-z0-9_]+", role):
        raise ValueError(f"capture_quantized({name!r}, role={role!r}): a role is letters, digits and '_'")


def capture_pieces(source: ModuleSource, name: str, role: str, pieces: dict[str, Any]) -> None:
    """For a recording: the pieces as an event of its own, inside the module that is being called."""
    _check_key(name, role)
    number = source.tracker.number_here()
    if number is None:
        source.coverage.note_once(f"{name} was captured outside any pass, and is not recorded")
    if number is None or number == SKIPPED or not source.options.filter.selects_op(name):
        return
    group = group_from(**pieces)
    level = source.options.levels.of_name(name)
    parent = next((call.event for call in reversed(source.tracker.thread.parents) if call.event is not None), None)
    event = source.core.begin_event(name, "capture", number, level, parent, False, source.graph_now())
    source.capture.record(group, TensorPlace(event, number, [name], role, ""))
    source.core.end_event(event)
