"""Module boundaries for operators: which module is being called on each thread."""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.fx import GraphModule
from torch.nn.modules import module as torch_module
from torch.optim.optimizer import Optimizer

from tensortap import _core
from tensortap.torch_glue.call_stack import Handled, handled_now, has_raised, modules_under_way
from tensortap.torch_glue.compiling import forget, hide_while_compiling
from tensortap.torch_glue.hook_warning import ignore_warning_of_global_hooks
from tensortap.torch_glue.module_map import ModuleMap
from tensortap.torch_glue.module_names import named_buffers, named_modules, named_parameters, unwrapped
from tensortap.torch_glue.optimizer_watch import OptimizerWatch
from tensortap.torch_glue.own_calls import is_own_call
from tensortap.torch_glue.program_errors import is_of_program
from tensortap.torch_glue.shared_hook import add_to_all_modules

_CALL = "_call_impl"  # the function that calls the hooks, or what Dynamo has made of it


@functools.cache
def _notes_of(kind: type[nn.Module]) -> str:
    return json.dumps({"class": kind.__qualname__})


class _Entered(NamedTuple):
    module: nn.Module
    name: str
    handled: Handled


class ModuleScopes:
    """Notifies an operator source which module is entered and left, under its full dotted name.

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
        self._roots: ModuleMap[bool] = ModuleMap()  # whose parameters the source can name
        self._thread = threading.local()
        self._guarded = _core.Guard(is_of_program, None, None, None)  # what fails leaves a call in the module around it
        for prefix, model in (models or {}).items():
            self._learn(model, prefix)
        ignore_warning_of_global_hooks()
        self._handles: list[Any] = []
        self.show()
        hide_while_compiling(self)
        self._optimizers = OptimizerWatch(self._guarded, self._name_state)

    def remove(self) -> None:
        """Takes the hooks off."""
        self._optimizers.remove()
        forget(self)
        self.hide()

    def show(self) -> None:
        """Puts the hooks on."""
        self._handles = [
            torch_module.register_module_forward_pre_hook(functools.partial(self._guarded, self._before)),
            add_to_all_modules(functools.partial(self._guarded, self._after)),
        ]

    def hide(self) -> None:
        """Takes the hooks off for a while: a region that Dynamo compiles is not to be guarded on them."""
        while self._handles:
            self._handles.pop().remove()

    def enter_those_under_way(self) -> None:
        """Modules that this thread is inside already, whose calls the hooks have not seen."""
        for module in modules_under_way():
            self._before(module, ())

    def enter_early(self, module: nn.Module) -> None:
        """A module whose call has begun, and whose hook may be called only after others that want it entered."""
        entered = self._entered()
        if entered and entered[-1].module is module:
            return  # it was under way
        self._before(module, ())
        self._thread.early = module

    def name_of(self, module: nn.Module) -> str:
        """The name of a module that is being called."""
        name = self._names.get(module)
        if name is None and not self._entered():
            self._learn(module, "")
            name = self._names.get(module)
        if name is None:
            name = type(module).__name__
            outer = self._entered()
            name = f"{outer[-1].name}.{name}" if outer else name
        return name

    def _learn(self, root: nn.Module, prefix: str) -> None:
        for entry in named_modules(root, prefix):
            if entry.module not in self._names:
                self._names[entry.module] = entry.names[0]
        self._name_parameters(root, prefix)

    def _name_parameters(self, root: nn.Module, prefix: str) -> None:
        self._roots[root] = True
        names: dict[int, tuple[torch.Tensor, list[str]]] = {}
        for name, parameter in named_parameters(root, prefix):
            self._source.name_leaf(parameter, name)
            names.setdefault(id(parameter), (parameter, []))[1].append(name)
        for name, buffer in named_buffers(root, prefix):
            names.setdefault(id(buffer), (buffer, []))[1].append(name)
        for tensor, (first, *others) in names.values():
            self._source.name_tensor(tensor, f"{first} (also {', '.join(others)})" if others else first)

    def _name_state(self, optimizer: Optimizer) -> None:
        for parameter, state in optimizer.state.items():
            name = self._source.name_of(parameter) if isinstance(parameter, torch.Tensor) else ""
            for own, tensor in state.items() if name and isinstance(state, Mapping) else ():
                if isinstance(tensor, torch.Tensor):
                    self._source.name_tensor(tensor, f"{own} of {name}")

    def _entered(self) -> list[_Entered]:
        if not hasattr(self._thread, "entered"):
            self._thread.entered = []
        return self._thread.entered

    def _leave_those_that_ended(self) -> None:
        """Modules that ended unseen: by a KeyboardInterrupt, or while another thread compiled.

        Whoever was entered last is as a rule the module that calls this one, and nothing else is looked at.
        """
        entered = self._entered()
        frame = sys._getframe(2)
        called: set[int] = set()
        is_own = True  # the first is the call of the module itself
        while frame is not None:
            if _CALL in frame.f_code.co_name:
                caller = frame.f_locals.get("self")
                if not is_own:
                    called.add(id(caller))
                    if caller is entered[-1].module:
                        return
                is_own = False
            frame = frame.f_back
        while entered and id(entered[-1].module) not in called:
            entered.pop()
            self._source.leave(raised=True)

    # A compiled region has no modules any more, and what stands for it is none of the program's.
    def _before(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling() or is_own_call() or self._is_compiled_region(module):
            return
        early, self._thread.early = getattr(self._thread, "early", None), None
        if early is module:
            return
        given = self._name_given(module)
        entered = self._entered()
        name = given if given is not None else self.name_of(module)
        if given is not None and not entered and module not in self._roots:
            self._name_parameters(module, "" if given == type(unwrapped(module)).__name__ else given)
        # A part of the module entered last is as a rule called by it: then nobody has ended unseen.
        is_known = given is not None or module in self._names
        if entered and not (is_known and name.startswith(entered[-1].name + ".")):
            self._leave_those_that_ended()
            name = given if given is not None else self.name_of(module)
        entered.append(_Entered(module, name, handled_now()))
        self._source.enter(name, _notes_of(type(module)), given is None)

    def _is_compiled_region(self, module: nn.Module) -> bool:
        if not isinstance(module, GraphModule) or module in self._names:
            return False
        return not module._modules or type(module).__name__.startswith("CompiledAutograd")

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or is_own_call():
            return
        self._thread.early = None
        entered = self._entered()
        # An exception that passed by the hooks (KeyboardInterrupt) left inner modules behind.
        while any(known.module is module for known in entered):
            last = entered.pop()
            self._source.leave(last.module is not module or has_raised(last.handled))
            if last.module is module:
                return
