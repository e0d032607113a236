"""What is said of tensor subclasses in an operator log."""

from __future__ import annotations

import json
from typing import Any

import torch


def describe(tensor: torch.Tensor) -> tuple[str, str, bool]:
    """What is said of a tensor whose class takes part in dispatch: note, JSON, and whether its own calls are shown.

    A DTensor's operator has its local operators and collectives beneath it; what a fake tensor's class calls to work
    out a shape is no operator of the program.
    """
    name = type(tensor).__name__
    if name == "DTensor":
        spec = tensor._spec  # type: ignore[attr-defined]
        mesh: dict[str, Any] = {"shape": list(spec.mesh.shape)}
        if spec.mesh.mesh_dim_names:
            mesh["names"] = list(spec.mesh.mesh_dim_names)
        placements = [str(placement) for placement in spec.placements]
        return "dtensor", json.dumps({"placements": placements, "mesh": mesh}), True
    if name == "FakeTensor":
        return "fake", "true", False
    return "classes", json.dumps(name), name != "FunctionalTensor"
