"""What processes have from one another: of a difference that came from another process, it is said from which."""

from __future__ import annotations

from collections.abc import Sequence

from tensortap.repeating.found import UnequalCall
from tensortap.repeating.judging import Exchange, ProcessJudge


def settle(judges: Sequence[ProcessJudge]) -> dict[int, int]:
    """Take away the findings that another process explains. By rank where nothing begins: the rank that it is from."""
    received_from: dict[int, int] = {}
    for judge in judges:
        others = [other for other in judges if other is not judge]
        explained: list[tuple[UnequalCall, ProcessJudge]] = []
        for exchange in judge.exchanges:
            if exchange.finding is not None and (giver := _giver(exchange, others)) is not None:
                explained.append((exchange.finding, giver))
        for finding, hashes in judge.outside:
            giver = next((other for other in others if hashes and other.made.issuperset(hashes)), None)
            if giver is not None:
                explained.append((finding, giver))
        for finding, _ in explained:
            judge.findings = [one for one in judge.findings if one is not finding]
            judge.received += 1
        if explained and not judge.findings:
            received_from[judge.rank] = explained[0][1].rank
    return received_from


def _giver(exchange: Exchange, others: Sequence[ProcessJudge]) -> ProcessJudge | None:
    """The process that gave something else to the collective, or made what was received."""
    for other in others:
        for theirs in other.exchanges:
            if (theirs.op, theirs.number) == (exchange.op, exchange.number) and theirs.gave_other:
                return other
        if exchange.made and other.made.issuperset(exchange.made):
            return other
    return None
