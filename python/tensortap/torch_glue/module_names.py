"""The names of the modules below a root, the same for wrapped and bare models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from tensortap.torch_glue.storable_text import storable

# A child under one of these names is what its parent wraps.
_WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
# These wrap a child called `module`, a name that other modules use for something else.
_MODULE_WRAPPERS = {
    "AveragedModel",
    "DataParallel",
    "DeepSpeedEngine",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
}
# These run their children's parameters without calling the children, so it is their own output that counts.
_WHOLE = (nn.MultiheadAttention,)


def wrapped_child(module: nn.Module) -> str | None:
    """The name of the child that `module` is only a wrapper of."""
    for name in _WRAPPED:
        if name in module._modules:
            return name
    if "module" in module._modules and any(base.__name__ in _MODULE_WRAPPERS for base in type(module).__mro__):
        return "module"
    return None


def unwrapped(module: nn.Module) -> nn.Module:
    """The model inside all wrappers."""
    while (child := wrapped_child(module)) is not None:
        module = module._modules[child]  # type: ignore[assignment]
    return module


def is_leaf(module: nn.Module) -> bool:
    """Whether no other module does this one's work."""
    if isinstance(module, _WHOLE):
        return True
    return all(child is None or name == "parametrizations" for name, child in module._modules.items())


@dataclass
class NamedModule:
    """A module with all the names it is known by; the first is the one its records carry."""

    module: nn.Module
    names: list[str] = field(default_factory=list)
    wrapper: bool = False


def named_modules(root: nn.Module, prefix: str = "") -> list[NamedModule]:
    """Every module below and including `root`, in order of definition.

    A wrapper shares the name of what it wraps. The root's own name is the prefix, or without one its class's name.
    """
    found: dict[int, NamedModule] = {}
    for name, module in _walk(root, prefix, []):
        entry = found.setdefault(id(module), NamedModule(module, wrapper=wrapped_child(module) is not None))
        entry.names.append(name or type(unwrapped(root)).__name__)
    return list(found.values())


def named_parameters(root: nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter below `root`, under the names that the bare model gives them; a shared one several times."""
    return _named_tensors(root, prefix, lambda module: module._parameters)


def named_buffers(root: nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The same for buffers."""
    return _named_tensors(root, prefix, lambda module: module._buffers)


def _named_tensors(
    root: nn.Module, prefix: str, held: Callable[[nn.Module], Mapping[str, torch.Tensor | None]]
) -> Iterator[tuple[str, torch.Tensor]]:
    for name, module in _walk(root, prefix, []):
        for own, tensor in held(module).items():
            if isinstance(tensor, torch.Tensor):
                own = storable(own)
                yield f"{name}.{own}" if name else own, tensor


def parents_of(entries: list[NamedModule]) -> dict[int, list[nn.Module]]:
    """Those that hold each module, by its id."""
    parents: dict[int, list[nn.Module]] = {}
    for entry in entries:
        for child in entry.module._modules.values():
            if child is not None:
                parents.setdefault(id(child), []).append(entry.module)
    return parents


def names_by_caller(entry: NamedModule, entries: list[NamedModule]) -> dict[int, str]:
    """Of a module with several names: which one it has in the forward of each module that holds it, by that one's id.

    Empty where that does not tell them apart: one that holds it twice, or a list, which is never called. Where one that
    holds it is inside another, both names are as good.
    """
    if len(entry.names) < 2:
        return {}
    names: dict[int, str] = {}
    holders: list[str] = []
    for holder in entries:
        steps = [step for step, child in holder.module._modules.items() if child is entry.module]
        if not steps:
            continue
        if len(steps) > 1 or len(holder.names) > 1 or isinstance(holder.module, (nn.ModuleList, nn.ModuleDict)):
            return {}
        names[id(holder.module)] = f"{holder.names[0]}.{storable(steps[0])}"
        holders.append(holder.names[0])
    if any(one != other and one.startswith(f"{other}.") for one in holders for other in holders):
        return {}
    return names if set(names.values()) <= set(entry.names) else {}


def _walk(module: nn.Module, name: str, above: list[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    yield name, module
    wrapped = wrapped_child(module)
    above.append(module)
    for step, child in module._modules.items():
        if child is None or any(child is parent for parent in above):  # a module may hold itself
            continue
        if step == wrapped:
            yield from _walk(child, name, above)
        else:
            own = storable(step)
            yield from _walk(child, f"{name}.{own}" if name else own, above)
    above.pop()
