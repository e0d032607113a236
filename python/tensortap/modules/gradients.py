"""Gradients of module outputs and inputs, taken without adding anything to the graph.

A full backward hook of PyTorch puts an identity function around the module: outputs become views, in-place operations
on them fail, and gradients are summed in another order. Here nothing is inserted:

- `grad_out`, the gradient of an output, is what a hook on the output tensor is given.
- `grad_in`, what the module passes back to an input, is what the module's own nodes pass along the edges that lead to
  that input. The gradient of the input as a whole, over all its uses, is the `grad_out` of the module that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils.hooks import RemovableHandle, unserializable_hook

from tensortap.torch_glue.dispatch_modes import no_modes

Edge = tuple[Any, int]  # a node of the graph, and which of its inputs
Sink = Callable[[torch.Tensor], None]


def sequence_mark() -> int:
    """Nodes made after this have a sequence number that is not below it."""
    return torch._C._autograd._get_sequence_nr()


def edge_of(tensor: torch.Tensor) -> Edge:
    """Where the gradient of a tensor that requires one goes."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    with no_modes():  # PyTorch finds out by making a view of a leaf
        edge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def watch_tensor(tensor: torch.Tensor, sink: Sink) -> RemovableHandle | None:
    """Gives the gradient of a tensor to `sink`; a handle when the hook would outlive the graph."""

    @unserializable_hook
    def hook(gradient: torch.Tensor) -> None:
        sink(gradient)

    handle = tensor.register_hook(hook)
    return handle if tensor.is_leaf else None


@dataclass
class Watched:
    """What came of watching the inputs of a call."""

    watched: int = 0
    handles: list[RemovableHandle] = field(default_factory=list)


def watch_inputs(
    inputs: Iterable[tuple[Edge, torch.Tensor, Sink]], outputs: Iterable[torch.Tensor], mark: int
) -> Watched:
    """Gives what a call passes back to each of its inputs to that input's sink.

    Parameters
    ----------
    inputs
        The call's inputs that require a gradient: the edge they had before it, the tensor, and the sink. A tensor that
        is passed several times has several, and each is given the sum.
    outputs
        The call's outputs that require a gradient.
    mark
        sequence_mark() from before the call: older nodes are not the call's.
    """
    sinks: dict[Edge, list[Sink]] = {}
    tensors: dict[Edge, torch.Tensor] = {}
    for edge, tensor, sink in inputs:
        sinks.setdefault(edge, []).append(sink)
        tensors[edge] = tensor
    passed_through, contributions = _find_edges(sinks, outputs, mark)
    result = Watched()
    for edge, edge_sinks in sinks.items():
        sink = _fan_out(edge_sinks)
        if edge in passed_through:
            # The same tensor before and after: there is no edge between them, only its gradient.
            handle = watch_tensor(tensors[edge], sink)
            result.handles += [handle] if handle is not None else []
        elif contributions[edge]:
            _watch_edges(contributions[edge], sink)
        else:
            continue
        result.watched += len(edge_sinks)
    return result


def _fan_out(sinks: list[Sink]) -> Sink:
    def give(gradient: torch.Tensor) -> None:
        for sink in sinks:
            sink(gradient)

    return sinks[0] if len(sinks) == 1 else give


def _find_edges(
    wanted: Iterable[Edge], outputs: Iterable[torch.Tensor], mark: int
) -> tuple[set[Edge], dict[Edge, list[tuple[Any, int]]]]:
    """The inputs that are also outputs; and for the others the nodes, with position, that lead to them."""
    contributions: dict[Edge, list[tuple[Any, int]]] = {edge: [] for edge in wanted}
    passed_through: set[Edge] = set()
    stack, seen = [], set()
    for output in outputs:
        edge = edge_of(output)
        if edge in contributions:
            passed_through.add(edge)
        else:
            stack.append(edge[0])
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for position, (following, number) in enumerate(node.next_functions):
            if following is None:
                continue
            if (following, number) in contributions:
                contributions[following, number].append((node, position))
            elif following._sequence_nr() >= mark:
                stack.append(following)
    return passed_through, contributions


def _watch_edges(edges: list[tuple[Any, int]], sink: Sink) -> None:
    if len(edges) == 1:
        node, position = edges[0]

        def single(grad_inputs: tuple[torch.Tensor | None, ...], _: object) -> None:
            gradient = grad_inputs[position]
            if gradient is not None:
                sink(gradient)

        node.register_hook(single)
        return

    by_node: dict[Any, list[int]] = {}
    for node, position in edges:
        by_node.setdefault(node, []).append(position)
    parts: list[torch.Tensor] = []

    def at_end_of_backward() -> None:
        with no_modes(), torch.no_grad():
            total, *others = parts
            parts.clear()
            for part in others:
                total = total + part
        sink(total)

    def hook(positions: list[int], grad_inputs: tuple[torch.Tensor | None, ...]) -> None:
        for position in positions:
            part = grad_inputs[position]
            if part is None:
                continue
            if not parts:
                torch.autograd.Variable._execution_engine.queue_callback(at_end_of_backward)
            with no_modes(), torch.no_grad():
                parts.append(part.clone())  # the engine may add to it in place

    for node, positions in by_node.items():
        node.register_hook(lambda grad_inputs, _, positions=positions: hook(positions, grad_inputs))
