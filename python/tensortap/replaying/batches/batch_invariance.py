"""`tap.batch_invariance`: every operator of a batch, beside the same operator for one request of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from tensortap import reading
from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.replaying.batches.one_request import Batch, NotSplit, OtherBits, only_moves, other_bits
from tensortap.replaying.batches.report import BatchDependentCall, BatchInvariance
from tensortap.replaying.blame.blaming import call_at, chosen_passes
from tensortap.replaying.blame.found import RefusedCall
from tensortap.replaying.calling import device_of
from tensortap.replaying.operators import OpName

Progress = Callable[[int, int], None]


def batch_invariance(
    run: str | os.PathLike[str],
    requests: int,
    *,
    passes: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> BatchInvariance:
    """Find the operators that give a request other bits alone than in a batch.

    The requests lie one behind the other along the first dimension of the program's tensors. Each operator of the
    forward that takes them is called again with what it was recorded with: once with all, and once with the first and
    with the last request alone. `ttap twice --batch-invariance` records a program and does this.

        print(tap.batch_invariance("run", 4))

    Parameters
    ----------
    run
        A run, a rank, a pass or a trace, or where one lies; with operators, at level "full".
    requests
        How many are in the batch: 2 or more.
    passes, ranks
        Only these: `"0,2-5"`, a number, or numbers.
    device
        Where to call the operators.
    progress
        Called with how many calls are done, of how many.

    Raises
    ------
    ValueError
        When no tensor has so many rows, no operator could be judged, or there is no pass with operators.
    """
    if requests < 2:
        raise ValueError(f"requests is {requests}: a batch has 2 or more")
    where = device_of(device)
    opened = reading.open(os.fspath(run))
    found = BatchInvariance(Path(opened.path), requests)
    chosen = chosen_passes(opened, passes, ranks)
    done, total = 0, 0
    for position, (rank, number) in enumerate(chosen):
        kept = rank.passes[number]
        total = max(total, done + len(kept.events) * (len(chosen) - position))  # as if the others were alike
        one_pass = _OnePass(kept, rank.number, requests, where, found)
        for index, event in enumerate(kept.events):
            if event.kind == "op":
                one_pass.judge(index, event)
            done += 1
            if progress is not None:
                progress(done, total)
    if not found.judged:
        reasons = Counter(one.reason for one in found.refused).most_common(1)
        raise ValueError(f"no operator could be judged: {reasons[0][0]}" if reasons else
                         f"no operator of {opened.path} takes a tensor that entered with {requests} rows; "
                         "give the number of requests in a batch")  # fmt: skip
    return found


class _OnePass:
    def __init__(self, kept: Pass, rank: int, requests: int, device: torch.device, found: BatchInvariance) -> None:
        self._kept = kept
        self._rank = rank
        self._requests = requests
        self._device = device
        self._found = found
        self._batch = Batch(kept, requests)

    def judge(self, index: int, event: EventRecord) -> None:
        """A call of the forward that takes the batch; what it made is of the batch, too."""
        name = OpName.of(event.name)
        if name.backward or not self._batch.takes(event):
            return
        self._batch.hold(index)
        if only_moves(event):
            return
        try:
            other = other_bits(event, self._batch, [0, self._requests - 1], self._device)
        except NotSplit as reason:
            place = (self._rank, self._kept.number, index)
            self._found.refused.append(RefusedCall(name.op, name.scope, *place, str(reason)))
            return
        self._found.judged += 1
        if other is not None:
            self._found.findings.append(self._finding(index, event, other))

    def _finding(self, index: int, event: EventRecord, other: OtherBits) -> BatchDependentCall:
        where = call_at(self._kept, self._rank, index, event.uses[other.number].path)
        return BatchDependentCall(
            **vars(where), request=other.request, relative=other.relative, unequal=other.unequal, count=other.count
        )
