"""What is said of tensor subclasses in an operator log."""

from __future__ import annotations

import json
from typing import Any

import torch

from tensortap import _core
from tensortap.tensors.quant_on_gpu import new_tensor
from tensortap.tensors.quant_values import values_of
from tensortap.tensors.snapshot import known_groups

_MOST_DECODED = _core.RecorderOptions().device_staging_bytes  # of a tensor on a GPU, where nothing else is said


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
    if name == "FunctionalTensor":
        return "classes", json.dumps(name), False
    if (groups := known_groups(tensor)) is not None:
        made = groups[""].format
        return "quantized", json.dumps(made.name if made is not None else name), True
    return "classes", json.dumps(name), True


def take_apart(
    tensor: torch.Tensor, *, most_decoded: int = _MOST_DECODED
) -> list[tuple[str, torch.Tensor | None, str, str, bool]]:
    """Of a quantized tensor: each group's values, if they can be decoded, and then its parts; nothing of any other.

    Each is a path, a tensor, the description of the group, why it is not read, and whether it is the values.
    """
    found: list[tuple[str, Any, str, str, bool]] = []
    for step, group in (known_groups(tensor) or {}).items():
        path = _core.append_path("", step) if step else ""
        with values_of(group, new_tensor, most_decoded) as values:
            found.append((path, values.tensor, values.description, values.why, True))
        found += [(_core.append_path(path, name), part, "", "", False) for name, part in group.parts().items()]
    return found
