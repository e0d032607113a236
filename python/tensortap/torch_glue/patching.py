"""Attributes of other people's modules that are replaced for a while, also of modules that are imported meanwhile."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_ABSENT = object()


class Patch:
    """An attribute that is something else until `undo`.

    Parameters
    ----------
    owner : object
        A module, a class, or an instance.
    name : str
        The attribute.
    make : function
        Makes the replacement from what the attribute was, as `getattr` gives it.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._owner, self._name = owner, name
        self._was = vars(owner).get(name, _ABSENT)
        self._is = make(getattr(owner, name))
        setattr(owner, name, self._is)

    def is_of(self, owner: Any, name: str) -> bool:
        """Whether it is this attribute."""
        return self._owner is owner and self._name == name

    def undo(self) -> None:
        """Puts back what was there; what somebody else has put there since stays."""
        if vars(self._owner).get(self._name) is not self._is:
            return
        if self._was is _ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._was)


class ImportWatch(importlib.abc.MetaPathFinder):
    """Calls functions with modules: those that are loaded at once, the others when they have been imported."""

    def __init__(self, wanted: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = dict(wanted)
        sys.meta_path.insert(0, self)
        for name in list(self._wanted):
            if (module := sys.modules.get(name)) is not None:
                self._wanted.pop(name)(module)

    def remove(self) -> None:
        """Watches no longer."""
        self._wanted.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Finds what the other finders find, and watches the module run."""
        if name not in self._wanted:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    self._notify_when_run(spec.loader, name)
                return spec
        return None

    def _notify_when_run(self, loader: Any, name: str) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is as it was
            run(module)
            if (seen := self._wanted.pop(name, None)) is not None:
                seen(module)

        loader.exec_module = exec_module
