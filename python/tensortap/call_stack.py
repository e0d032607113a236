"""Which modules are being called on this thread, as Python's stack has it, and whether a call has raised."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torch import nn

_CALL = nn.Module._call_impl.__code__  # the function that calls the hooks


def calls() -> Iterator[tuple[nn.Module, FrameType]]:
    """The modules with the frames of their calls, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            yield frame.f_locals["self"], frame
        frame = frame.f_back


def modules_under_way() -> list[nn.Module]:
    """The outermost first."""
    return [module for module, _ in calls()][::-1]


def outermost_call(known: Callable[[nn.Module], bool]) -> nn.Module | None:
    """The first known module of them."""
    return next(filter(known, modules_under_way()), None)


def calls_under_way(module: nn.Module) -> int:
    """How many calls of the module there are."""
    return sum(called is module for called, _ in calls())


def keywords_of_call(module: nn.Module) -> dict[str, Any]:
    """What the last call of the module was given by keyword, of which global hooks are not told."""
    return next((frame.f_locals["kwargs"] for called, frame in calls() if called is module), {})


def has_raised(handled_before: BaseException | None) -> bool:
    """In a hook at the end of a call: whether it is told of an exception, not of what the call has returned.

    `handled_before` is what sys.exc_info() had at its beginning: a program may call a module while it handles an
    exception.
    """
    error = sys.exc_info()[1]
    return error is not None and error is not handled_before
