"""Gradients of module outputs and inputs, taken without adding anything to the graph.

A full backward hook of PyTorch puts an identity function around the module: outputs become views, in-place operations
on them fail, and gradients are summed in another order. Here nothing is inserted:

- `grad_out`, the gradient of an output, is what a hook on the output tensor is given.
- `grad_in`, what the module passes back to an input, is what the module's own nodes pass along the edges that lead to
  that input. The gradient of the input as a whole, over all its uses, is the `grad_out` of the module that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

Edge = tuple[Any, int]
Sink = Callable[[torch.Tensor], None]


def sequence_mark() -> int:
    """Nodes made after this have a sequence number that is not below it."""
    return torch._C._autograd._get_sequence_nr()


def watch_tensor(tensor: torch.Tensor, sink: Sink) -> torch.utils.hooks.RemovableHandle | None:
    """Gives the gradient of a tensor to `sink`; a handle when the hook would outlive the graph."""

    def hook(gradient: torch.Tensor) -> None:
        sink(gradient)

    handle = tensor.register_hook(hook)
    return handle if tensor.is_leaf else None


def watch_inputs(
    inputs: Iterable[tuple[torch.Tensor, Sink]], outputs: Iterable[torch.Tensor], mark: int
) -> list[torch.utils.hooks.RemovableHandle]:
    """Gives what a call passes back to each of its inputs to that input's sink.

    Parameters
    ----------
    inputs
        The call's inputs that require a gradient, each with its sink.
    outputs
        The call's outputs that require a gradient.
    mark
        sequence_mark() from before the call: older nodes are not the call's.
    """
    wanted: dict[Edge, Sink] = {}
    tensors: dict[Edge, torch.Tensor] = {}
    for tensor, sink in inputs:
        edge = get_gradient_edge(tensor)
        wanted[edge.node, edge.output_nr] = sink
        tensors[edge.node, edge.output_nr] = tensor
    contributions: dict[Edge, list[tuple[Any, int]]] = {edge: [] for edge in wanted}
    passed_through: set[Edge] = set()
    stack, seen = [], set()
    for output in outputs:
        edge = get_gradient_edge(output)
        if (edge.node, edge.output_nr) in wanted:
            passed_through.add((edge.node, edge.output_nr))  # the module gave back what it was given
        else:
            stack.append(edge.node)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for position, (following, number) in enumerate(node.next_functions):
            if following is None:
                continue
            if (following, number) in wanted:
                contributions[following, number].append((node, position))
            elif following._sequence_nr() >= mark:
                stack.append(following)
    handles = []
    for edge, sink in wanted.items():
        if edge in passed_through:
            # The same tensor before and after: there is no edge between them, only its gradient.
            handle = watch_tensor(tensors[edge], sink)
            handles += [handle] if handle is not None else []
        elif contributions[edge]:
            _watch_edges(contributions[edge], sink)
    return handles


def _watch_edges(edges: list[tuple[Any, int]], sink: Sink) -> None:
    by_node: dict[Any, list[int]] = {}
    for node, position in edges:
        by_node.setdefault(node, []).append(position)
    if len(edges) == 1:
        position = edges[0][1]

        def single(grad_inputs: tuple[torch.Tensor | None, ...], _: object) -> None:
            if grad_inputs[position] is not None:
                sink(grad_inputs[position])

        edges[0][0].register_hook(single)
        return

    parts: list[torch.Tensor] = []

    def at_end_of_backward() -> None:
        total, *others = parts
        parts.clear()
        with torch.no_grad():
            for part in others:
                total = total + part
        sink(total)

    for node, positions in by_node.items():

        def hook(grad_inputs: tuple[torch.Tensor | None, ...], _: object, positions: list[int] = positions) -> None:
            for position in positions:
                part = grad_inputs[position]
                if part is None:
                    continue
                if not parts:
                    torch.autograd.Variable._execution_engine.queue_callback(at_end_of_backward)
                parts.append(part.clone())  # the engine may add to it in place

        node.register_hook(hook)
