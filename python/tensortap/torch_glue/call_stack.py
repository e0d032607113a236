"""Which modules are being called on this thread, as Python's stack has it, and whether a call has raised."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, NamedTuple

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


def caller_of(module: nn.Module) -> nn.Module | None:
    """The module in whose forward the call of this one that is under way stands."""
    above = (called for called, _ in calls())
    return next(above, None) if any(called is module for called in above) else None


def calls_under_way(module: nn.Module) -> int:
    """How many calls of the module there are."""
    return sum(called is module for called, _ in calls())


def keywords_of_call(module: nn.Module) -> dict[str, Any]:
    """What the last call of the module was given by keyword, which global hooks do not see."""
    return next((frame.f_locals["kwargs"] for called, frame in calls() if called is module), {})


class Handled(NamedTuple):
    """The exception that is being handled, and where it has been until then."""

    error: BaseException | None
    trace: TracebackType | None


NOTHING_HANDLED = Handled(None, None)


def handled_now() -> Handled:
    """At the beginning of a call: a program may call a module while it handles an exception."""
    error = sys.exc_info()[1]
    return Handled(error, error.__traceback__ if error is not None else None)


def has_raised(before: Handled) -> bool:
    """In a hook at the end of a call: whether the call has raised, and returned nothing.

    A call may raise the very exception that was being handled when it began; then that has come further.
    """
    now = handled_now()
    return now.error is not None and (now.error is not before.error or now.trace is not before.trace)
