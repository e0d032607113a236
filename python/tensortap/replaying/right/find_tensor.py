"""Where a run has a tensor that a diff speaks of by rank, pass and key."""

from __future__ import annotations

from tensortap.reading import Pass, Rank, Run
from tensortap.records import TensorRecord


def find_tensor(run: Run, rank_number: int, pass_number: int, key: str) -> tuple[Rank, Pass, TensorRecord]:
    """Raises LookupError where the run has no such tensor, or several processes of the rank have one."""
    found = []
    for rank in run.ranks:
        if rank.number == rank_number and pass_number in rank.passes:
            kept = rank.passes[pass_number]
            if key in kept:
                found.append((rank, kept, kept.record(key)))
    where = f"{key} in rank {rank_number}, pass {pass_number}"
    if not found:
        raise LookupError(f"{run.path} has no {where}")
    if len(found) > 1:
        some = " and ".join(str(rank.path) for rank, _, _ in found[:2])
        raise LookupError(f"{len(found)} processes have {where}: compare one with one, as {some}")
    return found[0]
