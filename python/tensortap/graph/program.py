"""A graph as a Python function: a line for each node, and around the recorded ones what records them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from types import TracebackType
from typing import Any

import torch
from torch import fx

from tensortap.graph.modules import Scopes
from tensortap.graph.node import NodeTap


class Program:
    """Runs the nodes one after the other, as torch.fx.Interpreter would: `program(run, arguments)`.

    The list of arguments is emptied, and every value let go of after its last use. The registers are local variables,
    so a node that is not recorded costs its call and nothing else.
    """

    def __init__(
        self, module: fx.GraphModule, registers: Mapping[fx.Node, int], taps: Mapping[fx.Node, NodeTap], scopes: Scopes
    ) -> None:
        self._module = module
        self._registers = registers
        self._taps = taps
        self._scopes = scopes
        self._lines: list[str] = []
        self._nodes: list[fx.Node | None] = []  # of each line
        self._globals: dict[str, Any] = {"slice": slice}
        self._function = self._compiled()

    def __call__(self, run: Any, arguments: list[Any]) -> Any:
        return self._function(run, arguments)

    def node_at(self, trace: TracebackType | None) -> fx.Node | None:
        """The node that raised."""
        while trace is not None:
            if trace.tb_frame.f_code is self._function.__code__:
                return self._nodes[trace.tb_lineno - 1]
            trace = trace.tb_next
        return None

    # ---- making it ----

    def _compiled(self) -> Callable[[Any, list[Any]], Any]:
        nodes = list(self._module.graph.nodes)
        self._line("def program(run, arguments):", None)
        inputs = [self._register(node) for node in nodes if node.op == "placeholder"]
        if inputs:
            self._line(f" {', '.join(inputs)}, = arguments", None)
        self._line(" arguments.clear()", None)
        last_uses = _last_uses(nodes)
        for node in nodes:
            self._scope_lines(node)
            if node.op == "output":
                self._line(f" return {self._expression(node.args[0])}", node)
                break
            self._node_lines(node)
            self._scope_ends(node)
            if over := [self._register(used) for used in last_uses.get(node, [])]:
                self._line(f" {' = '.join(over)} = None", node)
        code = compile("\n".join(self._lines), "<graph recorded by tensortap>", "exec")
        exec(code, self._globals)
        return self._globals.pop("program")

    def _line(self, text: str, node: fx.Node | None) -> None:
        self._lines.append(text)
        self._nodes.append(node)

    def _node_lines(self, node: fx.Node) -> None:
        tap = self._taps.get(node)
        register = self._register(node)
        if tap is not None:
            values = ", ".join(self._register(used) for used in tap.used)
            before = self._constant(tap.before)
            self._line(f" call = {before}(run, ({values}{',' if values else ''}))", node)
        if node.op != "placeholder":
            self._line(f" {register} = {self._call(node)}", node)
        if tap is not None:
            self._line(f" {self._constant(tap.after)}(run, call, {register}); call = None", node)

    def _scope_lines(self, node: fx.Node) -> None:
        for scope in self._scopes.begin_before(node):
            self._line(f" run.enter({self._constant(scope)})", node)

    def _scope_ends(self, node: fx.Node) -> None:
        for scope in self._scopes.end_after(node):
            value = self._register(scope.output) if scope.output is not None else "None"
            self._line(f" run.leave({self._constant(scope)}, {value})", node)

    def _call(self, node: fx.Node) -> str:
        args = [self._expression(value) for value in node.args]
        if node.op == "call_method":
            receiver, args = args[0], args[1:]
            function = f"{receiver}.{node.target}"
        elif node.op == "call_function":
            function = self._constant(node.target)
        else:
            fetched = f"{self._constant(partial(_fetch, self._module, str(node.target)))}()"
            if node.op == "get_attr":
                return fetched
            function = fetched
        args += [f"**{{{name!r}: {self._expression(value)}}}" if not name.isidentifier() else
                 f"{name}={self._expression(value)}" for name, value in node.kwargs.items()]  # fmt: skip
        return f"{function}({', '.join(args)})"

    def _register(self, node: fx.Node) -> str:
        return f"r{self._registers[node]}"

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._globals)}"
        self._globals[name] = value
        return name

    def _expression(self, value: Any) -> str:
        """An argument as Python; lists and dictionaries are made anew in each run, as the graph's own code does."""
        if isinstance(value, fx.Node):
            return self._register(value)
        if isinstance(value, slice):
            return f"slice({', '.join(map(self._expression, (value.start, value.stop, value.step)))})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._constant(type(value))}({', '.join(map(self._expression, value))})"
        if isinstance(value, tuple) and not isinstance(value, torch.Size):
            return f"({''.join(self._expression(item) + ', ' for item in value)})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._expression, value))}]"
        if isinstance(value, dict):
            items = (f"{self._expression(key)}: {self._expression(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        if value is None or value is True or value is False or type(value) is int or type(value) is str:
            return f"({value!r})" if type(value) is int else repr(value)
        return self._constant(value)


def _last_uses(nodes: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """After which node which values are used no more; those that nobody uses, after their own."""
    found: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(nodes):
        for used in (*node.all_input_nodes, node):
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
    return found


def _fetch(module: torch.nn.Module, target: str) -> Any:
    return reduce(getattr, target.split("."), module)
