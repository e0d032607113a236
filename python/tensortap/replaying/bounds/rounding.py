"""The rounding bound of each element, from the terms that made it."""

from __future__ import annotations

import torch

from tensortap.replaying.bounds.attention import terms_of_attention
from tensortap.replaying.bounds.collectives import terms_of_collective
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.elements import terms_of_elements
from tensortap.replaying.bounds.interpolation import terms_of_interpolation
from tensortap.replaying.bounds.norms import terms_of_norm
from tensortap.replaying.bounds.sums import terms_of_sum
from tensortap.replaying.bounds.terms import Terms

_RULES = (terms_of_collective, terms_of_sum, terms_of_norm, terms_of_attention, terms_of_interpolation)
_EXPONENT = 0x7FF << 52  # these bits of a float64
_MOST_STEPS = 100.0  # however many terms: they do not all err alike
_MANTISSA = {
    torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53,
    torch.float8_e4m3fn: 4, torch.float8_e5m2: 3,
}  # fmt: skip
_COMPLEX = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Of a complex dtype that of its parts."""
    return _COMPLEX.get(dtype, dtype)


def is_bounded(dtype: torch.dtype) -> bool:
    """Whether rounding to this dtype is known, and float64 is more exact."""
    return real_dtype(dtype) in _MANTISSA and real_dtype(dtype) != torch.float64


def terms_of(call: DoubleCall, number: int) -> Terms:
    """What the result of this use was made of."""
    path = call.call.event.uses[number].path
    for rule in _RULES:
        if (terms := rule(call, number, path)) is not None:
            return terms
    return terms_of_elements(call, number, path)


def step_of(dtype: torch.dtype) -> float:
    """From 1 to the next value."""
    return float(2.0 ** (1 - _MANTISSA[real_dtype(dtype)]))


def half_steps(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What rounding each value to the dtype may change it by."""
    dtype = real_dtype(dtype)
    sizes = exact.abs().clamp_(min=torch.finfo(dtype).smallest_normal, max=1e300)
    sizes.view(torch.int64).bitwise_and_(_EXPONENT)  # the power of two that each is not below
    return sizes.mul_(2.0 ** -_MANTISSA[dtype])


def summing_step(dtype: torch.dtype) -> float:
    """The step of the dtype in which sums are made: float32 for narrower ones."""
    return min(step_of(dtype), step_of(torch.float32))


def computing_error(terms: Terms, dtype: torch.dtype) -> torch.Tensor:
    """What computing may add to the one rounding of the result."""
    steps = min(terms.steps + terms.count**0.5, _MOST_STEPS)
    return weighed_terms(terms, dtype, steps)


def weighed_terms(terms: Terms, dtype: torch.dtype, steps: float) -> torch.Tensor:
    """So many steps of the dtype of sums of each element's terms, and what it may be off by besides."""
    error: torch.Tensor = steps * summing_step(dtype) * terms.sizes + terms.absolute
    if terms.own is not None:
        error = error + 0.5 * step_of(dtype) * terms.own
    return error.nan_to_num_(nan=0.0, posinf=0.0)
