"""Rows of padded tensors that are alive: a graph captured for many is replayed with few."""

from __future__ import annotations

from typing import Any

import torch


class LiveRows:
    """Limits tensors whose first axis is `padded` long to the rows that are alive.

    Parameters
    ----------
    rows : int or tensor
        How many are alive: a number, or a CUDA tensor of one integer that holds it when the GPU gets there. The tensor
        must live as long as the graphs that were captured with it.
    padded : int
        How long the first axis is of tensors that have such rows.
    """

    def __init__(self, rows: int | torch.Tensor, padded: int) -> None:
        if isinstance(padded, bool) or not isinstance(padded, int) or padded < 0:
            raise ValueError(f"padded is {padded!r}: it is the length of the first axis of padded tensors")
        self.padded = padded
        self.rows = rows
        self._pinned: Any = None
        if isinstance(rows, int) and not isinstance(rows, bool):
            if rows < 0:
                raise ValueError(f"rows is {rows}: it is how many rows are alive")
            return
        is_count = isinstance(rows, torch.Tensor) and rows.numel() == 1 and rows.dtype in (torch.int32, torch.int64)
        if not is_count or not rows.is_cuda:  # type: ignore[union-attr]
            raise ValueError("rows is neither a number nor a CUDA tensor of one int32 or int64")

    @classmethod
    def of(cls, rows: int | torch.Tensor | None, padded: int | None) -> LiveRows | None:
        """From two options, of which both or none are given."""
        if rows is None and padded is None:
            return None
        if rows is None or padded is None:
            raise ValueError("rows and padded belong together: how many are alive, of how many")
        return cls(rows, padded)

    def limits(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has such rows."""
        return tensor.dim() > 0 and tensor.shape[0] == self.padded

    def on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the host's without the others; where only a GPU knows how many, as it is."""
        return tensor[: self.rows] if isinstance(self.rows, int) and self.limits(tensor) else tensor

    def address(self) -> tuple[int, bool]:
        """Where a GPU finds the number, and whether it is of 64 bits."""
        if isinstance(self.rows, int):
            if self._pinned is None:
                self._pinned = torch.tensor(self.rows, dtype=torch.int64).pin_memory()
            return self._pinned.data_ptr(), True
        return self.rows.data_ptr(), self.rows.dtype == torch.int64


def row_options(live: LiveRows | None) -> dict[str, Any]:
    """For an operator source."""
    if live is None:
        return {}
    address, is_64_bit = live.address()
    return {"padded": live.padded, "rows": address, "rows_are_64_bit": is_64_bit}
