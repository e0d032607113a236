"""A quantized tensor: its plain parts, and how they are to be read together."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping

import torch

from tensortap import _core
from tensortap.literals import QuantPart
from tensortap.quant.compacting import compact_scales
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.typed_dicts import QuantStatistics

PARTS: tuple[QuantPart, ...] = ("payload", "scale", "global_scale", "zero_point")  # in this order


class Group:
    """A payload, its scales and the rest, which are one tensor.

    Attributes
    ----------
    format
        How they are to be read; None for one whose format is not known well enough to decode it.
    shape, dtype
        Of the tensor that they stand for.
    note
        Why it cannot be decoded; empty when it can.
    members
        Of a module: the names of the parameters and buffers that it is made of.
    """

    def __init__(
        self,
        format: _core.QuantFormat | None,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        parts: Mapping[str, torch.Tensor | None],
        *,
        note: str = "",
        members: tuple[str, ...] = (),
    ) -> None:
        self.format: _core.QuantFormat | None = format
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: torch.dtype = dtype
        self.note: str = note
        self.members: tuple[str, ...] = members
        self._parts = {name: part for name, part in parts.items() if part is not None}

    def parts(self) -> dict[str, torch.Tensor]:
        """The plain tensors by what they are: `payload`, `scale`, and `global_scale`, `zero_point` if it has them."""
        return dict(self._parts)

    def parts_in_order(self) -> list[torch.Tensor | None]:
        """The parts as the extension takes them; None for one that it has not."""
        return [self._parts.get(name) for name in PARTS]

    @property
    def values_dtype(self) -> torch.dtype:
        """What it is decoded to: its own dtype, or float32 where nothing decodes to that."""
        decodable = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
        return self.dtype if self.dtype in decodable else torch.float32

    @property
    def description(self) -> str:
        """The format and the names of the parts as JSON: what a recording keeps of it. Empty without a format."""
        if self.format is None:
            return ""
        return f'{{"format": {self.format.to_json()}, "parts": {json.dumps(list(self._parts))}}}'

    def decoded(self, dtype: torch.dtype | None = None, *, rotated: bool = False) -> torch.Tensor:
        """The values, where the payload is.

        Parameters
        ----------
        dtype
            float32, float64, bfloat16 or float16; the tensor's own unless given.
        rotated
            Decode also what was rotated before it was quantized, and is not the tensor's values.
        """
        made = self._known_format()
        if made.rotated and not rotated:
            raise ValueError(
                "this group was rotated before it was quantized, or it is not known whether: it does not decode to the "
                "tensor's values; pass rotated=True to decode what it holds"
            )
        with no_modes(), torch.no_grad():
            out = torch.empty(self.shape, dtype=dtype or self.values_dtype, device="cpu")
            _core.quant_decode(made, list(self.shape), *self._on_host(), out=out)
            return out.to(self._parts["payload"].device)

    def scales(self) -> torch.Tensor:
        """The scale of each block as float32, with the global scale taken in: rows × columns of the grid of blocks."""
        with no_modes(), torch.no_grad():
            data, shape = _core.quant_decode_scales(self._known_format(), list(self.shape), *self._on_host())
            return torch.from_dlpack(data).view(torch.float32).view(shape)

    def compact(self) -> Group:
        """The same group with its scales in the order of the blocks: no tiles, no padding."""
        made = self._known_format()
        if made.scale_layout == "compact" and not made.scale_transposed:
            return self
        grid = self.scales().shape
        plain = copy.copy(made)
        plain.scale_layout, plain.scale_transposed = "compact", False
        parts = self.parts() | compact_scales(made, grid, self._on_host())
        return Group(plain, self.shape, self.dtype, parts, note=self.note, members=self.members)

    def statistics(self, twin: torch.Tensor, *, block_amax: bool = False) -> QuantStatistics:
        """What quantizing did, held against the tensor that was quantized: underflow, overflow, mse, SQNR, scales.

        Parameters
        ----------
        twin
            The tensor before: of the same shape, float32, bfloat16 or float16.
        block_amax
            Also the largest magnitude of each block.
        """
        if tuple(twin.shape) != self.shape:
            raise ValueError(f"the twin's shape is {tuple(twin.shape)}, the group's {self.shape}")
        with no_modes(), torch.no_grad():
            return _core.quant_group_statistics(
                twin.detach().cpu(), self._known_format(), *self._on_host(), block_amax=block_amax
            )

    def __repr__(self) -> str:
        kind = self.format.name if self.format is not None else f"not decoded: {self.note}"
        return f"<Group {kind} of shape {list(self.shape)}, {self.dtype}: {', '.join(self._parts)}>"

    def _known_format(self) -> _core.QuantFormat:
        if self.format is None:
            raise ValueError(f"this group cannot be decoded: {self.note}; its parts() are there")
        return self.format

    def _on_host(self) -> list[torch.Tensor | None]:
        return [None if part is None else part.detach().cpu() for part in self.parts_in_order()]
