"""What is kept of a module's call beside its tensors, so that it can be made again: arguments as text, and modes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from tensortap import _core
from tensortap.tensors.dtypes import TORCH_DTYPES

_LONGEST = 4000  # characters of all arguments together; what is behind them is said to be cut off
_DEEPEST = 16  # lists in lists
_MOST_BITS = 128  # of an integer
_KEYWORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}


def texts_of_call(
    module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Iterable[tuple[str, torch.Tensor]]
) -> _core.CallTexts:
    """The note `call` of a module's event; docs/format.md says what is in it. `tensors` have their paths."""
    paths: dict[int, str] = {}
    device = "cpu"
    for path, tensor in tensors:
        paths.setdefault(id(tensor), path)
        device = tensor.device.type
    writer = ArgumentWriter(paths)
    called: dict[str, Any] = {
        "arguments": writer.text_of(args, kwargs),
        "inputs": writer.inputs,
        "training": module is not None and module.training,
        "grad": torch.is_grad_enabled(),
    }
    if (autocast := _autocast_dtype(device)) is not None:
        called["autocast"] = _NAMES.get(autocast, "")
    return _core.CallTexts(notes=json.dumps({"call": called}))


def _autocast_dtype(device: str) -> torch.dtype | None:
    is_available = getattr(torch.amp, "is_autocast_available", None)  # since 2.4; not for every device
    if is_available is None or not is_available(device) or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


class ArgumentWriter:
    """Writes arguments as the text of an operator's call has them; calls no code of the program's."""

    def __init__(self, paths: dict[int, str]) -> None:
        self.inputs: list[str] = []  # the paths of `%0`, `%1`, …
        self._paths = paths
        self._numbers: dict[int, int] = {}  # by the ids of tensors
        self._pieces: list[str] = []
        self._left = _LONGEST

    def text_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        self._add_all([("", value) for value in args] + [(_keyword(name), value) for name, value in kwargs.items()], 0)
        return "".join(self._pieces)

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self._left -= len(text)

    def _add_all(self, items: Iterable[tuple[str, Any]], depth: int) -> None:
        for place, (before, value) in enumerate(items):
            if place > 0:
                self._add(", ")
            if self._left <= 0:
                self._add("…")
                return
            self._add(before)
            self._add_value(value, depth)

    # Only of the very types: a class of the program's may compare, iterate or print itself by code of its own.
    def _add_value(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in (list, tuple, torch.Size, dict) and depth < _DEEPEST:
            self._add_structure(value, kind, depth + 1)
        elif issubclass(kind, torch.Tensor):
            self._add(self._tensor_text(value))
        else:
            self._add(self._plain_text(value, kind))

    def _add_structure(self, value: Any, kind: type, depth: int) -> None:
        if kind is dict:
            self._add("{")
            self._add_all(((f"{self._plain_text(key, type(key))}: ", item) for key, item in value.items()), depth)
            self._add("}")
            return
        self._add("[" if kind is list else "(")
        self._add_all((("", item) for item in value), depth)
        self._add("]" if kind is list else ",)" if len(value) == 1 else ")")

    def _tensor_text(self, tensor: torch.Tensor) -> str:
        path = self._paths.get(id(tensor))
        if path is None or type(tensor).__name__ == "DTensor":
            return f"<{type(tensor).__name__}>"
        number = self._numbers.setdefault(id(tensor), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(path)
        return f"%{number}"

    def _plain_text(self, value: Any, kind: type) -> str:
        if value is None or kind is bool or (kind is int and value.bit_length() <= _MOST_BITS) or kind is float:
            return repr(value)
        if kind is complex:
            return f"({value.real!r}{value.imag:+}j)"
        if kind is str:
            quoted = repr('"' + value[: max(self._left, 0)])[2:-1]  # which Python puts between '
            return "'" + quoted.replace("%", "%%") + ("'" if len(value) <= self._left else "…'")
        if kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
            return str(value)
        return f"<{re.sub('[^A-Za-z0-9_.]', '', kind.__qualname__) or 'object'}>"


def _keyword(name: str) -> str:
    return f"{name}=" if _KEYWORD.fullmatch(name) else "<keyword>"  # a dict that was taken apart may have any key
