"""Kernels that are launched past the dispatcher: Triton's, and those that torch.compile's inductor makes."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from tensortap.ops.inductor_modules import GeneratedModules
from tensortap.torch_glue.patching import ImportWatch, Patch
from tensortap.torch_glue.program_errors import raise_if_of_program

Arguments = list[tuple[str, Any]]
_lock = threading.Lock()
_sources: tuple[Any, ...] = ()
_watch: ImportWatch | None = None
_patches: list[Any] = []
_thread = threading.local()


class Kernels:
    """Shows an operator source every kernel that is launched, until it is removed.

    What launches kernels is replaced while there is any source, once for all of them, and put back after the last one.
    An autotuner runs a kernel many times to choose how; its call is one launch, and what happens inside it is not seen.
    """

    def __init__(self, source: Any) -> None:
        global _sources, _watch
        self._source = source
        with _lock:
            _sources = (*_sources, source)
            if _watch is None:
                _watch = ImportWatch(_LAUNCHERS)

    def remove(self) -> None:
        """Takes it off."""
        global _sources, _watch
        with _lock:
            _sources = tuple(source for source in _sources if source is not self._source)
            if _sources or _watch is None:
                return
            _watch.remove()
            _watch = None
            while _patches:
                _patches.pop().undo()


def launch(library: str, name: Callable[[], str], arguments: Callable[[], Arguments], run: Callable[[], Any]) -> Any:
    """Launches a kernel, and shows it to every source unless it is part of another launch."""
    sources = _sources
    if not sources or getattr(_thread, "launching", False):
        return run()
    _thread.launching = True
    begun = []
    try:
        try:
            given, called = arguments(), name()
            for source in sources:
                begun.append(source)
                source.begin_kernel(library, called, given)
        except Exception as error:
            raise_if_of_program(error)
            _complain(error)
        return run()
    finally:
        for source in reversed(begun):
            source.end_kernel()
        _thread.launching = False


def allocated(buffer: Any) -> None:
    """Tells every source of a tensor that holds nothing yet."""
    for source in _sources:
        source.not_initialised(buffer)


@functools.cache
def _complain_once(text: str) -> None:
    print(f"tensortap: a kernel could not be recorded: {text}", file=sys.stderr)


def _complain(error: Exception) -> None:
    _complain_once(f"{type(error).__name__}: {error}")


# ---- Triton ----


def flat(name: str, value: Any) -> Arguments:
    """A parameter as the source takes it: the tensors inside a tuple or a descriptor by themselves."""
    if isinstance(value, tuple):
        return [each for i, item in enumerate(value) for each in flat(f"{name}.{i}", item)]
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor) and not isinstance(value, torch.Tensor):
        value = base  # TensorDescriptor, TensorWrapper
    return [(name, value)]


def named(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments of a launch under the kernel's names for them; options of the launch are left out."""
    names = names + [f"arg{i}" for i in range(len(names), len(args))]
    given = dict(zip(names, args, strict=False))
    given.update((key, value) for key, value in kwargs.items() if key in names)
    return [each for name, value in given.items() for each in flat(name, value)]


def _name_of_user_kernel(kernel: Any) -> str:
    while hasattr(kernel, "fn") and not hasattr(kernel, "__name__"):
        kernel = kernel.fn  # Autotuner and Heuristics are around a JITFunction
    return str(getattr(kernel, "__name__", type(kernel).__name__))


def _user_kernel(run: Any) -> Any:
    @functools.wraps(run)
    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("warmup"):  # compiles only
            return run(self, *args, **kwargs)
        return launch(
            "triton",
            lambda: _name_of_user_kernel(self),
            lambda: named(list(getattr(self, "arg_names", ())), args, kwargs),
            lambda: run(self, *args, **kwargs),
        )

    return launched


def _inductor_kernel(run: Any) -> Any:
    @functools.wraps(run)
    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("benchmark_run"):
            return run(self, *args, **kwargs)
        return launch(
            "triton",
            lambda: str(getattr(self.fn, "__name__", None) or self.inductor_meta.get("kernel_name", "kernel")),
            lambda: named(list(self.triton_meta.get("signature", {})), args, kwargs),
            lambda: run(self, *args, **kwargs),
        )

    return launched


def _patch(make: Callable[[Any], Any], *classes: str) -> Callable[[ModuleType], None]:
    def patch(module: ModuleType) -> None:
        for name in classes:
            if "run" in vars(getattr(module, name, object)):
                _patches.append(Patch(getattr(module, name), "run", make))

    return patch


def _patch_generated(module: ModuleType) -> None:
    _patches.append(GeneratedModules(module.PyCodeCache, launch, allocated))


_LAUNCHERS = {
    "triton.runtime.jit": _patch(_user_kernel, "JITFunction"),
    "triton.runtime.autotuner": _patch(_user_kernel, "Autotuner", "Heuristics"),
    "triton.runtime.interpreter": _patch(_user_kernel, "InterpretedFunction"),
    "torch._inductor.runtime.triton_heuristics": _patch(_inductor_kernel, "CachingAutotuner"),
    "torch._inductor.codecache": _patch_generated,
}
