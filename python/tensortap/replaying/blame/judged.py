"""How far one recorded call is from the exact result of its own arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tensortap.literals import BlameKind
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.rounding import (
    computing_error,
    half_steps,
    is_bounded,
    real_dtype,
    step_of,
    summing_step,
    terms_of,
)
from tensortap.replaying.bounds.terms import Terms
from tensortap.replaying.call_tensors import dtype_name

# An error of so many rounding bounds is one that rounding does not explain: a cast that cuts off is off by up to two.
LINE = 1.5
# Where the terms are so many times what is left of them, most of its digits are rounding: docs/measures.md.
_CANCELLATION = 16.0
# Steps of the dtype of sums, in proportion to the result, that rounding of one direction may come to.
_STEPS_IN_PROPORTION = 16.0
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
    wide = recorded.to(exact.dtype)
    sound = exact.isfinite() & wide.isfinite()
    error = (wide - exact).abs().where(sound, 0.0)
    half = half_steps(exact.where(sound, 0.0), recorded.dtype)
    ratio = error / (half + computing_error(terms, recorded.dtype))
    kind: BlameKind = "rounding"
    broken = _broken(wide, exact)
    overflowed = broken & (exact.abs() > torch.finfo(real_dtype(recorded.dtype)).max)
    bounds, factor = float(ratio.max()), 0.0
    if not recorded.is_complex():
        bounds = max(
            bounds,
            _in_proportion((wide - exact).where(sound, 0.0), exact.where(sound, 0.0), half, terms, recorded.dtype),
        )
        factor = _factor((wide - exact).where(sound, 0.0), exact.where(sound, 0.0))
    if bounds > LINE:
        kind = "error"
    if bool((broken & ~overflowed).any()):
        kind, bounds, ratio = "nonfinite", math.inf, ratio.where(~broken | overflowed, math.inf)
    elif bool(overflowed.any()) and kind == "rounding" and not _comes_from_mask(call):
        kind, bounds, ratio = "overflow", math.inf, ratio.where(~overflowed, math.inf)
    place = int(ratio.reshape(-1).argmax())
    return TensorError(
        path=call.call.event.uses[number].path,
        dtype=dtype_name(recorded.dtype),
        shape=tuple(recorded.shape),
        bounds=bounds,
        kind=kind,
        factor=factor,
        relative=_size(error) / max(_size(exact.abs().where(sound, 0.0)), 1e-300),
        cancellation=_cancellation(terms, exact.where(sound, 0.0)),
        worst=tuple(int(i) for i in torch.unravel_index(torch.tensor(place), recorded.shape)),
        got=wide.reshape(-1)[place].item(),
        exact=exact.reshape(-1)[place].item(),
        unequal=int((ratio > 1).sum()),
        count=recorded.numel(),
    )


def rounding_bound(call: DoubleCall, number: int, dtype: torch.dtype) -> torch.Tensor:
    """What rounding may do to each element of a result of this dtype."""
    exact = call.exact[number]
    return half_steps(exact.where(exact.isfinite(), 0.0), dtype) + computing_error(terms_of(call, number), dtype)


def _broken(wide: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """NaN or Inf where the exact value is neither."""
    return exact.isfinite() & ~wide.isfinite()


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


def _size(tensor: torch.Tensor) -> float:
    return float(tensor.square().mean().sqrt())


def _cancellation(terms: Terms, exact: torch.Tensor) -> float:
    left, made_of = _size(exact.abs()), _size(terms.sizes.nan_to_num(nan=0.0, posinf=0.0)) / math.sqrt(terms.count)
    return max(1.0, made_of / left) if left > 0 else 1.0


def _in_proportion(
    error: torch.Tensor, exact: torch.Tensor, half: torch.Tensor, terms: Terms, dtype: torch.dtype
) -> float:
    """The error's part in proportion to the values, in units of what rounding may come to.

    Roundings of many values go up and down, and cancel; what is cut off, or made with a wrong factor, does not.
    """
    # Beside its own rounding each value counts as much, however large it is.
    weights = 1 / half.square()
    power = float((weights * exact.square()).sum())
    if power == 0:
        return 0.0
    factor = float((weights * error * exact).sum()) / power
    systematic = float((weights * exact.abs() * _of_one_direction(terms, dtype)).sum()) / power
    independent = _SPREADS / math.sqrt(3) * math.sqrt(float((weights * exact.square()).sum())) / power
    share = abs(factor) / (systematic + independent)
    if share > LINE:
        # The same value is rounded alike wherever it stands: it counts once.
        different = int(torch.unique(exact.reshape(-1)[:_SAMPLE].abs()).numel())
        seen = min(exact.numel(), _SAMPLE)
        share = 0.0 if different < _FEW else abs(factor) / (systematic + independent * math.sqrt(seen / different))
    return share


def _factor(error: torch.Tensor, exact: torch.Tensor) -> float:
    size = float(exact.square().sum())
    return float((error * exact).sum()) / size if size > 0 else 0.0


def _of_one_direction(terms: Terms, dtype: torch.dtype) -> torch.Tensor:
    """For each value the error that many may have in one direction."""
    most: torch.Tensor = _STEPS_IN_PROPORTION * summing_step(dtype) * terms.sizes + terms.absolute
    if terms.own is not None:
        most = most + 0.5 * step_of(dtype) * terms.own
    return most.nan_to_num(nan=0.0, posinf=0.0)


def cancels(error: TensorError) -> bool:
    """Whether terms cancelled so far that most digits of the result are rounding: no mistake of the operator."""
    return error.cancellation > _CANCELLATION
