"""The modules that the nodes of a graph stem from: their names, and where in the graph each begins, ends and gives."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from tensortap.graph.fx.identity import target_name
from tensortap.graph.fx.notes import parameter_steps, path_steps
from tensortap.graph.fx.text import source_of
from tensortap.torch_glue.module_names import named_modules, unwrapped

# Their results are tuples, of which a graph may use one: which it is, it does not say.
_SEVERAL = (nn.MultiheadAttention, nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True)
class Entry:
    """A module that a node stems from."""

    key: str  # distinguishes calls of one module
    steps: tuple[str, ...]  # from what the compiled function knows
    kind: type


def module_entries(node: fx.Node) -> list[Entry]:
    """Outermost first; of a node of the backward, where its forward was."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return [Entry(key, path_steps(path), kind) for key, (path, kind) in stack.items() if isinstance(kind, type)]


class Origin:
    """What the names in a graph begin with: the module whose forward was compiled, or what a function calls."""

    def __init__(self, module: fx.GraphModule, owner: nn.Module | None) -> None:
        first = [entries[0] for node in module.graph.nodes if (entries := module_entries(node))]
        self.tops = tuple(dict.fromkeys(entry.steps for entry in first))
        self.sources = [
            getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
            for node in module.graph.nodes
            if node.op == "placeholder"
        ]
        # Whether the modules are found below the one that is being called.
        below = [isinstance(_walked(owner, entry.steps), entry.kind) for entry in first]
        paths = [steps for source in self.sources if (steps := parameter_steps(source)) is not None]
        below += [isinstance(_walked(owner, steps[:-1]), nn.Module) for steps in paths]
        self.of_owner = owner is not None and all(below)

    def relative(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        """The steps from the model, whichever way the function knows it."""
        if not self.of_owner:
            for top in self.tops:
                if steps[: len(top)] == top:
                    return steps[len(top) :]
        return steps

    def parameter(self, node: fx.Node) -> tuple[str, ...] | None:
        """The steps to the parameter or buffer that a placeholder or get_attr gives."""
        if node.op == "placeholder":
            described = node.meta.get("desc")
            source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
            if source is None and type(described).__name__ == "PlainAOTInput" and described.idx < len(self.sources):
                source = self.sources[described.idx]
            if source is None and isinstance(getattr(described, "target", None), str):
                return tuple(described.target.split("."))
            return parameter_steps(source)
        return None


class Names:
    """The dotted names of a graph's modules below the model that is being called; those the module source gives."""

    def __init__(self, origin: Origin, root: nn.Module | None, owner: nn.Module | None) -> None:
        self._origin = origin
        self._owner = weakref.ref(owner) if owner is not None and origin.of_owner else None
        self._known: dict[int, str] = {}
        self._prefix = ""
        if root is not None and self._owner is not None:
            self._known = {id(entry.module): entry.names[0] for entry in named_modules(root)}
            self._prefix = self._known.get(id(owner), "") if owner is not unwrapped(root) else ""
        self._notes: dict[fx.Node, str] = {}
        self._of_entries: dict[Entry, str] = {}

    def of_entry(self, entry: Entry) -> str:
        name = self._of_entries.get(entry)
        if name is None:
            name = self._of_entries[entry] = self.of_steps(entry.steps, entry.kind)
        return name

    def of_steps(self, steps: tuple[str, ...], kind: type | None = None) -> str:
        module = _walked(self._owner(), steps) if steps and self._owner is not None else None
        if module is not None and id(module) in self._known:
            return self._known[id(module)]
        relative = self._origin.relative(steps)
        return ".".join(([self._prefix] if self._prefix else []) + list(relative)) or (kind.__name__ if kind else "")

    def notes_of(self, node: fx.Node) -> str:
        """What is said of a node, as JSON."""
        if node not in self._notes:
            self._notes[node] = self._describe(node)
        return self._notes[node]

    def _describe(self, node: fx.Node) -> str:
        notes: dict[str, Any] = {"op": node.op}
        if node.op not in ("placeholder",):
            notes["target"] = target_name(node)
        entries = module_entries(node) if node.op.startswith("call_") else []
        if entries:
            notes["module"] = self.of_entry(entries[-1])
        if node.op.startswith("call_") and (source := source_of(node)):
            notes["source"] = source
        if (steps := self._origin.parameter(node)) is not None:
            module = self.of_steps(steps[:-1]) if len(steps) > 1 else self._prefix
            notes["parameter"] = f"{module}.{steps[-1]}" if module else steps[-1]
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            notes["subgraph"] = "run as one node"
        return json.dumps(notes, ensure_ascii=False).encode("utf-8", "replace").decode()


@dataclass(eq=False)
class Scope:
    """A call of a module, as far as it is in the graph."""

    entry: Entry
    nodes: list[fx.Node] = field(default_factory=list)
    has_scopes: bool = False
    output: fx.Node | None = None  # the node whose value is the module's


class Scopes:
    """Where in a graph the calls of modules begin and end: those in which one of `recorded` is."""

    def __init__(self, nodes: Iterable[fx.Node], recorded: set[fx.Node]) -> None:
        self._begin: dict[fx.Node, list[Scope]] = {}
        self._end: dict[fx.Node, list[Scope]] = {}
        found: list[Scope] = []
        open_scopes: list[Scope] = []
        last: fx.Node | None = None
        for node in nodes:
            if not node.op.startswith("call_"):
                continue
            entries = module_entries(node) if "nn_module_stack" in node.meta else []
            common = 0
            while common < min(len(entries), len(open_scopes)) and open_scopes[common].entry == entries[common]:
                common += 1
            self._close(last, open_scopes, common)
            for entry in entries[common:]:
                if open_scopes:
                    open_scopes[-1].has_scopes = True
                open_scopes.append(Scope(entry))
                found.append(open_scopes[-1])
                self._begin.setdefault(node, []).append(open_scopes[-1])
            for scope in open_scopes:
                scope.nodes.append(node)
            last = node
        self._close(last, open_scopes, 0)
        keys = [scope.entry for scope in found]
        for scope in found:
            if not recorded.intersection(scope.nodes):
                self._drop(scope)
            elif not scope.has_scopes and keys.count(scope.entry) == 1:
                scope.output = _output_of(scope, recorded)

    def begin_before(self, node: fx.Node) -> list[Scope]:
        return self._begin.get(node, [])

    def end_after(self, node: fx.Node) -> list[Scope]:
        return self._end.get(node, [])

    def _close(self, last: fx.Node | None, open_scopes: list[Scope], keep: int) -> None:
        while len(open_scopes) > keep:
            assert last is not None
            self._end.setdefault(last, []).append(open_scopes.pop())

    def _drop(self, scope: Scope) -> None:
        self._begin[scope.nodes[0]].remove(scope)
        self._end[scope.nodes[-1]].remove(scope)


def _output_of(scope: Scope, recorded: set[fx.Node]) -> fx.Node | None:
    """The node that gives what the module returned, where there is no doubt."""
    inside = set(scope.nodes)
    outside = [n for n in scope.nodes if any(user not in inside and user.op != "output" for user in n.users)]
    # What a graph hands out may be there for the backward only.
    outside = outside or [n for n in scope.nodes if any(user.op == "output" for user in n.users)]
    if issubclass(scope.entry.kind, _SEVERAL) or not outside:
        return None
    is_torch = scope.entry.kind.__module__.startswith("torch.nn.modules")
    if len(outside) == 1 and (is_torch or outside[0] is scope.nodes[-1]):
        output = outside[0]
    elif is_torch and scope.nodes[-1] in outside:
        output = scope.nodes[-1]  # the others are shared with other modules: views of its input
    else:
        return None
    return output if output in recorded else None


def _walked(module: nn.Module | None, steps: Iterable[str]) -> nn.Module | None:
    found: Any = module
    for step in steps:
        found = found._modules.get(step) if isinstance(found, nn.Module) else None
    return found if isinstance(found, nn.Module) else None
