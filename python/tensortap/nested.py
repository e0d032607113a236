"""The tensors inside what a module takes or gives, each with its path."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tensortap import _core

_DEEPEST = 64  # a structure deeper than this is not followed


def tensors_in(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a nested value in order, with paths like `/0`, `/1/attn`; one tensor alone has the path ''.

    Tuples and lists give positions, named tuples, dataclasses and mappings names. What torch.utils._pytree knows is
    followed too. Anything else that is not a tensor has no part in it.
    """
    if isinstance(value, torch.Tensor):
        yield "", value
        return
    seen: set[str] = set()
    for path, tensor in _walk(value, "", 0):
        unique, count = path, 2
        while unique in seen:  # keys 1 and '1' print alike
            unique, count = f"{path}~{count}", count + 1
        seen.add(unique)
        yield unique, tensor


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth < _DEEPEST:
        for step, item in _items_of(value):
            yield from _walk(item, _core.append_path(path, step), depth + 1)


def _items_of(value: Any) -> Iterator[tuple[str, Any]]:
    if value is None or isinstance(value, (str, bytes, int, float)):
        return
    if isinstance(value, Mapping):
        yield from ((key if isinstance(key, str) else repr(key), item) for key, item in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=False)
    elif isinstance(value, (tuple, list)):
        yield from ((str(index), item) for index, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    else:
        yield from _registered_items(value)


def _registered_items(value: Any) -> Iterator[tuple[str, Any]]:
    """The children of a class that was registered with pytree, such as the caches of Transformers."""
    pytree = sys.modules.get("torch.utils._pytree")
    node = pytree.SUPPORTED_NODES.get(type(value)) if pytree is not None else None
    if node is None:
        return
    if node.flatten_with_keys_fn is not None:
        pairs, _ = node.flatten_with_keys_fn(value)
        for entry, item in pairs:
            name = next((getattr(entry, slot) for slot in ("key", "name", "idx") if hasattr(entry, slot)), entry)
            yield str(name), item
    else:
        children, _ = node.flatten_fn(value)
        yield from ((str(index), item) for index, item in enumerate(children))
