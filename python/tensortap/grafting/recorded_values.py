"""The recorded tensors where the program needs them: read when they are put in, ahead of it for CUDA graphs."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from tensortap.grafting.plan import Plan, RecordedTensor, Spot
from tensortap.grafting.report import Refused

# What a graph copies from when it is replayed: it may be replayed until the process ends.
_in_graphs: list[torch.Tensor] = []


class RecordedValues:
    """Those of one graft."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ahead: dict[tuple[torch.device, str, int], torch.Tensor] = {}  # on a GPU, by key and pass
        self._lock = threading.Lock()

    def for_own(self, own: torch.Tensor, number: int, names: Sequence[str], spot: Spot) -> torch.Tensor:
        """The tensor to put in the place of the program's own, in this pass. Raises Refused."""
        if own.is_cuda and torch.cuda.is_current_stream_capturing():
            return self._for_graph(own, number, names, spot)
        found = self._plan.found(number, names, spot)
        if found is None:
            raise Refused(self._plan.why_not_recorded(number, spot))
        if own.is_cuda:
            self._read_ahead(own.device, self._plan.from_pass_on(number + 1, names, spot))
        return found.value()

    def _for_graph(self, own: torch.Tensor, number: int, names: Sequence[str], spot: Spot) -> torch.Tensor:
        """Every replay puts in the same: what the first recorded pass from the capture on has."""
        later = self._plan.from_pass_on(number, names, spot)
        with self._lock:
            value = self._ahead.get(_shelf(own.device, later)) if later is not None else None
            if value is None:
                raise Refused("it was met in a CUDA graph that was being captured, where nothing can be read: call the "
                              "model once before the capture, with a recorded pass to come")  # fmt: skip
            if not any(value is known for known in _in_graphs):
                _in_graphs.append(value)
        return value

    def _read_ahead(self, device: torch.device, later: RecordedTensor | None) -> None:
        """Puts the next one onto the GPU: a graph may be captured there."""
        if later is None:
            return
        with self._lock:
            place = _shelf(device, later)
            if place not in self._ahead:
                for passed in [known for known in self._ahead if known[:2] == place[:2]]:
                    del self._ahead[passed]
                self._ahead[place] = later.value().to(device)
                torch.cuda.current_stream(device).synchronize()  # the graph may copy from it on another stream


def _shelf(device: torch.device, tensor: RecordedTensor) -> tuple[torch.device, str, int]:
    return device, tensor.key, tensor.recorded.number
