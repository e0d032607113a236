"""Which modules are being called on this thread, as Python's stack has it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torch import nn

_CALL = nn.Module._call_impl.__code__  # the function that calls the hooks


def _calls() -> Iterator[tuple[nn.Module, FrameType]]:
    """The innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            yield frame.f_locals["self"], frame
        frame = frame.f_back


def modules_under_way() -> list[nn.Module]:
    """The outermost first."""
    return [module for module, _ in _calls()][::-1]


def outermost_call(known: Callable[[nn.Module], bool]) -> nn.Module | None:
    """The first known module of them."""
    return next(filter(known, modules_under_way()), None)


def calls_under_way(module: nn.Module) -> int:
    """How many calls of the module there are."""
    return sum(called is module for called, _ in _calls())


def keywords_of_call(module: nn.Module) -> dict[str, Any]:
    """What the last call of the module was given by keyword, of which global hooks are not told."""
    return next((frame.f_locals["kwargs"] for called, frame in _calls() if called is module), {})
