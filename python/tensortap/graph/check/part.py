"""A part of a graph as a graph of its own: what it takes from outside becomes its inputs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from tensortap.graph.fx.writes import may_write


@dataclass(frozen=True)
class Part:
    """Some nodes of a graph, with values for what they use of the others.

    Attributes
    ----------
    module
        The part as a graph that can run; its nodes have the names they had.
    inputs
        Its inputs, as the whole graph had them.
    outputs
        The nodes, of the whole graph, whose values it returns.
    """

    module: torch.fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.fx.Node, ...]

    @property
    def nodes(self) -> list[torch.fx.Node]:
        """Those that compute something."""
        return [node for node in self.module.graph.nodes if node.op.startswith("call_")]

    def fresh_inputs(self) -> list[torch.Tensor]:
        """Copies, for a run that may write to them."""
        return [_copied(value) for value in self.inputs]


class NodeValues(torch.fx.Interpreter):
    """Runs a graph and keeps the value of every node as it was when it was computed."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[torch.fx.Node, Any] = {}
        writes = any(may_write(node) for node in module.graph.nodes)
        self._kept = _copied if writes else torch.Tensor.detach

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self.values[n] = pytree.tree_map_only(torch.Tensor, self._kept, result)
        return result


def candidates(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes that a part can be made of, in order."""
    return [node for node in module.graph.nodes if node.op.startswith("call_")]


def ancestors(nodes: Iterable[torch.fx.Node], within: Iterable[torch.fx.Node]) -> list[torch.fx.Node]:
    """Of `within`, these nodes and all they are computed from, in the order of `within`."""
    within = list(within)
    allowed, found, left = set(within), set(), list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += [used for used in node.all_input_nodes if used in allowed]
    return [node for node in within if node in found]


def tensor_nodes(nodes: Iterable[torch.fx.Node], values: dict[torch.fx.Node, Any]) -> list[torch.fx.Node]:
    """Those whose value is a tensor, or holds one."""
    return [n for n in nodes if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(values.get(n)))]


def sinks(nodes: Sequence[torch.fx.Node], values: dict[torch.fx.Node, Any]) -> list[torch.fx.Node]:
    """The nodes whose values no other of them uses."""
    inside = set(nodes)
    return tensor_nodes((node for node in nodes if not any(user in inside for user in node.users)), values)


def part_of(
    module: torch.fx.GraphModule,
    nodes: Sequence[torch.fx.Node],
    outputs: Sequence[torch.fx.Node],
    values: dict[torch.fx.Node, Any],
) -> Part:
    """Make the part of `module` that consists of `nodes` and returns the values of `outputs`."""
    graph = torch.fx.Graph()
    inside = set(nodes)
    made: dict[torch.fx.Node, Any] = {}
    inputs: list[torch.Tensor] = []
    for node in module.graph.nodes:
        if node in inside or node.op == "output" or not any(user in inside for user in node.users):
            continue
        made[node] = _from_outside(node, values.get(node), graph, inputs)
    for node in nodes:
        copied = graph.node_copy(node, lambda used: made[used])
        if node.target is operator.pow and isinstance(node.args[0], int | float) and node.args[0] < 0:
            copied.target = torch.pow  # the code that FX writes for the operator means -(2 ** x)
        made[node] = copied
    graph.output(tuple(made[node] for node in outputs))
    for node in graph.nodes:  # sizes that were symbols are numbers now
        for name in ("example_value", "val", "grapharg", "tensor_meta"):
            node.meta.pop(name, None)
    return Part(torch.fx.GraphModule(module, graph), tuple(inputs), tuple(outputs))


def _from_outside(node: torch.fx.Node, value: Any, graph: torch.fx.Graph, inputs: list[torch.Tensor]) -> Any:
    """What stands for a node that is not of the part: inputs for its tensors, and what else it holds as it is."""
    leaves, structure = pytree.tree_flatten(value)
    if node.op == "get_attr" and not isinstance(value, torch.Tensor):
        return graph.node_copy(node)
    several = sum(isinstance(leaf, torch.Tensor) for leaf in leaves) > 1
    stand_ins: list[Any] = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            stand_in = graph.placeholder(f"{node.name}_{i}" if several else node.name)
            stand_in.meta["stack_trace"] = node.meta.get("stack_trace", "")
            inputs.append(leaf)
            stand_ins.append(stand_in)
        else:
            stand_ins.append(leaf)
    return pytree.tree_unflatten(stand_ins, structure)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return tensor.detach().clone(memory_format=torch.preserve_format)
