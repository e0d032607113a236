"""Operators that PyTorch has in no float64: what they compute, in words of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensortap.replaying.operators import OpName

Kernel = Callable[..., Any]


def kernel_in_double(name: OpName) -> Kernel | None:
    """The kernel to call in place of the operator; None: itself."""
    return _KERNELS.get(name.name) if name.library == "aten" else None


def _grouped_mm(
    first: torch.Tensor,
    second: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The products of groups: `offs` says where each ends, in the rows of the first or in the axis that is summed."""
    del out_dtype
    if offs is None:
        return torch.bmm(first, second)
    ends = offs.tolist()
    begins = [0, *ends[:-1]]
    spans = list(enumerate(zip(begins, ends, strict=True)))
    if first.dim() == 2 and second.dim() == 3:
        made = first.new_zeros(first.shape[0], second.shape[2])
        for group, (begin, end) in spans:
            made[begin:end] = first[begin:end] @ second[group]
    elif first.dim() == 2:
        made = first.new_zeros(len(ends), first.shape[0], second.shape[1])
        for group, (begin, end) in spans:
            made[group] = first[:, begin:end] @ second[begin:end]
    else:
        made = first.new_zeros(first.shape[1], second.shape[1])
        for group, (begin, end) in spans:
            made[:, begin:end] = first[group] @ second[:, begin:end]
    return made if bias is None else made + bias


_KERNELS: dict[str, Kernel] = {"_grouped_mm": _grouped_mm}
