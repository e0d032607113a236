"""Interpolation: weights of places that are computed in float32, and their backward."""

from __future__ import annotations

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms, most

_KINDS = ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
_FORWARD = {f"{prefix}_{kind}{end}" for prefix, end in (("upsample", ""), ("_upsample", "_aa")) for kind in _KINDS}
_PART_OF_STEP = 1 / 8  # Terms.steps of a place are eight


def terms_of_interpolation(call: DoubleCall, number: int, path: str) -> Terms | None:
    """None for an operator that is none.

    A place is off by a step of its number, and the weights of the values around it with it.
    """
    name = call.name.removesuffix("_backward")
    if name not in _FORWARD:
        return None
    exact = call.exact[number]
    (given,) = (tensor for tensor in call.tensors.values() if tensor.is_floating_point())
    axes = tuple(range(2, given.dim()))
    largest = given.abs().amax(axes, keepdim=True)
    places = max(*given.shape[2:], *exact.shape[2:])
    meeting = most(given[0, 0].numel() / max(exact[0, 0].numel(), 1))  # how many make one value of the backward
    sizes = (largest * (1 + _PART_OF_STEP * places) * meeting).expand_as(exact)
    return Terms(sizes, meeting, own=sizes / places if name != call.name else None)
