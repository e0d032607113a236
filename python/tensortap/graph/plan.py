"""A graph made ready to be recorded."""

from __future__ import annotations

from torch import fx

from tensortap.graph.arguments import nodes_in
from tensortap.graph.fx.notes import stack_of
from tensortap.graph.fx.writes import may_write
from tensortap.graph.graph_session import GraphSession
from tensortap.graph.modules import Scopes
from tensortap.graph.node import Argument, NodeTap
from tensortap.graph.program import Program


class Plan:
    """What of a graph is recorded, decided once: a tap for each node that the filter selects."""

    def __init__(self, session: GraphSession, module: fx.GraphModule, part: str, selected: set[fx.Node]) -> None:
        nodes = [node for node in module.graph.nodes if node.op != "output"]
        self.node_count = len(nodes)
        self.registers = {node: number for number, node in enumerate(nodes)}
        last_write = _last_writes(nodes)
        taps = {node: self._tap(session, node, last_write) for node in nodes if node in selected}
        checked = {argument.register for tap in taps.values() for argument in tap.arguments if argument.checked}
        for tap in taps.values():
            tap.versioned = tap.register in checked
        self.versioned = checked
        self.selected = len(selected)
        scopes = Scopes(nodes if part != "backward" else [], selected)
        self.program = Program(module, self.registers, taps, scopes)

    def _tap(self, session: GraphSession, node: fx.Node, last_write: dict[fx.Node, int]) -> NodeTap:
        used = nodes_in(node.args, node.kwargs)
        arguments = [
            Argument(self.registers[each], path, checked=last_write[node] > self.registers[each]) for each, path in used
        ]
        return NodeTap(
            node,
            self.registers[node],
            session.options.levels.of_name(node.name),
            [each for each, _ in used],
            arguments,
            writes=may_write(node),
            inputs=session.inputs,
            outputs=session.outputs,
            stack=stack_of(node) if session.options.stacks else "",
            stable=session.parameters == "once" and node.op in ("placeholder", "get_attr"),
        )


def _last_writes(nodes: list[fx.Node]) -> dict[fx.Node, int]:
    """For each node the number of the last one before it that may write to something; -1: none."""
    found, last = {}, -1
    for number, node in enumerate(nodes):
        found[node] = last
        if may_write(node):
            last = number
    return found
