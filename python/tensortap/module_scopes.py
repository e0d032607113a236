"""Module boundaries for operators: which module is being called on each thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from tensortap.module_map import ModuleMap
from tensortap.names import named_modules
from tensortap.torch_warning import ignore_warning_of_global_hooks


class ModuleScopes:
    """Tells an operator source which module is entered and left, under its full dotted name.

    The outermost module that is called is a root: its parts have the names that it gives them, its own is its class's,
    or that of the models given. A module that no root holds goes by its class.
    """

    def __init__(
        self,
        source: Any,
        models: Mapping[str, nn.Module] | None = None,
        name_given: Callable[[nn.Module], str | None] | None = None,
    ) -> None:
        self._source = source
        # Of modules that somebody else knows, who makes the events of their calls too.
        self._name_given = name_given or (lambda module: None)
        self._names: ModuleMap[str] = ModuleMap()
        self._thread = threading.local()
        for prefix, model in (models or {}).items():
            self._learn(model, prefix)
        ignore_warning_of_global_hooks()
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._before),
            torch_module.register_module_forward_hook(self._after, always_call=True),
        ]

    def remove(self) -> None:
        """Takes the hooks off."""
        for handle in self._handles:
            handle.remove()

    def name_of(self, module: nn.Module) -> str:
        """The name of a module that is being called."""
        name = self._names.get(module)
        if name is None and not self._entered():
            self._learn(module, "")
            name = self._names.get(module)
        if name is None:
            name = type(module).__name__
            outer = self._entered()
            name = f"{outer[-1][1]}.{name}" if outer else name
        return name

    def _learn(self, root: nn.Module, prefix: str) -> None:
        for entry in named_modules(root, prefix):
            if entry.module not in self._names:
                self._names[entry.module] = entry.names[0]

    def _entered(self) -> list[tuple[nn.Module, str]]:
        if not hasattr(self._thread, "entered"):
            self._thread.entered = []
        return self._thread.entered

    # A compiled region has no modules any more; Dynamo is shown nothing.
    def _before(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        given = self._name_given(module)
        name = given if given is not None else self.name_of(module)
        self._entered().append((module, name))
        notes = json.dumps({"class": type(module).__qualname__})
        self._source.enter(name, notes, makes_event=given is None)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        entered = self._entered()
        # An exception that passed by the hooks (KeyboardInterrupt) left inner modules behind.
        while any(known is module for known, _ in entered):
            last, _ = entered.pop()
            self._source.leave()
            if last is module:
                return
