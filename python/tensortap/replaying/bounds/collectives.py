"""Collectives: what adding up the contributions of several ranks may lose."""

from __future__ import annotations

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms
from tensortap.replaying.collectives import CollectiveCall


def terms_of_collective(call: DoubleCall, number: int, path: str) -> Terms | None:
    """None for an operator that is no collective.

    A backend adds in an order of its own, and may round each partial sum to the dtype of the tensors; the last of
    these roundings is that of the result. An average rounds once more, after the sum or before it.
    """
    if not isinstance(call.call, CollectiveCall):
        return None
    making = call.call.makings[number]
    if making.reduction not in ("SUM", "AVG", "PRODUCT"):
        return Terms(torch.zeros_like(call.exact[number], dtype=torch.float64))
    sizes, ranks = call.of_magnitudes[number].abs(), len(making.numbers)
    roundings = ranks - 2 + (making.reduction == "AVG")
    return Terms(sizes, float(ranks), steps=0.0, own=roundings * sizes if roundings > 0 else None)
