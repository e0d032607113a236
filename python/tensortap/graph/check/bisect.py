"""The smallest part of a graph that a backend still computes wrongly.

The values of all nodes are known from the interpreted graph, so any set of nodes can be compiled and run alone: what
they use of other nodes is given to them. Whether a part shows the mismatch is found by doing so, each time: a value
that becomes an output may change what the backend fuses, and with that hide the mistake.

1. The whole graph, with every value an output: the first that differs, and ever more of what it is computed from.
2. Where that hides the mistake: the shortest beginning of the graph that shows it, then the shortest end of that.
3. What is left is made smaller by leaving out halves, quarters, ... single nodes, as long as it still shows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from tensortap.graph.check.closeness import compare
from tensortap.graph.check.difference import Difference, SearchLimits, Tolerance
from tensortap.graph.check.exact import exact_outputs
from tensortap.graph.check.inner import Backend, random_nodes, retraced
from tensortap.graph.check.part import NodeValues, Part, ancestors, candidates, part_of, sinks, tensor_nodes
from tensortap.graph.check.random import RandomState
from tensortap.graph.fx.identity import target_name
from tensortap.graph.fx.text import source_of


@dataclass(frozen=True)
class Reduced:
    """The smallest part of a graph that was found to show a mismatch.

    Attributes
    ----------
    part
        The graph, and its inputs.
    differences
        What differs when it is compiled alone; its outputs are numbered as `part.outputs` are.
    compiles
        How many parts were compiled to find it.
    complete
        Whether no node of it can be left out; False: the limits were reached.
    """

    part: Part
    differences: tuple[Difference, ...]
    compiles: int
    complete: bool

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes."""
        return [node.name for node in self.part.nodes]

    @property
    def largest(self) -> float:
        return max(difference.largest for difference in self.differences)

    @property
    def words(self) -> str:
        """What it is, in a few words."""
        nodes = self.part.nodes
        shown = ", ".join(f"%{node.name} = {target_name(node)}" for node in nodes[-3:])
        shown = f"... {shown}" if len(nodes) > 3 else shown
        text = f"{len(nodes)} node{'s show' if len(nodes) != 1 else ' shows'} it: {shown}"
        source = source_of(nodes[-1])
        return f"{text} ({source})" if source else text


def reduce_mismatch(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    inner: str | Backend,
    tolerance: Tolerance | None = None,
    limits: SearchLimits | None = None,
    *,
    outputs: Sequence[int] = (),
) -> Reduced | None:
    """Find the smallest part of a graph that `inner` computes otherwise than PyTorch.

    Parameters
    ----------
    module, inputs
        The graph, and inputs on which it shows; neither is changed.
    inner
        The backend.
    tolerance
        What counts as close.
    limits
        How much may be spent.
    outputs
        The outputs of the graph that were seen to differ, where that is known; the others are left alone.

    Returns
    -------
    Reduced or None
        None where the graph, compiled by itself, does not show it.
    """
    search = _Search(module, inputs, inner, tolerance, limits or SearchLimits())
    try:
        return search.run(outputs)
    finally:
        search.progress("")


class _OutOfBudget(Exception):
    pass


