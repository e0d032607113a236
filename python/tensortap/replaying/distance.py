"""How far two tensors are apart."""

from __future__ import annotations

import torch


def distances(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Of each element, in double precision; none between equal infinities, or NaN and NaN; infinite beside one NaN."""
    first, second = _wide(one), _wide(other).to(one.device)
    same = (first == second) | (first.isnan() & second.isnan())
    return (first - second).abs().where(~same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)


def typical_size(tensor: torch.Tensor) -> float:
    """The root mean square of its finite values; 0 where it has none."""
    wide = _wide(tensor).abs()
    return float(wide.where(wide.isfinite(), 0.0).square().mean().sqrt()) if tensor.numel() else 0.0


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
