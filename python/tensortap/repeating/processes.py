"""What processes have from one another: of a difference that came from another process, it is said from which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tensortap.repeating.found import UnequalCall
from tensortap.repeating.judging import Exchange, ProcessJudge

_Collective: TypeAlias = tuple[str, int]  # the operator, and which call of it in a process


def settle(judges: Sequence[ProcessJudge]) -> dict[int, int]:
    """Take away the findings that another process explains. By rank where nothing begins: the rank that it is from."""
    received_from: dict[int, int] = {}
    givers: dict[_Collective, list[ProcessJudge]] = {}  # who gave something else to it
    for judge in judges:
        for exchange in judge.exchanges:
            if exchange.gave_other:
                givers.setdefault((exchange.op, exchange.number), []).append(judge)
    for judge in judges:
        others = [other for other in judges if other is not judge]
        explained: list[tuple[UnequalCall, ProcessJudge]] = []
        for exchange in judge.exchanges:
            if exchange.finding is not None and (giver := _giver(exchange, givers, others)) is not None:
                explained.append((exchange.finding, giver))
        for finding, hashes in judge.outside:
            giver = next((other for other in others if hashes and other.made.issuperset(hashes)), None)
            if giver is not None:
                explained.append((finding, giver))
        gone = {id(finding) for finding, _ in explained}
        judge.findings = [one for one in judge.findings if id(one) not in gone]
        judge.received += len(gone)
        if explained and not judge.findings:
            received_from[judge.rank] = explained[0][1].rank
    return received_from


def _giver(
    exchange: Exchange, givers: Mapping[_Collective, Sequence[ProcessJudge]], others: Sequence[ProcessJudge]
) -> ProcessJudge | None:
    """The process that gave something else to the collective, or made what was received."""
    gave = givers.get((exchange.op, exchange.number), ())
    for other in others:
        if any(other is one for one in gave) or (exchange.made and other.made.issuperset(exchange.made)):
            return other
    return None
