"""What a command that takes long says of it on a terminal; nothing where stderr is a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_WAIT = 0.5  # seconds before work is long, and between two lines of progress


def teller(command: str) -> Callable[[str], None]:
    """Prints a line for each thing that is done, between what the programs print that the command runs."""

    def tell(what: str) -> None:
        if sys.stderr.isatty():
            print(f"ttap {command}: {what}", file=sys.stderr, flush=True)

    return tell


class Progress:
    """One line, only once the work has taken a while, and wiped away at the end: `with Progress("replaying")`."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _WAIT
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, done: int, total: int) -> None:
        """So many calls are done."""
        if self._terminal and (now := time.monotonic()) >= self._next:
            self._next, self._drawn = now + _WAIT, True
            print(f"\r\x1b[K{self._label} {done} of {total} calls", end="", file=sys.stderr, flush=True)
