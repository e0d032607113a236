"""Hooks on modules that change nothing else about them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

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


class Hook:
    """A hook that copies of the model do not inherit: a copy and a pickle get one that does nothing."""

    def __init__(
        self,
        guarded: _core.Guard | None = None,
        work: Callable[..., None] | None = None,
        module: nn.Module | None = None,
        compiled: tuple[compiled_calls.Stage, str] | None = None,
    ) -> None:
        self._guarded = guarded
        self._work = work
        self._module = weakref.ref(module) if module is not None else None
        self._compiled = compiled  # what it reports from inside compiled code; None: nothing

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return Hook()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # Takes any arguments, does nothing, and is to be had where TensorTap is not.
        return getattr, (contextlib.nullcontext(), "__exit__")

    # Dynamo follows hooks into compiled regions. Unless calls in there are recorded it sees nothing behind
    # is_compiling(), so a model compiles to the same code as without them.
    def __call__(self, module: nn.Module, *arguments: Any) -> None:
        if torch.compiler.is_compiling():
            if self._compiled is not None:
                compiled_calls.report_hook(*self._compiled, arguments)
            return
        if self._module is not None and self._module() is module:
            self._guarded(self._work, *arguments)  # type: ignore[misc]


class HookSet:
    """The hooks of one recording. What they do, `guarded` runs."""

    def __init__(self, guarded: _core.Guard) -> None:
        self._guarded = guarded
        self._handles: list[RemovableHandle | SharedHandle] = []
        self._global: list[RemovableHandle | SharedHandle] = []
        self._before: ModuleMap[list[Hook]] = ModuleMap()  # of modules that are served from the global hooks
        self._after: ModuleMap[list[Hook]] = ModuleMap()
        self._served: ModuleMap[bool] = ModuleMap()
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
        hook = Hook(self._guarded, work, module, compiled)
        if module in self._served:
            self._add_global(self._before, module, hook, first=first)
        else:
            self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True, prepend=first))

    def after(
        self,
        module: nn.Module,
        work: Callable[..., None],
        *,
        always: bool,
        compiled: tuple[compiled_calls.Stage, str] | None = None,
    ) -> None:
        """Calls work(output) after each call; `always`: also after one that has raised."""
        hook = Hook(self._guarded, lambda args, output: work(output), module, compiled)
        if module in self._served:
            self._add_global(self._after, module, hook)
        elif compiled is None:
            self._handles.append(shared_hook.add_to_module(module, hook, always=always))
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
                shared_hook.add_to_all_modules(self._after_any),
            ]

    def _before_any(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        hooks = self._before.get(module)
        if not hooks:
            return
        keywords = keywords_of_call(module)
        for hook in hooks:
            hook(module, args, keywords)

    def _after_any(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        for hook in self._after.get(module) or ():
            hook(module, args, output)

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
