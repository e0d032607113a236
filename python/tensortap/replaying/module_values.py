"""The parameters and buffers of a module as they were at a recorded call.

They are recorded when they have changed, before the first call that sees it: in this pass or an earlier one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tensortap import _core
from tensortap.reading import Pass, Rank
from tensortap.records import EventRecord
from tensortap.replaying.call_tensors import BytesMissing, as_it_lay, dtype_name, with_bytes
from tensortap.replaying.calling import Refused
from tensortap.torch_glue.module_names import NamedModule

_Names = dict[int, list[str]]  # of modules, by their ids
_Place = tuple[str, str]  # name of the module and path
_Row = tuple[int, str]  # event and key


@dataclass(frozen=True)
class _Found:
    file: Path
    key: str
    order: tuple[int, int, int]  # the larger, the better


def recorded_values(
    event: EventRecord, index: int, recorded: Pass, rank: Rank, module: nn.Module, entries: list[NamedModule]
) -> dict[int, torch.Tensor]:
    """What the recording has of the module's own tensors and of those inside, by the ids of the model's.

    Raises Refused for tensors of another shape.
    """
    names = {id(entry.module): entry.names for entry in entries}
    wanted: dict[_Place, torch.Tensor] = {}
    for each in module.modules():
        for own, tensor in {**each._parameters, **each._buffers}.items():
            if tensor is not None:
                wanted |= {(name, _core.append_path("", own)): tensor for name in names.get(id(each), [])}
    found: dict[int, _Found] = {}

    def take(file: Path, place: _Place, row: _Row, order: tuple[int, int, int]) -> None:
        tensor = wanted[place]
        if id(tensor) not in found or found[id(tensor)].order < order:
            found[id(tensor)] = _Found(file, row[1], order)

    inside = _inside(recorded, index)
    for place, rows in _rows_of_file(recorded.path).items():
        for row in rows if place in wanted else ():
            if row[0] in inside:
                take(recorded.path, place, row, (1, 0, -row[0]))  # as it was at the first call inside
            elif row[0] < index:
                take(recorded.path, place, row, (0, recorded.number, row[0]))
    earlier = sorted((number, file) for number, file in zip(rank.passes, rank.passes.paths, strict=True))
    for number, file in reversed(earlier):
        if number >= recorded.number:
            continue
        if all(id(tensor) in found for tensor in wanted.values()):
            break
        for place, rows in _rows_of_file(file).items():
            if place in wanted and rows:
                take(file, place, rows[-1], (0, number, rows[-1][0]))
    return dict(_loaded(found, wanted, recorded, rank.placements))


def _loaded(
    found: dict[int, _Found], wanted: dict[_Place, torch.Tensor], recorded: Pass, placements: dict[str, Any]
) -> Iterator[tuple[int, torch.Tensor]]:
    files = {recorded.path: recorded}
    of_model = {id(tensor): tensor for tensor in wanted.values()}
    for tensor, where in found.items():
        if where.file not in files:
            files[where.file] = Pass(where.file)
        if where.key in placements:
            raise Refused(f"{where.key} is spread over several ranks")
        kept = files[where.file]
        try:
            record = with_bytes(kept, kept.record(where.key), where.key)
            value = as_it_lay(kept[where.key], record)
        except BytesMissing:  # a quantized one, or one of which only a fingerprint was kept
            continue
        if record.shape != tuple(of_model[tensor].shape):
            raise Refused(
                f"{where.key} is {record.dtype}{list(record.shape)} in the recording and"
                f" {dtype_name(of_model[tensor].dtype)}{list(of_model[tensor].shape)} in the model: it is another model"
            )
        yield tensor, value


def _inside(recorded: Pass, index: int) -> set[int]:
    """The call and all that ran in it."""
    inside = {index}
    for number in range(index + 1, len(recorded.events)):
        if recorded.events[number].parent in inside:
            inside.add(number)
    return inside


def _rows(kept: Pass) -> dict[_Place, list[_Row]]:
    rows: dict[_Place, list[_Row]] = {}
    for record in kept.records:
        if record.role == "param" and record.event is not None:
            rows.setdefault((record.name, record.path), []).append((record.event, record.key))
    return rows


def _rows_of_file(file: Path) -> dict[_Place, list[_Row]]:
    state = file.stat()
    return _known_rows(file, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=64)
def _known_rows(file: Path, _modified: int, _size: int) -> dict[_Place, list[_Row]]:
    return _rows(Pass(file))
