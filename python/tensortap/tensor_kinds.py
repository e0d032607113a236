"""What is said of tensor subclasses in an operator log."""

from __future__ import annotations

import json
from typing import Any

import torch


def describe(tensor: torch.Tensor) -> tuple[str, bool]:
    """JSON about a tensor whose class takes part in dispatch, and whether what its own code calls is shown.

    A DTensor's operator has its local operators and collectives beneath it; what a fake tensor's class calls to work
    out a shape is no operator of the program.
    """
    kind = type(tensor)
    facts: dict[str, Any] = {"class": kind.__name__}
    if kind.__name__ == "DTensor":
        spec = tensor._spec  # type: ignore[attr-defined]
        mesh = spec.mesh
        facts["placements"] = [str(placement) for placement in spec.placements]
        facts["mesh"] = {"shape": list(mesh.shape), "names": list(mesh.mesh_dim_names or [])}
        return json.dumps(facts), True
    if kind.__name__ == "FakeTensor":
        facts["device"] = str(tensor.fake_device)  # type: ignore[attr-defined]
        return json.dumps(facts), False
    return json.dumps(facts), kind.__name__ != "FunctionalTensor"
