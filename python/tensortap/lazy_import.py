"""Public names that are imported when they are first asked for: what imports PyTorch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def importer(package: str, names_of: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__`, for public names by the module that has them.

    The names stand under `if TYPE_CHECKING:` as well, for type checkers and editors.
    """
    module_of = {name: module for module, names in names_of.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = getattr(importlib.import_module(module_of[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch":
                raise
            raise ImportError(f"{package}.{name} needs PyTorch: pip install torch", name="torch") from error
        setattr(sys.modules[package], name, found)
        return found

    return find