class _Search:
    def __init__(
        self,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        inner: str | Backend,
        tolerance: Tolerance | None,
        limits: SearchLimits,
    ) -> None:
        self._module, self._inner, self._tolerance, self._limits = module, inner, tolerance, limits
        self._deadline = time.monotonic() + limits.seconds
        self._compiles = 0
        self._best: tuple[Part, list[Difference]] | None = None
        self._known: dict[tuple[Any, ...], list[torch.fx.Node]] = {}
        self._random = set(random_nodes(module))
        run = NodeValues(module)
        copies = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        with torch.no_grad():
            run.run(*copies)
        self._values = run.values

    def run(self, outputs: Sequence[int]) -> Reduced | None:
        # Random numbers are given to a part, as they were drawn: whoever draws them anew draws others.
        nodes = [node for node in candidates(self._module) if node not in self._random]
        (output,) = [node for node in self._module.graph.nodes if node.op == "output"]
        leaves = pytree.tree_leaves(output.args[0])
        wanted = [leaves[i] for i in outputs if i < len(leaves) and leaves[i] in nodes]
        complete = True
        try:
            part, shown = self._start(nodes, wanted)
            if not shown:
                return None
            part = self._near_first(part) or self._between(part, shown)
            self._smaller(part)
        except _OutOfBudget:
            complete = False
        if self._best is None:
            return None
        best, differences = self._best
        return Reduced(best, tuple(differences), self._compiles, complete)

    def _start(
        self, nodes: list[torch.fx.Node], wanted: list[torch.fx.Node]
    ) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
        """What the outputs that differ are computed from; where that does not show it, the whole graph."""
        if wanted:
            part = ancestors(wanted, nodes)
            shown = self._shows(part, list(dict.fromkeys(wanted)))
            if shown:
                return part, shown
        (output,) = [node for node in self._module.graph.nodes if node.op == "output"]
        returned = [leaf for leaf in pytree.tree_leaves(output.args[0]) if leaf in set(nodes)]
        every = list(dict.fromkeys([*tensor_nodes(returned, self._values), *sinks(nodes, self._values)]))
        return nodes, self._shows(nodes, every)

    def _near_first(self, nodes: list[torch.fx.Node]) -> list[torch.fx.Node] | None:
        """The first node that differs when all values are outputs, with as little before it as shows it."""
        every = tensor_nodes(nodes, self._values)
        differing = self._shows(nodes, every) if len(every) > 1 else every
        # Several branches may each have a mistake of their own; the first few are tried.
        for first in differing[:3]:
            above = ancestors([first], nodes)
            size = 1
            while True:
                part = above[-size:]
                if self._shows(part, [first]):
                    return part
                if size >= len(above):
                    break
                size *= 2
        return None

    def _between(self, nodes: list[torch.fx.Node], shown: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """The shortest beginning that shows it, then the shortest end of that."""
        low, high = 0, len(nodes)  # the first `high` nodes show it
        while high - low > 1:
            middle = (low + high) // 2
            part = nodes[:middle]
            if self._shows(part, self._live(part, nodes)):
                high = middle
            else:
                low = middle
        beginning = nodes[:high]
        shown = self._shows(beginning, self._live(beginning, nodes)) or shown
        low, high = 0, len(beginning)  # from `low` on it shows
        while high - low > 1:
            middle = (low + high) // 2
            part = beginning[middle:]
            if self._shows(part, self._live(part, nodes)):
                low = middle
            else:
                high = middle
        return beginning[low:]

    def _smaller(self, nodes: list[torch.fx.Node]) -> None:
        """Leave out what can be left out."""
        size = max(1, len(nodes) // 2)
        while True:
            changed = False
            start = 0
            while start < len(nodes) and len(nodes) > 1:
                rest = nodes[:start] + nodes[start + size :]
                differing = self._shows(rest, sinks(rest, self._values)) if rest else []
                if differing:
                    nodes = self._only(rest, differing)
                    changed = True
                else:
                    start += size
            if size == 1 and not changed:
                return
            size = max(1, min(size // 2, len(nodes) // 2))

    def _only(self, nodes: list[torch.fx.Node], differing: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """What the first output that differs is computed from, where that shows it by itself."""
        above = ancestors(differing[:1], nodes)
        return above if len(above) < len(nodes) and self._shows(above, differing[:1]) else nodes

    def _live(self, part: list[torch.fx.Node], nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """The values of a part that somebody else uses, and those that nobody of it uses."""
        inside, whole = set(part), set(nodes)
        outer = [n for n in part if any(user in whole and user not in inside for user in n.users)]
        return list(dict.fromkeys([*tensor_nodes(outer, self._values), *sinks(part, self._values)]))

    def _shows(self, nodes: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
        """The outputs of a part that differ when it is compiled alone, in the order of the graph."""
        if not outputs:
            return []
        key = (tuple(nodes), tuple(outputs))
        if key not in self._known:
            self._known[key] = self._try(nodes, outputs)
        return self._known[key]

    def _try(self, nodes: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
        if self._compiles >= self._limits.compiles or time.monotonic() > self._deadline:
            raise _OutOfBudget
        self._compiles += 1
        self.progress(f"part {self._compiles} of at most {self._limits.compiles}: {len(nodes)} nodes")
        part = part_of(self._module, nodes, outputs, self._values)
        differences = differences_of(part, self._inner, self._tolerance)
        differing: dict[torch.fx.Node, None] = {}
        for difference in differences:
            word, _, number = difference.place.partition("/")[0].partition(" ")
            node = outputs[int(number)] if word == "output" else outputs[-1]
            if not self._random.intersection(ancestors([node], nodes)):
                differing[node] = None
        if differing and (self._best is None or len(nodes) <= len(self._best[0].nodes)):
            self._best = part, differences
        return [node for node in nodes if node in differing]

    def progress(self, text: str) -> None:
        """Show how far it is, to whoever sits in front of a terminal."""
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"\r\x1b[K{f'tensortap: looking for the mistake, {text}' if text else ''}", end="", file=sys.stderr)


def differences_of(part: Part, inner: str | Backend, tolerance: Tolerance | None) -> list[Difference]:
    """What differs when a part is run interpreted and compiled; nothing where it cannot be."""
    random = RandomState.of(part.inputs)
    ours, theirs = part.fresh_inputs(), part.fresh_inputs()
    with torch.no_grad():
        try:
            expected = torch.fx.Interpreter(part.module).run(*ours)
            random.restore()
            actual = retraced(part.module, inner)(*theirs)
        except Exception:
            return []
        finally:
            random.restore()
    pairs = []
    for i, (right, seen) in enumerate(zip(expected, actual, strict=True)):
        right_leaves, seen_leaves = pytree.tree_leaves(right), pytree.tree_leaves(seen)
        several = len(right_leaves) > 1
        for j, (a, b) in enumerate(zip(right_leaves, seen_leaves, strict=False)):
            pairs.append((f"output {i}/{j}" if several else f"output {i}", a, b))
    names = [node.name for node in part.module.graph.nodes if node.op == "placeholder"]
    pairs += [(f"input {name}", a, b) for name, a, b in zip(names, ours, theirs, strict=True)]
    return compare(pairs, tolerance, lambda: exact_outputs(part.module, part.inputs)).differences
