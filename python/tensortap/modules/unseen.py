"""Why a selected module was not seen."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import nn

from tensortap.torch_glue.module_names import NamedModule, unwrapped

_NOT_REPORTED = "never called, or in code that was compiled before the recording began"


@dataclass(frozen=True)
class ModuleDescription:
    """What is needed to explain why a module was not seen, when it may be gone already."""

    name: str
    type_name: str
    owners: tuple[type, ...]  # the classes of the modules above it, nearest first
    scripted: bool
    compiled: bool
    only_raises: bool = False  # its forward: a module that holds parameters for others

    @classmethod
    def of(cls, entry: NamedModule, parents: dict[int, list[nn.Module]]) -> ModuleDescription:
        above = _all_above(entry.module, parents)
        return cls(
            name=entry.names[0],
            type_name=type(entry.module).__name__,
            owners=tuple(dict.fromkeys(type(module) for module in above[1:])),
            scripted=any(isinstance(module, torch.jit.ScriptModule) for module in above),
            compiled=any(_is_compiled(module) for module in above),
            only_raises=_only_raises(type(entry.module)),
        )


def _all_above(module: nn.Module, parents: dict[int, list[nn.Module]]) -> list[nn.Module]:
    """The module and all that hold it, nearest first."""
    above = [module]
    for known in above:
        above += [parent for parent in parents.get(id(known), []) if not any(parent is other for other in above)]
    return above


def explain_unseen(described: ModuleDescription, module: nn.Module | None, seen_compiled: bool | None = None) -> str:
    """How it may have come about that a module was selected and not seen.

    `seen_compiled`: whether compiled code reported calls of its model; None: that was not asked for.
    """
    if described.scripted:
        return "scripted"
    if not seen_compiled and (described.compiled or (module is not None and _is_compiled(module))):
        return "inside a compiled region" if seen_compiled is None else _NOT_REPORTED
    if described.owners and issubclass(described.owners[0], nn.MultiheadAttention):
        return "its parent uses its parameters without calling it"
    if described.only_raises:
        return "its forward only raises: others use its parameters"
    step = described.name.rpartition(".")[2]
    for owner in described.owners:
        if where := direct_forward(owner, step):
            return f"called through .forward() at {where}"
    all_reported = seen_compiled or not _compiled_something()
    return "never called" if all_reported else "never called, or inside a compiled region"


def _compiled_something() -> bool:
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and utils.counters["stats"]["unique_graphs"] > 0


def _is_compiled(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None or "_orig_mod" in module._modules


@cache
def _only_raises(owner: type) -> bool:
    """Whether the forward of this class returns nothing, and ends in an exception of its own."""
    forward = owner.__dict__.get("forward")
    if owner.__module__.startswith("torch.nn.modules") or forward is None:
        return False
    try:
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(forward))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    returns = any(isinstance(node, ast.Return) for node in ast.walk(function))
    return isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Raise) and not returns


def direct_forward(owner: type, child: str) -> str | None:
    """Where a method of `owner` calls the forward of the child of this name, or of one it does not name.

    Such a call passes by every hook.
    """
    found = _direct_forwards(owner)
    named = [place for name, place in found if name == child]
    unnamed = [place for name, place in found if name is None]
    return next(iter(named + unnamed), None)


@cache
def _direct_forwards(owner: type) -> list[tuple[str | None, str]]:
    if owner.__module__.startswith("torch.nn.modules"):
        return []
    try:
        lines, first = inspect.getsourcelines(owner)
        file = Path(inspect.getsourcefile(owner) or "?").name
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    found: list[tuple[str | None, str]] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "forward"):
            continue
        target = node.func.value
        if isinstance(target, ast.Call) or (isinstance(target, ast.Name) and target.id == "self"):
            continue  # super().forward(…), self.forward(…)
        place = f"{file}:{first + node.lineno - 1}"
        while isinstance(target, ast.Subscript):
            target = target.value
        found.append((target.attr if isinstance(target, ast.Attribute) else None, place))
    return found


def model_name(root: nn.Module, prefix: str) -> str:
    """What a root is called in reports."""
    return prefix or type(unwrapped(root)).__name__
