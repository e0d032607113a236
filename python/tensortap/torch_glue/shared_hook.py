"""One forward hook for all recordings.

PyTorch walks a dict of forward hooks while a call raises. Another thread, or a signal handler, may begin or end a
recording just then, and "OrderedDict mutated during iteration" would take the place of the program's exception. A walk
does not notice a change behind the last entry. So all recordings share one entry of a dict, which is added as the last
and removed as the only one; where the program has hooks beside it, an empty entry stays.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.utils.hooks import RemovableHandle

ForwardHook: TypeAlias = Callable[[nn.Module, Any, Any], Any]

_CALL = nn.Module._call_impl.__code__  # walks the hooks itself only while a call raises
_KEY: int = RemovableHandle(OrderedDict()).id  # of the entry in every dict; no other hook has this number


class SharedHook:
    """The entry of one dict. A copy of a model gets an empty one, a pickle one that does nothing."""

    def __init__(self) -> None:
        # Changed and read by single operations only, so signal handlers and threads need no lock.
        self.hooks: dict[int, tuple[ForwardHook, bool]] = {}
        self.changes: dict[int, ForwardHook] = {}  # what they return takes the place of the output
        self.entries: weakref.ref[OrderedDict[int, Any]] | None = None  # the dict
        self.always_called: weakref.ref[OrderedDict[int, bool]] | None = None  # what PyTorch keeps beside it

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedHook:
        return SharedHook()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # Takes any arguments, and is to be had where TensorTap is not.
        return getattr, (contextlib.nullcontext(), "__exit__")

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if torch.compiler.is_compiling():
            return None
        has_raised = sys._getframe(1).f_code is _CALL
        changed = None
        for change in tuple(self.changes.values()):
            answer = change(module, args, output)
            if answer is not None and not has_raised:
                output = changed = answer
        for hook, always in tuple(self.hooks.values()):
            if always or not has_raised:
                hook(module, args, output)
        if self.is_empty():
            self.leave()  # the program may have removed its own by now
        return changed

    def is_empty(self) -> bool:
        """Whether it calls nothing."""
        return not self.hooks and not self.changes

    def leave(self) -> None:
        """Removes the entry if it is empty and the only one."""
        entries = self.entries() if self.entries is not None else None
        always_called = self.always_called() if self.always_called is not None else None
        if not self.is_empty() or entries is None or always_called is None:
            return
        if [*entries] != [_KEY] or entries.get(_KEY) is not self:
            return
        entries.pop(_KEY, None)
        always_called.pop(_KEY, None)
        # Another thread may have added a hook since the entry was seen to be empty.
        if not self.is_empty():
            entries.setdefault(_KEY, self)
        if _KEY in entries:
            always_called[_KEY] = True


class SharedHandle:
    """Removes one hook again."""

    def __init__(self, shared: SharedHook, key: int) -> None:
        assert shared.entries is not None
        self.hooks_dict_ref = shared.entries  # as a RemovableHandle has it
        self._shared = shared
        self._key = key

    def remove(self) -> None:
        """The entry stays while it has hooks of other recordings, or the program has some."""
        self._shared.hooks.pop(self._key, None)
        self._shared.changes.pop(self._key, None)
        self._shared.leave()


def add_to_module(
    module: nn.Module, hook: ForwardHook, *, always: bool, changes: bool = False
) -> SharedHandle | RemovableHandle:
    """As module.register_forward_hook(hook, always_call=always).

    `changes`: what the hook returns, unless it is None, takes the place of the output, also for the other hooks that
    share the entry. It is always called.
    """
    hooks = module._forward_hooks
    if [*hooks][-1:] != [_KEY] and _KEY in hooks:  # the program has added one since, which is to be called before this
        return module.register_forward_hook(hook, always_call=always or changes)
    return _add(hooks, module._forward_hooks_always_called, hook, always=always, changes=changes)


def add_to_all_modules(hook: ForwardHook, *, changes: bool = False) -> SharedHandle:
    """As register_module_forward_hook(hook, always_call=True), but for the order among several."""
    entries, always_called = torch_module._global_forward_hooks, torch_module._global_forward_hooks_always_called
    return _add(entries, always_called, hook, always=True, changes=changes)


def _add(
    hooks: OrderedDict[int, Any],
    always_called: OrderedDict[int, bool],
    hook: ForwardHook,
    *,
    always: bool,
    changes: bool,
) -> SharedHandle:
    key = id(hook)
    while True:
        always_called[_KEY] = True
        shared = hooks.setdefault(_KEY, SharedHook())
        if not isinstance(shared, SharedHook):  # of a model that was pickled meanwhile: it does nothing
            shared = hooks[_KEY] = SharedHook()
        shared.entries, shared.always_called = weakref.ref(hooks), weakref.ref(always_called)
        if changes:
            shared.changes[key] = hook
        else:
            shared.hooks[key] = hook, always
        if hooks.get(_KEY) is shared:
            always_called[_KEY] = True
            return SharedHandle(shared, key)
        shared.hooks.pop(key, None)  # another thread has removed the entry in between
        shared.changes.pop(key, None)
