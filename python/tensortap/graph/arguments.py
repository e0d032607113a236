"""Values as text, as Python writes them, with the tensors among them numbered as uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from tensortap import _core
from tensortap.tensors.nested import tensors_in

_LONGEST = 200  # of a text or a list of numbers
_DEEPEST = 32


class ValueWriter:
    """Writes one value after the other; the tensors met on the way are `tensors`, in the order of their numbers."""

    def __init__(self, first_use: int = 0, values: Iterator[Any] = iter(())) -> None:  # noqa: B008
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self._first = first_use
        self._values = values  # of the nodes in a graph's arguments, in order

    def call(self, args: tuple, kwargs: Mapping[str, Any]) -> str:
        """The arguments of a call: `%0, 2, alpha=1`."""
        parts = [self.text(value, f"/{position}") for position, value in enumerate(args)]
        parts += [f"{name}={self.text(value, _core.append_path('', name))}" for name, value in kwargs.items()]
        return ", ".join(parts)

    def text(self, value: Any, path: str = "", depth: int = 0) -> str:
        if isinstance(value, fx.Node):
            return self.text(next(self._values), path, depth)
        if isinstance(value, torch.Tensor):
            self.tensors.append((path, value))
            return f"%{self._first + len(self.tensors) - 1}"
        if value is None or isinstance(value, (bool, int, float, complex)):
            return _escaped(repr(value))
        if isinstance(value, (str, bytes)):
            return _escaped(repr(value[:_LONGEST]) + ("…" if len(value) > _LONGEST else ""))
        if depth > _DEEPEST:
            return "…"
        if isinstance(value, slice):
            parts = [self._item(getattr(value, name), path, name, depth) for name in ("start", "stop", "step")]
            return f"slice({', '.join(parts)})"
        if isinstance(value, torch.Size):
            return f"torch.Size({list(value)})"
        if isinstance(value, tuple):
            items = self._items(value, path, depth)
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(self._items(value, path, depth))}]"
        if isinstance(value, Mapping):
            items = [f"{_escaped(repr(key))}: {self._item(item, path, key, depth)}" for key, item in value.items()]
            return "{" + ", ".join(items) + "}"
        return self._other(value, path)

    def _items(self, values: tuple | list, path: str, depth: int) -> list[str]:
        names = getattr(values, "_fields", None) or range(len(values))
        return [self._item(value, path, name, depth) for name, value in zip(names, values, strict=False)]

    def _item(self, value: Any, path: str, step: object, depth: int) -> str:
        return self.text(value, _core.append_path(path, step if isinstance(step, str) else repr(step)), depth + 1)

    def _other(self, value: Any, path: str) -> str:
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return _escaped(str(value))
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return f"<{_escaped(value.__qualname__)}>"
        kind = type(value).__name__
        inside = [] if isinstance(value, torch.nn.Module) else list(tensors_in(value, {}))
        numbers = []
        for below, tensor in inside:
            self.tensors.append((path + below, tensor))
            numbers.append(f"%{self._first + len(self.tensors) - 1}")
        return f"<{_escaped(kind)}{' ' if numbers else ''}{', '.join(numbers)}>"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def nodes_in(args: tuple, kwargs: Mapping[str, Any]) -> list[tuple[fx.Node, str]]:
    """The nodes among a node's arguments with their paths, in the order in which ValueWriter meets them."""
    found: list[tuple[fx.Node, str]] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, fx.Node):
            found.append((value, path))
        elif isinstance(value, slice):
            for name in ("start", "stop", "step"):
                walk(getattr(value, name), _core.append_path(path, name))
        elif isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            for name, item in zip(getattr(value, "_fields", None) or range(len(value)), value, strict=False):
                walk(item, _core.append_path(path, str(name)))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                walk(item, _core.append_path(path, key if isinstance(key, str) else repr(key)))

    for position, value in enumerate(args):
        walk(value, f"/{position}")
    for name, value in kwargs.items():
        walk(value, _core.append_path("", name))
    return found


def tensors_of(value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a value with their paths, in the order in which ValueWriter meets them."""
    if isinstance(value, torch.Tensor):
        return [("", value)]
    writer = ValueWriter()
    writer.text(value)
    return writer.tensors
