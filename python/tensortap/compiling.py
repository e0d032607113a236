"""When torch.compile compiles: what runs meanwhile is not the program's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tensortap.patching import ImportWatch, Patch

_lock = threading.Lock()
_users = 0
_watch: ImportWatch | None = None
_patches: list[Patch] = []


class Compiling:
    """Marks threads as compiling for operator sources, until it is removed.

    PyTorch's callbacks of compilation are called once where several threads compile, on the first one of them to begin
    and on the last one to end. The context that calls them is entered and left by each, so it is that one which marks.
    """

    def __init__(self) -> None:
        global _users, _watch
        with _lock:
            _users += 1
            if _users == 1:
                _watch = ImportWatch({"torch._dynamo.callback": _patch_callbacks})
        self._at_work = True

    def remove(self) -> None:
        """Takes it off; who compiles at this moment is unmarked when done."""
        global _users, _watch
        with _lock:
            _users -= self._at_work
            if self._at_work and _users == 0 and _watch is not None:
                _watch.remove()
                _watch = None
                while _patches:
                    _patches.pop().undo()
        self._at_work = False


def _patch_callbacks(module: ModuleType) -> None:
    from tensortap import _ops

    def make(install_callbacks: Any) -> Any:
        @contextlib.contextmanager
        def marked(*args: Any, **kwargs: Any) -> Iterator[Any]:
            _ops.compiling(1)
            try:
                with install_callbacks(*args, **kwargs) as entered:
                    yield entered
            finally:
                _ops.compiling(-1)

        return marked

    _patches.append(Patch(module.callback_handler, "install_callbacks", make))
