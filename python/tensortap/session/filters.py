"""Which modules are recorded: patterns, or a function of name and module."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    Predicate = Callable[[str, nn.Module], bool]


class NameFilter:
    """Decides once per module, by any of its names.

    Parameters
    ----------
    given
        None: everything. A pattern, or several: what any of them is found in. A function of name and module.
    """

    def __init__(self, given: str | Sequence[str] | Predicate | None) -> None:
        self.given = given
        self._predicate: Predicate | None = None
        self._patterns: list[re.Pattern[str]] | None = None
        self._of_operators: set[re.Pattern[str]] = set()  # those that were found in the name of one
        if given is None:
            return
        if callable(given):
            self._predicate = given
            return
        self._patterns = patterns_of(given)

    def selects(self, names: Iterable[str], module: nn.Module) -> bool:
        """Whether a module with these names is recorded."""
        if self._predicate is not None:
            return any(bool(self._predicate(name, module)) for name in names)
        if self._patterns is None:
            return True
        return any(pattern.search(name) for pattern in self._patterns for name in names)

    def selects_op(self, name: str) -> bool:
        """Whether an operator of this name, `scope:aten::mm`, is recorded; a function is given None for the module."""
        if self._predicate is not None:
            return bool(self._predicate(name, None))  # type: ignore[arg-type]
        if self._patterns is None:
            return True
        found = [pattern for pattern in self._patterns if pattern.search(name)]
        self._of_operators.update(found)
        return bool(found)

    @property
    def selected_operators(self) -> bool:
        """Whether it has selected an operator so far."""
        return bool(self._of_operators)

    def unmatched(self, names: Sequence[str]) -> list[str]:
        """A line for each pattern that none of the names has, with the names nearest to it; and no operator so far."""
        lines = []
        for pattern in self._patterns or []:
            if pattern in self._of_operators or any(pattern.search(name) for name in names):
                continue
            nearest = nearest_names(pattern.pattern, names)
            line = f"the pattern '{pattern.pattern}' matches none of {len(names)} modules"
            lines.append(line + (f"; near it: {', '.join(nearest)}" if nearest else ""))
        return lines

    def __str__(self) -> str:
        if self._predicate is not None:
            return f"{getattr(self._predicate, '__module__', '')}:{getattr(self._predicate, '__qualname__', '')}"
        return "everything" if self._patterns is None else str([pattern.pattern for pattern in self._patterns])


def patterns_of(given: object) -> list[re.Pattern[str]]:
    """One pattern or several, compiled."""
    if isinstance(given, (str, re.Pattern)):
        return [compiled_pattern(given)]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"filter is {given!r}: it is a pattern, a list of patterns, or a function")
    return [compiled_pattern(pattern) for pattern in given]


def one_pattern(given: str | Sequence[str] | None) -> str:
    """Several patterns as one; none: the empty one."""
    if given is None or isinstance(given, str):
        return given or ""
    return "|".join(f"(?:{pattern})" for pattern in given)


def compiled_pattern(pattern: object) -> re.Pattern[str]:
    """A pattern of a filter, checked."""
    if isinstance(pattern, re.Pattern):
        return pattern
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern of the filter is {pattern!r}: it must be a string")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the filter's pattern {pattern!r} is not a regular expression: {error}") from error


def nearest_names(pattern: str, names: Sequence[str], count: int = 3) -> list[str]:
    """The names somebody who wrote `pattern` may have meant."""
    plain = re.sub(r"[\\^$?*+()\[\]{}|]", "", pattern)
    words = [word for word in re.split(r"[.\s]+", plain) if len(word) > 1]
    holding = [name for name in names if any(word.lower() in name.lower() for word in words)]
    close = difflib.get_close_matches(plain.strip("."), names, count, 0.5)
    tails = {name.rpartition(".")[2]: name for name in reversed(names)}
    close += [tails[tail] for word in words for tail in difflib.get_close_matches(word, tails, count, 0.7)]
    return list(dict.fromkeys(close + holding))[:count]
