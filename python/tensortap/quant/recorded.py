"""A quantized group as a recording keeps it: a description at its own key, and its parts one step below."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

from tensortap import _core
from tensortap.quant.group import Group

if TYPE_CHECKING:
    import torch

    from tensortap.reading import Pass, TensorRecord


class NoBytes(LookupError):
    """Of a group whose parts were kept without their bytes."""


def part_keys(record: TensorRecord) -> dict[str, str]:
    """The keys of the parts of a group by what they are."""
    described = json.loads(record.group)
    return {
        str(step): _core.key_text(record.name, record.call, record.role, _core.append_path(record.path, str(step)))
        for step in described.get("parts", [])
    }


def group_in(kept: Pass, record: TensorRecord) -> Group:
    """The group that the record describes. Raises LookupError when the bytes of a part were not kept."""
    from tensortap.snapshot import TORCH_DTYPES

    parts = {}
    for step, key in part_keys(record).items():
        index = kept._core.find(key)
        if index is None:
            raise LookupError(f"{record.key!r} is a quantized tensor of which {key!r} is not here: it is not decoded")
        if not kept._core.has_bytes(index):
            raise NoBytes(
                f"{record.key!r} is a quantized tensor of which {key!r} has no bytes (level fingerprint or meta, or "
                "dropped): it cannot be decoded"
            )
        parts[step] = kept._tensor(index)
    made = _core.quant_format_from_json(json.dumps(json.loads(record.group)["format"]))
    return Group(made, record.shape, TORCH_DTYPES[record.dtype], parts)


def decoded_pass(kept: Pass) -> tuple[dict[int, torch.Tensor], set[int]]:
    """The values of the groups of a pass, by where their record is; and where the parts of these groups are.

    What cannot be decoded is left out, with a warning unless its parts have no bytes or it was rotated.
    """
    values, parts = {}, set()
    for index, record in enumerate(kept.records):
        if not record.group:
            continue
        try:
            group = group_in(kept, record)
            if group.format is None or group.format.rotated:
                continue
            values[index] = group.decoded()
            parts.update(kept._core.find(key) for key in part_keys(record).values())
        except NoBytes:
            continue
        except Exception as error:  # what the file says of it is not so
            warnings.warn(f"{record.key} of {kept.path} is not decoded, its parts are there: {error}", stacklevel=3)
    return values, parts
