"""Which nodes of a graph are recorded: a function of the node, or patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch.fx

from tensortap.graph.fx.identity import target_name
from tensortap.session.filters import nearest_names, patterns_of
from tensortap.session.loading import load_function

_FUNCTION = re.compile(r"(.+\.py|[\w.]+):[\w.]+")  # file.py:func, pkg.module:func


class NodeFilter:
    """Decides once per node.

    Parameters
    ----------
    given
        None: every node. A function of the node that gives the node back or None, or says yes or no; or where one is
        found, `"file.py:func"`. Patterns: what any of them is found in, by name or target.
    """

    def __init__(self, given: object) -> None:
        self._given = given
        self._function: Callable[[torch.fx.Node], object] | None = None
        self._patterns: list[re.Pattern[str]] | None = None
        self._matched: set[str] = set()
        self._names: set[str] = set()
        if given is None:
            return
        if isinstance(given, str) and _FUNCTION.fullmatch(given):
            given = load_function(given)
        if callable(given):
            self._function = given
        else:
            self._patterns = patterns_of(given)

    def selects(self, node: torch.fx.Node) -> bool:
        if self._function is not None:
            return bool(self._function(node))
        if self._patterns is None:
            return True
        texts = (node.name, target_name(node))
        self._names.update(texts)
        matching = [pattern.pattern for pattern in self._patterns if any(pattern.search(text) for text in texts)]
        self._matched.update(matching)
        return bool(matching)

    def unmatched(self) -> list[str]:
        """A line for each pattern that no node had, with the names nearest to it; none when there were no graphs."""
        lines = []
        names: Sequence[str] = sorted(self._names)
        for pattern in self._patterns or []:
            if pattern.pattern in self._matched or not names:
                continue
            nearest = nearest_names(pattern.pattern, names)
            line = f"the pattern '{pattern.pattern}' matches no name or target of a node"
            lines.append(line + (f"; near it: {', '.join(nearest)}" if nearest else ""))
        return lines

    def __str__(self) -> str:
        if self._function is not None and not isinstance(self._given, str):
            return f"{getattr(self._function, '__module__', '')}:{getattr(self._function, '__qualname__', '')}"
        if self._patterns is not None:
            return str([pattern.pattern for pattern in self._patterns])
        return "everything" if self._given is None else str(self._given)
