"""Two sequences beside each other: what only one of them has, and what both have in the same order."""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Sequence

# Insertions and removals that an alignment looks for; beyond that two programs go ways of their own.
_MOST_EDITS = 1000

Pair = tuple[int, int]


def aligned(a: Sequence[Hashable], b: Sequence[Hashable], most_edits: int = _MOST_EDITS) -> list[Pair]:
    """Pairs of equal elements, in order: the longest common subsequence, as far as `most_edits` reach."""
    first = 0
    while first < min(len(a), len(b)) and a[first] == b[first]:
        first += 1
    last = 0
    while last < min(len(a), len(b)) - first and a[-1 - last] == b[-1 - last]:
        last += 1
    middle = _by_edits(a[first : len(a) - last], b[first : len(b) - last], most_edits)
    return [
        *((i, i) for i in range(first)),
        *((first + i, first + j) for i, j in middle),
        *((len(a) - last + i, len(b) - last + i) for i in range(last)),
    ]


def _by_edits(a: Sequence[Hashable], b: Sequence[Hashable], most: int) -> list[Pair]:
    """Myers' greedy algorithm. Where the edits do not reach the end, what was aligned farthest."""
    if not a or not b:
        return []
    reach = {1: 0}  # by diagonal (place in a minus place in b): how far in a
    history: list[dict[int, int]] = []
    best = (0, 0)  # how far in both, and on which diagonal
    for edits in range(min(most, len(a) + len(b)) + 1):
        history.append(reach.copy())
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while 0 <= y < len(b) and x < len(a) and a[x] == b[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x <= len(a) and y <= len(b) and x + y > best[0]:
                best = (x + y, diagonal)
            if x >= len(a) and y >= len(b):
                return _walked_back(history, len(a), len(b))
    x = (best[0] + best[1]) // 2
    return aligned(a[:x], b[: x - best[1]], most) if x < len(a) or x - best[1] < len(b) else []


def _walked_back(history: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    pairs: list[Pair] = []
    for edits in range(len(history) - 1, -1, -1):
        reach = history[edits]
        diagonal = x - y
        down = diagonal == -edits or (diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1))
        before = diagonal + 1 if down else diagonal - 1
        x_before = reach[before] if edits > 0 else 0
        y_before = x_before - before if edits > 0 else 0
        while x > x_before and y > y_before:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = x_before, y_before
    return pairs[::-1]


def in_order(pairs: Sequence[Pair]) -> list[Pair]:
    """The most pairs that stand in the same order on both sides. `pairs` are sorted by their first."""
    ends: list[int] = []  # the smallest second that a chain of each length ends with
    at: list[int] = []  # which pair that is
    before: list[int] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect.bisect_left(ends, second)
        before.append(at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(second)
            at.append(number)
        else:
            ends[length], at[length] = second, number
    chain: list[Pair] = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
