"""What of a config was never there, and why: reported at the end of a dump."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tensortap.quant.dump.config import TensorPlan
from tensortap.quant.dump.quantized import Sides
from tensortap.session.coverage import Coverage

_NAMED = 3  # layers in a note


class Findings:
    """Which of what was asked for came, by layer, tensor and side."""

    def __init__(self) -> None:
        self._came: set[tuple[str, str, str]] = set()
        self._missing: dict[tuple[str, str, str], str] = {}  # to why
        self._reasons: dict[tuple[str, str], str] = {}  # why a tensor of a layer may not come

    def note(self, layer: str, plan: TensorPlan, sides: Sides) -> None:
        """A tensor came, with what there is of it."""
        for side, wanted, there, why in (
            ("high-precision", plan.high_precision, sides.high_precision is not None, sides.no_high_precision),
            ("quantized", plan.quantized, bool(sides.groups), sides.no_groups),
        ):
            if wanted and there:
                self._came.add((layer, plan.tensor, side))
            elif wanted:
                self._missing.setdefault((layer, plan.tensor, side), why)

    def excuse(self, layer: str, tensor: str, why: str) -> None:
        """A tensor does not come with this call; it may with another."""
        self._reasons[layer, tensor] = why

    def cover(self, coverage: Coverage, due: Iterable[tuple[str, str]]) -> None:
        """At the end: what was asked for and never came; `due` are the layers and their tensors that were to come."""
        layers: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for (layer, tensor, side), why in self._missing.items():
            if (layer, tensor, side) not in self._came:
                layers[side, tensor, why].append(layer)
        known = {(layer, tensor) for layer, tensor, _ in (*self._came, *self._missing)}
        for layer, tensor in due:
            if (layer, tensor) not in known:
                layers["", tensor, self._reasons.get((layer, tensor), "it never came")].append(layer)
        for (side, tensor, why), names in layers.items():
            what = f"{side} {tensor}".strip()
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            coverage.notes.append(f"no {what} of {', '.join(names[:_NAMED])}{more}: {why}")
