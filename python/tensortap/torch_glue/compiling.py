"""When PyTorch compiles, or works out what a result will look like: what runs meanwhile is not the program's."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Protocol

from tensortap.torch_glue import op_extension
from tensortap.torch_glue.patching import ImportWatch, Patch


class Hideable(Protocol):
    """Hooks of ours that compiled code would be guarded on, and compiled again without."""

    def hide(self) -> None:
        """Takes them off."""

    def show(self) -> None:
        """Puts them back."""


_lock = threading.RLock()
_users = 0
_watch: ImportWatch | None = None
_patches: list[Patch] = []
_compilations = 0
_hidden: list[Hideable] = []


def hide_while_compiling(hooks: Hideable) -> None:
    """Hides hooks from now on whenever anybody compiles, until `forget`."""
    with _lock:
        _hidden.append(hooks)
        if _compilations > 0:
            hooks.hide()


def forget(hooks: Hideable) -> None:
    """Leaves them alone from now on."""
    with _lock:
        _hidden.remove(hooks)


class Compiling:
    """Marks threads as compiling for operator sources, until it is removed.

    PyTorch's callbacks of compilation are called once where several threads compile, on the first one of them to begin
    and on the last one to end. The context that calls them is entered and left by each, so it is that one which marks.

    A DTensor's operator is first run on fake tensors, once per kind of arguments, to know the shape of its result.
    """

    def __init__(self) -> None:
        global _users, _watch
        with _lock:
            _users += 1
            if _users == 1:
                _watch = ImportWatch(
                    {
                        "torch._dynamo.callback": _patch_callbacks,
                        "torch._dynamo.compiled_autograd": _patch_autograd_capture,
                        "torch.distributed.tensor._sharding_prop": _patch_propagation,
                    }
                )
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
    ops = op_extension.load()

    def make(install_callbacks: Any) -> Any:
        @contextlib.contextmanager
        def marked(*args: Any, **kwargs: Any) -> Iterator[Any]:
            # A CUDA graph is captured: that is the program at work, and the only time that its operators are seen.
            if any(getattr(given, "name", None) == "CUDAGRAPH_RECORDING" for given in args):
                with install_callbacks(*args, **kwargs) as entered:
                    yield entered
                return
            ops.compiling(1)
            _count(1)
            try:
                with install_callbacks(*args, **kwargs) as entered:
                    yield entered
            finally:
                _count(-1)
                ops.compiling(-1)

        return marked

    _patches.append(Patch(module.callback_handler, "install_callbacks", make))


def _patch_autograd_capture(module: ModuleType) -> None:
    """Compiled autograd runs the backward on fake tensors between two calls, before it compiles it."""
    ops = op_extension.load()

    def marks(begin: Any) -> Any:
        @functools.wraps(begin)
        def marked(compiler: Any, *args: Any, **kwargs: Any) -> Any:
            def end(*args: Any, **kwargs: Any) -> Any:
                try:
                    return kind.end_capture(compiler, *args, **kwargs)
                finally:
                    del compiler.end_capture
                    ops.compiling(-1)

            ops.compiling(1)
            try:
                begun = begin(compiler, *args, **kwargs)
            except BaseException:
                ops.compiling(-1)
                raise
            compiler.end_capture = end  # its own: the patch may be gone by then
            return begun

        return marked

    kind = module.AutogradCompilerInstance
    _patches.append(Patch(kind, "begin_capture", marks))


def _patch_propagation(module: ModuleType) -> None:
    ops = op_extension.load()

    def make(propagate: Any) -> Any:
        @functools.wraps(propagate)
        def marked(*args: Any, **kwargs: Any) -> Any:
            ops.compiling(1)
            try:
                return propagate(*args, **kwargs)
            finally:
                ops.compiling(-1)

        return marked

    name = "_propagate_tensor_meta_non_cached"
    if hasattr(module.ShardingPropagator, name):
        _patches.append(Patch(module.ShardingPropagator, name, make))


def _count(by: int) -> None:
    global _compilations
    with _lock:
        _compilations += by
        for hooks in _hidden:
            if by > 0 and _compilations == 1:
                hooks.hide()
            if by < 0 and _compilations == 0:
                hooks.show()
