"""A nested value with other tensors in some places."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from tensortap import _core
from tensortap.tensors.nested import items_of, main_fields, text_of_step

_CANNOT_COPY = "it is inside an object that cannot be copied with another tensor in it"


def with_tensors(value: Any, tensors: dict[str, torch.Tensor]) -> tuple[Any, dict[str, str]]:
    """The value with these tensors at their paths, and which have not come in: why, by path.

    Paths are as `tensors_in` has them. What holds a tensor that is changed is copied, and the program's own stays as it
    is.
    """
    if isinstance(value, torch.Tensor):
        return tensors.get("", value), {}
    main = main_fields.get(type(value))
    given = {f"/{main}" if main and path == "" else path: tensor for path, tensor in tensors.items()}
    left = set(given)
    changed = _changed(value, "", given, left)
    return changed, dict.fromkeys(left, _CANNOT_COPY)


def _changed(value: Any, path: str, tensors: dict[str, torch.Tensor], left: set[str]) -> Any:
    """The value, or where one of the tensors stands in it a copy."""
    if not any(each.startswith(path) for each in tensors):
        return value
    news: dict[Any, Any] = {}
    for step, item in items_of(value):
        here = _core.append_path(path, text_of_step(step))
        if isinstance(item, torch.Tensor):
            if here in left:
                news[step] = tensors[here]
        elif any(each.startswith(f"{here}/") for each in left):
            inner = _changed(item, here, tensors, left)
            if inner is not item:
                news[step] = inner
    if not news:
        return value
    made = _copy_with(value, news)
    if made is None:
        left |= {each for each in tensors if each.startswith(f"{path}/")}
        return value
    left -= {here for step in news if (here := _core.append_path(path, text_of_step(step))) in left}
    return made


def _copy_with(value: Any, news: dict[Any, Any]) -> Any:
    """A copy with other items; None where it is not known how to make one."""
    made: Any
    if isinstance(value, Mapping):
        made = copy.copy(value)
        for step, item in news.items():
            made[step] = item
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._replace(**news)  # type: ignore[attr-defined]
    if isinstance(value, tuple | list):
        items = [news.get(position, item) for position, item in enumerate(value)]
        return items if type(value) is list else type(value)(items)
    if dataclasses.is_dataclass(value):
        made = copy.copy(value)
        for step, item in news.items():
            object.__setattr__(made, step, item)
        return made
    return None
