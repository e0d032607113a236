"""What a graft has done, key by key: how often each was put in, and where it could not be, with the reasons."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

NO_SUCH_CALL = "no such call in the passes of this program"


class Refused(Exception):
    """A tensor that is not put in; the message is the reason."""


@dataclass
class GraftedKey:
    """One of the keys that were asked for.

    Attributes
    ----------
    key, run
        As it was given, and the run that it is of.
    placed
        How many tensors were put in.
    refused
        How many were met and not put in, by reason.
    casts
        How many were put in as another dtype than they were recorded in: `f32 as bf16`.
    unmet
        Why nothing of it was met; empty where something was, and as long as the graft is at work.
    """

    key: str
    run: str
    placed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    casts: Counter[str] = field(default_factory=Counter)
    unmet: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was met, and put in wherever it was."""
        return self.placed > 0 and not self.refused

    def __str__(self) -> str:
        parts = [f"put in {_times(self.placed)}"] if self.placed else []
        parts += [f"{count} {kind}" for kind, count in self.casts.items()]
        parts += [f"not put in {_times(count)}: {reason}" for reason, count in self.refused.items()]
        return f"{self.key}: " + ("; ".join(parts) or f"not met: {self.unmet or 'so far'}")


class Tally:
    """The counts of all keys; written to by any thread."""

    def __init__(self, keys: list[GraftedKey]) -> None:
        self.keys = keys
        self._lock = threading.Lock()

    def placed(self, key: GraftedKey, cast: str) -> None:
        """A tensor was put in."""
        with self._lock:
            key.placed += 1
            if cast:
                key.casts[cast] += 1

    def reset(self) -> None:
        """As at the start; for a forked child."""
        self._lock = threading.Lock()
        for key in self.keys:
            key.placed = 0
            key.refused.clear()
            key.casts.clear()

    def refused(self, key: GraftedKey, reason: str) -> None:
        """A tensor was met and not put in."""
        with self._lock:
            key.refused[reason] += 1


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
