"""The tensors inside what a module takes or gives, each with its path."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tensortap import _core
from tensortap.torch_glue.program_errors import raise_if_of_program
from tensortap.torch_glue.storable_text import storable

_DEEPEST = 64  # what lies deeper is not followed
_MOST_ITEMS = 100_000  # nor more items than this
_PLAIN = (str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device)

# Of a class of results the field that is the result itself, whose path is ''. Adapters of engines say so.
main_fields: dict[type, str] = {}


def tensors_in(value: Any, opaque: dict[str, int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a nested value in order, with paths like `/0`, `/1/attn`; one tensor alone has the path ''.

    Tuples and lists give positions, named tuples, dataclasses and mappings names. The caches of Transformers and what
    torch.utils._pytree knows are followed too. What else there is that is no plain value is counted in `opaque`, by its
    type: there may be tensors in it.
    """
    if isinstance(value, torch.Tensor):
        yield "", value
        return
    main = main_fields.get(type(value))
    walk = _Walk(opaque)
    seen: set[str] = set()
    for path, tensor in walk.tensors(value, ""):
        unique, count = "" if path == f"/{main}" else path, 2
        while unique in seen:  # keys 1 and '1' print alike
            unique, count = f"{path}~{count}", count + 1
        seen.add(unique)
        yield unique, tensor


class _Walk:
    def __init__(self, opaque: dict[str, int]) -> None:
        self._opaque = opaque
        self._above: list[Any] = []  # what the present value lies in: a structure may hold itself
        self._items = 0

    def tensors(self, value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
        if len(self._above) >= _DEEPEST:
            self._count("structures deeper than 64 levels")
            return
        self._above.append(value)
        try:
            for step, item in items_of(value):
                self._items += 1
                if self._items > _MOST_ITEMS:
                    self._count("structures of more than 100,000 items")
                    return
                if isinstance(item, torch.Tensor):
                    yield _core.append_path(path, text_of_step(step)), item
                elif not isinstance(item, _PLAIN) and not any(item is known for known in self._above):
                    yield from self.tensors(item, _core.append_path(path, text_of_step(step)))
        except _Opaque:
            self._count(type(value).__name__)
        except Exception as error:  # somebody else's __getattr__, property or iterator
            raise_if_of_program(error)
            self._count(f"{type(value).__name__} ({type(error).__name__}: {error})")
        finally:
            self._above.pop()

    def _count(self, what: str) -> None:
        self._opaque[what] = self._opaque.get(what, 0) + 1


class _Opaque(Exception):
    """A value of which nothing is known."""


def text_of_step(step: Any) -> str:
    """A step of a path: a position, name or key."""
    return storable(step if isinstance(step, str) else repr(step))


def items_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """What a structure holds, each with the step to it."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=False)
    elif isinstance(value, (tuple, list)):
        yield from enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif (node := _registered(value)) is not None:
        yield from _registered_items(value, node)
    elif (layers := vars(value).get("layers") if hasattr(value, "__dict__") else None) is not None:
        yield from _cache_items(value, layers)
    elif not isinstance(value, _PLAIN):
        raise _Opaque


def _cache_items(value: Any, layers: Any) -> Iterator[tuple[str, Any]]:
    """A cache of Transformers: layers, each with keys and values."""
    if "Cache" not in type(value).__name__ or not isinstance(layers, (list, tuple)):
        raise _Opaque
    for index, layer in enumerate(layers):
        yield f"layers.{index}", {name: item for name, item in vars(layer).items() if isinstance(item, torch.Tensor)}


def _registered(value: Any) -> Any:
    pytree = sys.modules.get("torch.utils._pytree")
    return pytree.SUPPORTED_NODES.get(type(value)) if pytree is not None else None


def _registered_items(value: Any, node: Any) -> Iterator[tuple[Any, Any]]:
    """The children of a class that was registered with pytree."""
    if node.flatten_with_keys_fn is not None:
        pairs, _ = node.flatten_with_keys_fn(value)
        for entry, item in pairs:
            yield next((getattr(entry, slot) for slot in ("key", "name", "idx") if hasattr(entry, slot)), entry), item
    else:
        children, _ = node.flatten_fn(value)
        yield from enumerate(children)
