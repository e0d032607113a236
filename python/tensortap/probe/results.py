"""What a probe has found so far: the last snapshots, and how the comparisons went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensortap.probe.actions import Compare
from tensortap.probe.printing import label_of
from tensortap.probe.snapshot import CompareFailed, Snapshot


class LastSnapshots:
    """The last `capacity` snapshots of one place, by their replay."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._snapshots: list[Snapshot] = []
        self._seen = -1  # the last replay that somebody was shown
        self.lost = 0  # that nobody was shown

    def add(self, snapshot: Snapshot) -> None:
        snapshots = self._snapshots
        snapshots.append(snapshot)
        if len(snapshots) > 1 and snapshots[-2].replay_index > snapshot.replay_index:
            snapshots.sort(key=lambda each: each.replay_index)  # of several streams
        if len(snapshots) > self._capacity:
            self.lost += snapshots.pop(0).replay_index > self._seen

    def show(self) -> list[Snapshot]:
        if self._snapshots:
            self._seen = max(self._seen, self._snapshots[-1].replay_index)
        return list(self._snapshots)

    def forget(self, which: set[int] | None = None) -> None:
        """All, or those with these ids."""
        self._snapshots = [each for each in self._snapshots if which is not None and id(each) not in which]


@dataclass
class Comparisons:
    """How the comparisons of one place went; `first` is the first failure."""

    invocation: int = 0
    shape: tuple[int, ...] = ()
    comparisons: int = 0
    failures: int = 0
    first: dict[str, Any] | None = None

    def count(self, found: dict[str, Any], number: int, elements: int) -> None:
        """One more, made on the CPU."""
        self.comparisons += 1
        if found["differing"] == 0:
            return
        self.failures += 1
        if self.first is None:
            self.first = {**found, "replay": number, "elements": elements}


def failure_of(name: str, compare: Compare, places: list[Comparisons]) -> CompareFailed | None:
    """What to raise when any comparison failed: the first failure, over all places."""
    failed = [place for place in places if place.first is not None]
    if not failed:
        return None
    place = min(failed, key=lambda each: (each.first["replay"], each.invocation))
    first = place.first
    assert first is not None
    comparisons = sum(each.comparisons for each in places)
    failures = sum(each.failures for each in places)
    element = _index_of(first["first"], place.shape)
    label = label_of(name, place.invocation)
    at = f"[{', '.join(map(str, element))}]" if element else "its one element"
    return CompareFailed(
        f"probe {label!r}: {failures} of {comparisons} comparisons failed, first replay {first['replay']}: "
        f"{first['differing']} of {first['elements']} elements differ, the first at {at}: {first['actual']}, "
        f"expected {first['expected']}; largest difference {first['largest']:.6g} "
        f"(rtol {compare.rtol:g}, atol {compare.atol:g})",
        probe_name=name,
        replay_index=first["replay"],
        invocation=place.invocation,
        element=element,
        actual=first["actual"],
        expected=first["expected"],
        differing=first["differing"],
        elements=first["elements"],
        largest=first["largest"],
        failures=failures,
        comparisons=comparisons,
    )


def _index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for length in reversed(shape):
        position, at = divmod(position, length)
        index.append(at)
    return tuple(reversed(index))
