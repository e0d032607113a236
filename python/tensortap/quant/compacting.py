"""Scales as a plain matrix of the blocks, whatever layout they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tensortap import _core

if TYPE_CHECKING:
    from collections.abc import Sequence


def compact_scales(
    made: _core.QuantFormat, grid: Sequence[int], parts: Sequence[torch.Tensor | None]
) -> dict[str, torch.Tensor]:
    """The scales of a group, and its zero points if it has any, as rows × columns of its grid of blocks."""
    _, scale, _, zero_point = parts
    assert scale is not None
    rows, columns = grid
    if made.scale_layout == "swizzled":
        by_row = made.block_rows == 1
        tiles = torch.empty((rows, columns) if by_row else (columns, rows), dtype=torch.uint8)
        _core.unswizzle_scales(scale.contiguous().view(torch.uint8), tiles)
        return {"scale": (tiles if by_row else tiles.t().contiguous()).view(scale.dtype)}
    found = {"scale": _cropped(scale, rows, columns, made.scale_transposed)}
    if zero_point is not None:
        found["zero_point"] = _cropped(zero_point, rows, columns, made.scale_transposed)
    return found


def _cropped(scale: torch.Tensor, rows: int, columns: int, transposed: bool) -> torch.Tensor:
    height, width = (columns, rows) if transposed else (rows, columns)
    if scale.numel() == height * width:
        matrix = scale.reshape(height, width)
    elif scale.dim() < 2:  # flat, with the padding of tiles
        matrix = scale.reshape(-1, -(-width // 4) * 4)[:height, :width]
    else:
        matrix = scale.reshape(-1, scale.shape[-1])[:height, :width]
    return (matrix.t() if transposed else matrix).contiguous()
