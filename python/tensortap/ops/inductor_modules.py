"""C++ kernels of torch.compile's inductor, in the Python modules that it generates."""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType
from typing import Any

from tensortap.torch_glue.patching import Patch

_SIGNATURE = re.compile(r'^extern "C"[^(;{]*?\bkernel\s*\(([^)]*)\)', re.MULTILINE)
_PARAMETER = re.compile(r"(\w+)\s*(?:\[\])?$")


class GeneratedModules:
    """Replaces the C++ kernels in every generated module, also in those that are made meanwhile, until `undo`.

    A generated module calls its kernels by their names in it, so a region that was compiled long before is seen too.
    """

    def __init__(self, cache: Any, launch: Callable[..., Any], allocated: Callable[[Any], None]) -> None:
        self._launch = launch
        self._allocated = allocated
        self._patches: list[Patch] = []
        self._at_work = True
        self._patches.append(Patch(cache, "load_by_key_path", self._loads))
        for module in list(cache.modules):
            self._replace(module)

    def undo(self) -> None:
        """Puts the kernels back."""
        self._at_work = False
        while self._patches:
            self._patches.pop().undo()

    def _loads(self, load: Any) -> Any:
        @functools.wraps(load)
        def loaded(*args: Any, **kwargs: Any) -> Any:
            module = load(*args, **kwargs)
            if self._at_work:
                self._replace(module)
            return module

        return loaded

    def _replace(self, module: ModuleType) -> None:
        for name, value in list(vars(module).items()):
            if is_cpp_kernel(value):
                self._patches.append(Patch(module, name, functools.partial(self._kernel, module, name)))
            elif name.startswith("empty_strided_") and callable(value):
                self._patches.append(Patch(module, name, self._allocation))

    def _allocation(self, allocate: Any) -> Any:
        """Buffers are made past the dispatcher too; what they hold means nothing before a kernel has written it."""

        def allocating(*args: Any, **kwargs: Any) -> Any:
            buffer = allocate(*args, **kwargs)
            self._allocated(buffer)
            return buffer

        return allocating

    def _kernel(self, module: ModuleType, name: str, kernel: Any) -> Any:
        names = functools.cache(lambda: parameters(module, name))

        def launched(*args: Any) -> Any:
            return self._launch(
                "cpp",
                lambda: name,
                lambda: list(zip(padded(names(), len(args)), args, strict=True)),
                lambda: kernel(*args),
            )

        return launched


def is_cpp_kernel(value: Any) -> bool:
    """Whether it is a function of a library that inductor has built: the only one there, `kernel`."""
    return (
        isinstance(value, BuiltinFunctionType)
        and value.__name__ == "kernel"
        and isinstance(value.__self__, ModuleType)
        and value.__self__.__name__.endswith(".kernel")
    )


def parameters(module: ModuleType, name: str) -> list[str]:
    """The names that the C++ code, which the generated module holds as text, gives to a kernel's parameters."""
    source = "".join(linecache.getlines(module.__file__ or ""))
    _, found, after = source.partition(f"\n{name} = async_compile.cpp_pybinding(")
    signature = _SIGNATURE.search(after.partition("\n''')")[0]) if found else None
    if signature is None:
        return []
    found_names = [_PARAMETER.search(each.strip()) for each in signature[1].split(",")]
    return [each[1] if each else f"arg{i}" for i, each in enumerate(found_names)]


def padded(names: list[str], count: int) -> list[str]:
    """As many names as there are arguments."""
    return names[:count] + [f"arg{i}" for i in range(len(names), count)]
