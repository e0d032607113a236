"""A dictionary of modules that keeps none of them alive and asks none of them for a hash or for equality."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

from torch import nn

Value = TypeVar("Value")


class ModuleMap(Generic[Value]):
    """By identity. An entry goes with its module."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[nn.Module], Value]] = {}

    def __setitem__(self, module: nn.Module, value: Value) -> None:
        key = id(module)
        entries, forget = self._entries, _forget  # which at the end of the process has no name any more
        entries[key] = (weakref.ref(module, lambda reference: forget(entries, key, reference)), value)

    def get(self, module: nn.Module) -> Value | None:
        entry = self._entries.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else None

    def __contains__(self, module: nn.Module) -> bool:
        entry = self._entries.get(id(module))
        return entry is not None and entry[0]() is module

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[nn.Module, Value]]:
        for reference, value in list(self._entries.values()):
            module = reference()
            if module is not None:
                yield module, value


def _forget(entries: dict[int, tuple[weakref.ref[nn.Module], Value]], key: int, reference: object) -> None:
    # Another module may have got the id meanwhile.
    if key in entries and entries[key][0] is reference:
        del entries[key]
