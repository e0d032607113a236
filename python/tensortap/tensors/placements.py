"""How DTensors are spread over ranks: learned while they are recorded, kept in placements.json."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Spread = dict[str, Any]


def spread_of(tensor: torch.Tensor) -> Spread | None:
    """A DTensor's mesh, this rank's place in it, and what each of its dimensions holds; None for any other tensor."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or not isinstance(tensor, module.DTensor):
        return None
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()  # None on a rank that is no part of the mesh
    return {
        "mesh_shape": list(mesh.shape),
        "mesh_dim_names": list(mesh.mesh_dim_names) if mesh.mesh_dim_names else None,
        "coordinate": list(coordinate) if coordinate is not None else None,
        "placements": [_text(placement) for placement in tensor.placements],
        "global_shape": list(tensor.shape),
    }


def _text(placement: Any) -> str:
    """As PyTorch's documents write it: its own text differs between versions."""
    name = type(placement).__name__
    if name == "Shard":
        return f"Shard({placement.dim})"
    if name == "Replicate":
        return "Replicate()"
    if name == "Partial":
        return f"Partial({placement.reduce_op})"
    return repr(placement)


class Placements:
    """The spreads of a rank's tensors by key. A pass in which one is other than when first seen is kept beside it."""

    def __init__(self, earlier: dict[str, Spread]) -> None:
        self._lock = threading.Lock()
        self._spreads = earlier
        self._new = False

    def note(self, keys: Iterable[str], spread: Spread, number: int) -> None:
        """A tensor of pass `number`, by each of its keys."""
        with self._lock:
            for key in keys:
                known = self._spreads.get(key)
                if known is None:
                    self._spreads[key] = dict(spread)
                elif any(known.get(name) != spread[name] for name in ("mesh_shape", "coordinate", "placements")):
                    known.setdefault("passes", {})[str(number)] = spread
                else:
                    continue  # the shape of the whole may change with every batch
                self._new = True

    def write(self, keep: Callable[[dict[str, Spread]], None]) -> None:
        """Hands all of them to `keep` if any is new since it last succeeded."""
        with self._lock:
            if self._new:
                keep(self._spreads)
                self._new = False
