"""What is summed and searched over all elements of a recorded result beside the exact one, a block of them at a time.

A block stays in the processor's cache, and its temporaries in memory that the process has already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from tensortap.replaying.bounds.rounding import computing_error, half_steps, real_dtype, weighed_terms
from tensortap.replaying.bounds.terms import Terms

_BLOCK = 1 << 18
# Steps of the dtype of sums, in proportion to the result, that rounding of one direction may come to.
_STEPS_IN_PROPORTION = 16.0


@dataclass
class Place:
    """How many elements are so, and the first of them."""

    count: int = 0
    first: int = 0

    def add(self, found: torch.Tensor, begin: int) -> None:
        """The elements of a block that are so."""
        if count := int(found.sum()):
            if self.count == 0:
                self.first = begin + int(found.int().argmax())
            self.count += count


@dataclass
class Totals:
    """Over all elements; where the recorded or the exact value is NaN or Inf, both count as 0.

    Attributes
    ----------
    bounds, worst
        The largest error in rounding bounds, and where it is.
    unequal
        How many elements are off by more than one bound.
    error, exact, sizes
        Sums of squares: of the error, of the exact values, of what they were made of.
    product
        The sum of error times exact value.
    weighted_exact, weighted_product, one_direction
        Beside its own rounding each value counts as much, however large it is: sums with that weight of the exact
        values' squares, of error times exact value, and of what many values may be off by in one direction.
    nonfinite, overflowed
        Recorded values that are NaN or Inf where the exact one is finite: of those that the dtype can hold, and others.
    """

    bounds: float = 0.0
    worst: int = 0
    unequal: int = 0
    error: float = 0.0
    exact: float = 0.0
    sizes: float = 0.0
    product: float = 0.0
    weighted_exact: float = 0.0
    weighted_product: float = 0.0
    one_direction: float = 0.0
    nonfinite: Place = field(default_factory=Place)
    overflowed: Place = field(default_factory=Place)


def totals_of(exact: torch.Tensor, recorded: torch.Tensor, terms: Terms) -> Totals:
    """The recorded result of a dtype beside the exact one, in float64 and of the same shape."""
    found = Totals()
    flat, given = exact.reshape(-1), recorded.reshape(-1)
    parts = _flat_terms(terms, exact)
    for begin, end in _blocks(flat.numel()):
        part = replace(
            parts,
            sizes=parts.sizes[begin:end],
            own=None if parts.own is None else parts.own[begin:end],
            absolute=parts.absolute[begin:end] if isinstance(parts.absolute, torch.Tensor) else parts.absolute,
        )
        _add_block(found, flat[begin:end], given[begin:end], part, begin)
    return found


def _add_block(found: Totals, exact: torch.Tensor, recorded: torch.Tensor, terms: Terms, begin: int) -> None:
    dtype = recorded.dtype
    wide = recorded.to(exact.dtype)
    error = wide - exact
    if not bool((sound := error.isfinite()).all()):
        finite, held = exact.isfinite(), wide.isfinite()
        beyond = exact.abs() > torch.finfo(real_dtype(dtype)).max
        found.nonfinite.add(finite & ~held & ~beyond, begin)
        found.overflowed.add(finite & ~held & beyond, begin)
        exact, error = exact.where(sound, 0.0), error.where(sound, 0.0)
    half = half_steps(exact, dtype)
    ratio = error.abs().div_(computing_error(terms, dtype).add_(half))
    at = int(ratio.argmax())
    if float(ratio[at]) > found.bounds:
        found.bounds, found.worst = float(ratio[at]), begin + at
    if float(ratio[at]) > 1:
        found.unequal += int((ratio > 1).sum())
    found.error += _squares(error)
    found.exact += _squares(exact)
    sizes = _squares(terms.sizes)
    found.sizes += sizes if math.isfinite(sizes) else _squares(terms.sizes.nan_to_num(nan=0.0, posinf=0.0))
    if recorded.is_complex():
        return
    found.product += float(torch.dot(error, exact))
    weighted = exact / half.square_()
    found.weighted_exact += float(torch.dot(weighted, exact))
    found.weighted_product += float(torch.dot(weighted, error))
    found.one_direction += float(torch.dot(weighted.abs_(), weighed_terms(terms, dtype, _STEPS_IN_PROPORTION)))


def _squares(values: torch.Tensor) -> float:
    return float(torch.vdot(values, values).real)


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, _BLOCK):
        yield begin, min(begin + _BLOCK, count)


def _flat_terms(terms: Terms, exact: torch.Tensor) -> Terms:
    def flat(value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.float64).expand(exact.shape).reshape(-1)

    own = None if terms.own is None else flat(terms.own)
    absolute = flat(terms.absolute) if isinstance(terms.absolute, torch.Tensor) else terms.absolute
    return replace(terms, sizes=flat(terms.sizes), own=own, absolute=absolute)
