"""How far one recorded call is from the exact result of its own arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tensortap.literals import BlameKind
from tensortap.replaying.blame.totals import Totals, totals_of
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.rounding import computing_error, half_steps, is_bounded, real_dtype, terms_of
from tensortap.replaying.bounds.terms import Terms
from tensortap.replaying.call_tensors import dtype_name

# An error of so many rounding bounds is one that rounding does not explain: a cast that cuts off is off by up to two.
LINE = 1.5
# Where the terms are so many times what is left of them, most of its digits are rounding: docs/measures.md.
_CANCELLATION = 16.0
# Where few factors are multiplied with many values, as in a rotary embedding, roundings hang together.
_SPREADS = 12.0
_FEW = 32  # values, too few to tell a factor from rounding
_SAMPLE = 1 << 16
_MASK = 0.9  # of the largest number: a mask is near it


@dataclass(frozen=True)
class TensorError:
    """One result of a call beside the exact one.

    Attributes
    ----------
    path, dtype, shape
        Which of the results, and what it is.
    bounds
        The error in rounding bounds, at its worst: of an element, or of the part of it that is in proportion to the
        values. Infinite where a value is NaN or Inf and the exact one is not.
    kind
        `error`; `nonfinite` (NaN or Inf where the exact value is finite); `overflow` (the exact value is beyond the
        dtype's largest); `rounding` where rounding explains it.
    factor
        The part of the error that is in proportion to the values: 0.02 where all are 2 % too large.
    relative
        The error as a whole beside the size of the exact result.
    cancellation
        How many times larger the terms of it are than what is left of them; 1 where nothing cancels.
    worst, got, exact
        The element with the largest error, what was recorded there, and what is right.
    unequal, count
        How many elements are off by more than a rounding bound, of how many.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    bounds: float
    kind: BlameKind
    factor: float
    relative: float
    cancellation: float
    worst: tuple[int, ...]
    got: float | complex
    exact: float | complex
    unequal: int
    count: int


def judge(call: DoubleCall, number: int, recorded: torch.Tensor) -> TensorError | None:
    """The recorded result of a use beside the exact one; None where rounding has no meaning for it."""
    exact = call.exact[number]
    if not is_bounded(recorded.dtype) or exact.shape != recorded.shape or not recorded.numel():
        return None
    terms = terms_of(call, number)
    totals = totals_of(exact, recorded, terms)
    bounds, place, unequal = totals.bounds, totals.worst, totals.unequal
    if not recorded.is_complex():
        bounds = max(bounds, _in_proportion(totals, exact, recorded))
    kind: BlameKind = "error" if bounds > LINE else "rounding"
    if totals.nonfinite.count:
        kind, bounds, place = "nonfinite", math.inf, totals.nonfinite.first
        unequal += totals.nonfinite.count
    elif totals.overflowed.count and kind == "rounding" and not _comes_from_mask(call):
        kind, bounds, place = "overflow", math.inf, totals.overflowed.first
        unequal += totals.overflowed.count
    return TensorError(
        path=call.call.event.uses[number].path,
        dtype=dtype_name(recorded.dtype),
        shape=tuple(recorded.shape),
        bounds=bounds,
        kind=kind,
        factor=totals.product / totals.exact if totals.exact > 0 else 0.0,
        relative=math.sqrt(totals.error) / max(math.sqrt(totals.exact), 1e-300),
        cancellation=_cancellation(totals, terms),
        worst=tuple(int(i) for i in torch.unravel_index(torch.tensor(place), recorded.shape)),
        got=recorded.reshape(-1)[place].to(exact.dtype).item(),
        exact=exact.reshape(-1)[place].item(),
        unequal=unequal,
        count=recorded.numel(),
    )


def rounding_bound(call: DoubleCall, number: int, dtype: torch.dtype) -> torch.Tensor:
    """What rounding may do to each element of a result of this dtype."""
    exact = call.exact[number]
    return half_steps(exact.where(exact.isfinite(), 0.0), dtype) + computing_error(terms_of(call, number), dtype)


def _comes_from_mask(call: DoubleCall) -> bool:
    """A number near the dtype's largest stands for "masked", and is added to or multiplied."""
    for number, tensor in call.tensors.items():
        dtype = call.call.tensors[number].dtype
        if (
            is_bounded(dtype)
            and tensor.numel()
            and float(tensor.abs().max()) > _MASK * torch.finfo(real_dtype(dtype)).max
        ):
            return True
    numbers = [v for v in [*call.arguments.args, *call.arguments.kwargs.values()] if isinstance(v, float)]
    return any(abs(each) > 9999 for each in numbers)


def _cancellation(totals: Totals, terms: Terms) -> float:
    left, made_of = math.sqrt(totals.exact), math.sqrt(totals.sizes / terms.count)
    return max(1.0, made_of / left) if left > 0 else 1.0


def _in_proportion(totals: Totals, exact: torch.Tensor, recorded: torch.Tensor) -> float:
    """The error's part in proportion to the values, in units of what rounding may come to.

    Roundings of many values go up and down, and cancel; what is cut off, or made with a wrong factor, does not.
    """
    power = totals.weighted_exact
    if power == 0:
        return 0.0
    factor = totals.weighted_product / power
    systematic = totals.one_direction / power
    independent = _SPREADS / math.sqrt(3 * power)
    share = abs(factor) / (systematic + independent)
    if share > LINE:
        # The same value is rounded alike wherever it stands: it counts once.
        sample, kept = exact.reshape(-1)[:_SAMPLE], recorded.reshape(-1)[:_SAMPLE]
        different = int(torch.unique(sample.where(sample.isfinite() & kept.isfinite(), 0.0).abs()).numel())
        share = 0.0 if different < _FEW else abs(factor) / (
            systematic + independent * math.sqrt(sample.numel() / different)
        )  # fmt: skip
    return share


def cancels(error: TensorError) -> bool:
    """Whether terms cancelled so far that most digits of the result are rounding: no mistake of the operator."""
    return error.cancellation > _CANCELLATION
