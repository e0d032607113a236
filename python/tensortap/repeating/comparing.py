"""`tap.same_bits`: two runs of one program, call by call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from tensortap import reading
from tensortap.reading import Rank, Run
from tensortap.repeating.calls import PassCalls
from tensortap.repeating.judging import ProcessJudge
from tensortap.repeating.processes import settle
from tensortap.repeating.report import SameBits
from tensortap.replaying.blame.blaming import chosen_passes

Progress = Callable[[int, int], None]


def same_bits(
    run_a: str | os.PathLike[str],
    run_b: str | os.PathLike[str],
    *,
    passes: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    progress: Progress | None = None,
) -> SameBits:
    """Compare two runs of one program bit for bit, and find the calls where they begin to differ.

    A call that made other bits from the same bits is told from one that only received other bits: from a call before
    it, or from another rank. `ttap twice` records a program twice and does this.

        print(tap.same_bits("first", "second"))

    Parameters
    ----------
    run_a, run_b
        Runs, ranks, passes or traces, or where they lie; with operators, at level "fingerprint" or more. Best with
        stacks and unseen_writes.
    passes, ranks
        Only these: `"0,2-5"`, a number, or numbers.
    progress
        Called with how many passes are done, of how many.

    Raises
    ------
    ValueError
        When there is no such pass, or none with operators and hashes.
    """
    a, b = reading.open(os.fspath(run_a)), reading.open(os.fspath(run_b))
    chosen = [(_chosen(run, passes, ranks)) for run in (a, b)]
    processes = _beside(*chosen)
    total = sum(len(one.keys() | other.keys()) for one, other in processes)
    found = SameBits(Path(a.path), Path(b.path))
    judges: list[ProcessJudge] = []
    done, calls, hashes = 0, 0, False
    for one, other in processes:
        rank = next(iter([*one.values(), *other.values()]))
        judge = ProcessJudge(rank.number)
        for number in sorted(one.keys() | other.keys()):
            sides = [PassCalls(side[number].passes[number] if number in side else None) for side in (one, other)]
            calls += len(sides[0].calls) + len(sides[1].calls)
            hashes = hashes or sides[0].has_hashes or sides[1].has_hashes
            judge.add(number, *sides)
            done += 1
            if progress is not None:
                progress(done, total)
        judges.append(judge)
    if not calls or not hashes:
        what = "operators" if not calls else "hashes of its operators' tensors"
        raise ValueError(f"{a.path} has no {what}; record with ttap run --ops --level fingerprint")
    found.received_from = settle(judges)
    for judge in judges:
        found.findings += judge.findings
        found.identical += judge.identical
        found.received += judge.received
        found.unjudged += judge.unjudged
    found.notes += _notes(a, b, chosen)
    return found


# The passes of one process by their number.
_Process = dict[int, Rank]


def _chosen(
    run: Run, passes: str | int | Iterable[int] | None, ranks: str | int | Iterable[int] | None
) -> list[_Process]:
    processes: dict[int, _Process] = {}
    for rank, number in chosen_passes(run, passes, ranks):
        processes.setdefault(id(rank), {})[number] = rank
    return list(processes.values())


def _beside(of_a: Sequence[_Process], of_b: Sequence[_Process]) -> list[tuple[_Process, _Process]]:
    """The processes of both runs by their ranks; several of one rank in the order in which they began."""
    by_rank: dict[int, tuple[list[_Process], list[_Process]]] = {}
    for side, processes in enumerate((of_a, of_b)):
        for process in processes:
            by_rank.setdefault(_rank_of(process), ([], []))[side].append(process)
    return [(one or {}, other or {}) for rank in sorted(by_rank) for one, other in zip_longest(*by_rank[rank])]


def _rank_of(process: _Process) -> int:
    return next(iter(process.values())).number


def _notes(a: Run, b: Run, chosen: Sequence[Sequence[_Process]]) -> list[str]:
    notes = []
    if len(chosen[0]) != len(chosen[1]):
        notes.append(f"{len(chosen[0])} processes recorded in the first run, {len(chosen[1])} in the second")
    for which, run, processes in (("first", a, chosen[0]), ("second", b, chosen[1])):
        dropped = sum(_dropped(rank, number) for process in processes for number, rank in process.items())
        if dropped:
            notes.append(f"{dropped} tensors of the {which} run were dropped: ttap ls {run.path} --coverage")
    return notes


def _dropped(rank: Rank, number: int) -> int:
    drops = rank.passes[number].info["drops"]
    return sum(int(count) for name, count in drops.items() if isinstance(count, int))
