"""Recording a program without naming its models: whatever module is called outermost is one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from tensortap.modules.module_source import ModuleSource
from tensortap.session.passes import in_backward
from tensortap.torch_glue.hook_warning import ignore_warning_of_global_hooks
from tensortap.torch_glue.own_calls import is_own_call

_FRUITLESS = 3  # looks for new parts of a model, after which modules of that type count as foreign


class RootFinder:
    """Makes a root of every module that is called outermost."""

    def __init__(self, source: ModuleSource) -> None:
        self._source = source
        self._stale: dict[int, type] = {}  # roots, by id, that called a module of this type that they do not hold
        self._fruitless: dict[type, int] = {}
        ignore_warning_of_global_hooks()
        self._handle = torch_module.register_module_forward_pre_hook(self.before)

    def remove(self) -> None:
        self._handle.remove()

    def before(self, module: nn.Module, args: Any) -> None:
        """A module is about to be called."""
        if torch.compiler.is_compiling() or is_own_call():
            return
        if self._source.tracker.thread.scopes and self._source.knows(module):
            return  # the common case: a part of the model that is being called
        self._source.guarded(self._unknown_or_outermost, module, args)

    def _unknown_or_outermost(self, module: nn.Module, args: Any) -> None:
        source = self._source
        source.tracker.drop_stale_scopes(module)
        if scopes := source.tracker.thread.scopes:
            # A new part of the model? It is looked for when the root is called next.
            if self._fruitless.get(type(module), 0) < _FRUITLESS:
                self._stale[id(scopes[0].module)] = type(module)
                source.coverage.note_foreign_module(type(module).__name__)
            return
        if in_backward():
            return
        foreign = self._stale.pop(id(module), None)
        if source.is_root(module) and foreign is None:
            return  # its own hook begins the pass
        if foreign is None:
            source.attach_late(module, args)
        else:
            found = source.attach(module)
            self._fruitless[foreign] = 0 if found else self._fruitless.get(foreign, 0) + 1
