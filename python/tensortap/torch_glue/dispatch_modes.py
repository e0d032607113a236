"""Dispatch modes of other tools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def no_modes() -> Iterator[None]:
    """Work that other tools' dispatch modes do not see."""
    with _disable_current_modes():
        yield
