"""Hooks on modules that change nothing else about them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import nn
from torch.jit import _recursive
from torch.nn.modules import module as torch_module
from torch.utils.hooks import RemovableHandle

from tensortap import _core
from tensortap.torch_glue import compiled_calls, shared_hook
from tensortap.torch_glue.call_stack import keywords_of_call
from tensortap.torch_glue.hook_warning import ignore_warning_of_global_hooks
from tensortap.torch_glue.module_map import ModuleMap
from tensortap.torch_glue.shared_hook import SharedHandle, SharedHook

# These look at their own hooks and those of their children, and compute in another way when there are any. Theirs are
# therefore called from a global hook.
_LOOKS_AT_HOOKS = (nn.TransformerEncoderLayer,)


class Changes(Protocol):
    """What hooks return in place of what they are given, when their work is done; None: nothing is changed."""

    def begin(self) -> None:
        """A hook is called, whose work comes next."""

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Of a call that begins."""

    def result(self, args: tuple[Any, ...], output: Any) -> Any:
        """Of a call that ends."""


class Hook:
    """A hook that copies of the model do not inherit: a copy and a pickle get one that does nothing."""

    def __init__(
        self,
        guarded: _core.Guard | None = None,
        work: Callable[..., None] | None = None,
        module: nn.Module | None = None,
        compiled: tuple[compiled_calls.Stage, str] | None = None,
        changes: Changes | None = None,
        answer: Callable[..., Any] | None = None,
    ) -> None:
        self._guarded = guarded
        self._work = work
        self._module = weakref.ref(module) if module is not None else None
        self._compiled = compiled  # what it reports from inside compiled code; None: nothing
        self._changes = changes
        self._answer = answer  # of the changes: gives what the hook returns

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return Hook()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # Takes any arguments, does nothing, and is to be had where TensorTap is not.
        return getattr, (contextlib.nullcontext(), "__exit__")

    # Dynamo follows hooks into compiled regions. Unless calls in there are recorded it sees nothing behind
    # is_compiling(), so a model compiles to the same code as without them.
    def __call__(self, module: nn.Module, *arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            if self._compiled is not None:
                compiled_calls.report_hook(*self._compiled, arguments)
            return None
        if self._module is None or self._module() is not module:
            return None
        if self._changes is None or self._answer is None:
            self._guarded(self._work, *arguments)  # type: ignore[misc]
            return None
        self._changes.begin()
        self._guarded(self._work, *arguments)  # type: ignore[misc]
        return self._answer(*arguments)


class HookSet:
    """The hooks of one recording. What they do, `guarded` runs.

    With `changes` they may change what a module is given and returns; recordings, whenever they began, see it changed.
    """

    def __init__(self, guarded: _core.Guard, changes: Changes | None = None) -> None:
        self._guarded = guarded
        self._changes = changes
        self._handles: list[RemovableHandle | SharedHandle] = []
        self._global: list[RemovableHandle | SharedHandle] = []
        self._before: ModuleMap[list[Hook]] = ModuleMap()  # of modules that are served from the global hooks
        self._after: ModuleMap[list[Hook]] = ModuleMap()
        self._served: ModuleMap[bool] = ModuleMap()
        self._first: ModuleMap[int] = ModuleMap()  # the hook to be called before all others of a module
        _hide_hooks_from_script()

    def serve_globally(self, modules: Iterable[nn.Module]) -> None:
        """Finds those of a model's modules that must have no hooks of their own."""
        for layer in modules:
            if isinstance(layer, _LOOKS_AT_HOOKS):
                for module in layer.modules():
                    self._served[module] = True

    def before(
        self,
        module: nn.Module,
        work: Callable[..., None],
        *,
        first: bool = False,
        compiled: tuple[compiled_calls.Stage, str] | None = None,
    ) -> None:
        """Calls work(args, kwargs) before each call; `first`: before what was given here earlier.

        `compiled`: what the hook reports when it is inside compiled code, the stage and the module's name.
        """
        changes = self._changes
        hook = Hook(self._guarded, work, module, compiled, changes, changes.arguments if changes is not None else None)
        if module in self._served:
            self._add_global(self._before, module, hook, first=first)
        else:
            prepend = first or changes is not None
            handle = module.register_forward_pre_hook(hook, with_kwargs=True, prepend=prepend)
            self._handles.append(handle)
            if first:
                self._first[module] = handle.id
            elif (entering := self._first.get(module)) is not None and prepend:
                module._forward_pre_hooks.move_to_end(entering, last=False)

    def after(
        self,
        module: nn.Module,
        work: Callable[..., None],
        *,
        always: bool,
        compiled: tuple[compiled_calls.Stage, str] | None = None,
    ) -> None:
        """Calls work(output) after each call; `always`: also after one that has raised."""
        changes = self._changes
        answer = changes.result if changes is not None else None
        hook = Hook(self._guarded, lambda args, output: work(output), module, compiled, changes, answer)
        if module in self._served:
            self._add_global(self._after, module, hook)
        elif compiled is None:
            self._handles.append(shared_hook.add_to_module(module, hook, always=always, changes=changes is not None))
        else:  # Dynamo follows it, and would compile again whenever a shared one changes
            self._handles.append(module.register_forward_hook(hook, always_call=always))

    def around_compiled(
        self, module: nn.Module, begins: compiled_calls.Stage, ends: compiled_calls.Stage, name: str
    ) -> None:
        """Reports each call of the module that is inside compiled code; elsewhere it does nothing."""
        if module not in self._served:
            self._handles += [
                module.register_forward_pre_hook(Hook(compiled=(begins, name)), with_kwargs=True),
                module.register_forward_hook(Hook(compiled=(ends, name))),
            ]

    def _add_global(self, served: ModuleMap[list[Hook]], module: nn.Module, hook: Hook, *, first: bool = False) -> None:
        hooks = served.get(module)
        if hooks is None:
            served[module] = [hook]
        else:
            hooks.insert(0 if first else len(hooks), hook)
        if not self._global:
            ignore_warning_of_global_hooks()
            self._global = [
                torch_module.register_module_forward_pre_hook(self._before_any),
                shared_hook.add_to_all_modules(self._after_any, changes=self._changes is not None),
            ]

    def _before_any(self, module: nn.Module, args: Any) -> Any:
        if torch.compiler.is_compiling():
            return None
        hooks = self._before.get(module)
        if not hooks:
            return None
        keywords, changed = keywords_of_call(module), None
        for hook in hooks:
            if (answer := hook(module, args, keywords)) is not None:
                args = changed = answer[0]
                keywords.update(answer[1])  # a global hook returns no keywords: these are the call's own
        return changed

    def _after_any(self, module: nn.Module, args: Any, output: Any) -> Any:
        if torch.compiler.is_compiling():
            return None
        changed = None
        for hook in self._after.get(module) or ():
            if (answer := hook(module, args, output)) is not None:
                output = changed = answer
        return changed

    def remove(self) -> None:
        for handle in self._handles + self._global:
            handle.remove()
        self._handles.clear()
        self._global.clear()

    def forget_dead(self) -> None:
        """Handles of modules that are gone."""
        self._handles = [handle for handle in self._handles if handle.hooks_dict_ref() is not None]


# ---- TorchScript ----


@contextlib.contextmanager
def _without_our_hooks(root: nn.Module) -> Iterator[None]:
    hidden = []
    for module in root.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key, hook in list(hooks.items()):
                if isinstance(hook, (Hook, SharedHook)):
                    hidden.append((hooks, key, hook))
                    del hooks[key]
    try:
        yield
    finally:
        for hooks, key, hook in hidden:
            hooks[key] = hook


def _hide_hooks_from_script() -> None:
    """torch.jit.script compiles a module's hooks with it, and fails at ours."""
    script = _recursive.create_script_module
    if getattr(script, "_hides_tensortap", False):
        return

    def create_script_module(nn_module: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(nn_module, nn.Module):
            return script(nn_module, *args, **kwargs)
        with _without_our_hooks(nn_module):
            return script(nn_module, *args, **kwargs)

    create_script_module._hides_tensortap = True  # type: ignore[attr-defined]
    _recursive.create_script_module = create_script_module
