"""Which call of one run is which of the other.

1. By what they were asked, in any order and on any thread: a pool of threads may take its tasks as it likes.
2. What is left over, thread by thread, by name, between the calls that are paired already.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from tensortap.repeating.alignment import Pair, aligned, in_order
from tensortap.repeating.calls import Call


@dataclass
class Pairing:
    """Where each call of one side has its counterpart on the other; a place is one in the list of calls.

    Attributes
    ----------
    of_a, of_b
        The counterpart by place; None of a call that only this run makes.
    place_of_b
        For a call that only B makes: between which calls of A it stands.
    """

    of_a: list[int | None]
    of_b: list[int | None]
    place_of_b: dict[int, float] = field(default_factory=dict)


def paired(a: Sequence[Call], b: Sequence[Call]) -> Pairing:
    """The counterparts of all calls of a pass."""
    made = Pairing([None] * len(a), [None] * len(b))
    for key in (lambda call: (call.question, call.line), lambda call: call.question):
        _pair_equal_questions(a, b, key, made)
    threads = _threads(a, b, made)
    for of_a, of_b in threads:
        _pair_by_name(a, b, of_a, of_b, made)
    _place_the_rest(threads, made)
    return made


def _pair_equal_questions(a: Sequence[Call], b: Sequence[Call], key: Callable[[Call], Hashable], made: Pairing) -> None:
    groups: defaultdict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i, call in enumerate(a):
        if made.of_a[i] is None:
            groups[key(call)][0].append(i)
    for j, call in enumerate(b):
        if made.of_b[j] is None:
            groups[key(call)][1].append(j)
    for of_a, of_b in groups.values():
        if not of_a or not of_b:
            continue
        pairs = _by_answer(a, b, of_a, of_b)
        if len(pairs) < min(len(of_a), len(of_b)):
            if a[of_a[0]].draws:
                pairs = []  # each draw is the next of its generator: in order, or not at all
            pairs += _rest_in_order(of_a, of_b, pairs)
        for i, j in pairs:
            made.of_a[i], made.of_b[j] = j, i


def _by_answer(a: Sequence[Call], b: Sequence[Call], of_a: Iterable[int], of_b: Iterable[int]) -> list[Pair]:
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for j in of_b:
        waiting[b[j].answer].append(j)
    return [(i, waiting[a[i].answer].popleft()) for i in of_a if waiting[a[i].answer]]


def _rest_in_order(of_a: Iterable[int], of_b: Iterable[int], pairs: Iterable[Pair]) -> list[Pair]:
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    return list(zip((i for i in of_a if i not in taken_a), (j for j in of_b if j not in taken_b), strict=False))


def _threads(a: Sequence[Call], b: Sequence[Call], made: Pairing) -> list[tuple[list[int], list[int]]]:
    """The places of each thread of A, and of that of B which does most of the same; what is left, in order."""
    of_a, of_b = _by_thread(a), _by_thread(b)
    shared = Counter(
        (call.event.thread, b[j].event.thread) for call, j in zip(a, made.of_a, strict=True) if j is not None
    )
    chosen: dict[int, int] = {}
    for (one, other), _ in shared.most_common():
        if one not in chosen and other not in chosen.values():
            chosen[one] = other
    rest = deque(thread for thread in of_b if thread not in chosen.values())
    for thread in of_a:
        if thread not in chosen and rest:
            chosen[thread] = rest.popleft()
    both = [(of_a[one], of_b[chosen[one]] if one in chosen else []) for one in of_a]
    return [*both, *(([], of_b[thread]) for thread in rest)]


def _by_thread(calls: Sequence[Call]) -> dict[int, list[int]]:
    threads: defaultdict[int, list[int]] = defaultdict(list)
    for place, call in enumerate(calls):
        threads[call.event.thread].append(place)
    return threads


def _pair_by_name(a: Sequence[Call], b: Sequence[Call], of_a: list[int], of_b: list[int], made: Pairing) -> None:
    """Between the pairs there are; then whatever stands in the same order, since pairs may have changed places."""
    left_a, left_b = _left(of_a, of_b, made)
    if [_name_and_line(a[i]) for i in left_a] != [_name_and_line(b[j]) for j in left_b]:
        for token in (_name_and_line, lambda call: call.event.name):
            for gap_a, gap_b in _gaps(of_a, of_b, made):
                _align(gap_a, gap_b, [token(a[i]) for i in gap_a], [token(b[j]) for j in gap_b], made)
        left_a, left_b = _left(of_a, of_b, made)
    _align(left_a, left_b, [_name_and_line(a[i]) for i in left_a], [_name_and_line(b[j]) for j in left_b], made)


def _left(of_a: list[int], of_b: list[int], made: Pairing) -> tuple[list[int], list[int]]:
    return [i for i in of_a if made.of_a[i] is None], [j for j in of_b if made.of_b[j] is None]


def _align(
    of_a: list[int], of_b: list[int], tokens_a: Sequence[Hashable], tokens_b: Sequence[Hashable], made: Pairing
) -> None:
    for i, j in aligned(tokens_a, tokens_b):
        made.of_a[of_a[i]], made.of_b[of_b[j]] = of_b[j], of_a[i]


def _name_and_line(call: Call) -> Hashable:
    return call.event.name, call.line


def _gaps(of_a: list[int], of_b: list[int], made: Pairing) -> list[tuple[list[int], list[int]]]:
    """What has no counterpart, between the pairs that both threads have in the same order."""
    ends = [*_anchors(of_a, of_b, made), (float("inf"), float("inf"))]
    gaps: list[tuple[list[int], list[int]]] = []
    at_a = at_b = 0
    for end_a, end_b in ends:
        gap: tuple[list[int], list[int]] = ([], [])
        while at_a < len(of_a) and of_a[at_a] <= end_a:
            if made.of_a[of_a[at_a]] is None:
                gap[0].append(of_a[at_a])
            at_a += 1
        while at_b < len(of_b) and of_b[at_b] <= end_b:
            if made.of_b[of_b[at_b]] is None:
                gap[1].append(of_b[at_b])
            at_b += 1
        if gap[0] and gap[1]:
            gaps.append(gap)
    return gaps


def _anchors(of_a: list[int], of_b: list[int], made: Pairing) -> list[Pair]:
    there = set(of_b)
    return in_order([(i, j) for i in of_a if (j := made.of_a[i]) is not None and j in there])


def _place_the_rest(threads: Iterable[tuple[list[int], list[int]]], made: Pairing) -> None:
    """A call that only B makes stands behind the pair before it."""
    for of_a, of_b in threads:
        anchors = {j: i for i, j in _anchors(of_a, of_b, made)}
        behind = -1
        for j in of_b:
            behind = anchors.get(j, behind)
            if made.of_b[j] is None:
                made.place_of_b[j] = behind + 0.5
