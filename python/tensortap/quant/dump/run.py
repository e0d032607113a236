"""A dump as a run: a pass is a step, and every command and reader works on it."""

from __future__ import annotations

import json
from typing import Any, Protocol

import torch

from tensortap import _core
from tensortap.quant.dump.layer_tap import LayerCall, LayerTap
from tensortap.quant.dump.quantized import Groups, internals
from tensortap.session.session import Session
from tensortap.session.tensor_capture import TensorCapture, TensorPlace


class Sink(Protocol):
    """Where dumped tensors go."""

    def add_model(self, described: dict[str, Any], taps: list[LayerTap]) -> None:
        """A model, and those of its layers that are dumped."""

    def begin(self, call: LayerCall) -> None:
        """A call whose tensors will come; after the first ones end(), after which gradients may come."""

    def write(
        self, call: LayerCall, name: str, high_precision: torch.Tensor | None, groups: Groups, inside: bool
    ) -> None:
        """A tensor of a call; `inside`: also the internals of its groups."""

    def end(self, call: LayerCall) -> None:
        """The call has returned, or raised."""

    def end_step(self, step: int, *, aborted: bool) -> None:
        """Nothing more comes of this step."""

    def close(self) -> None:
        """After the last step."""


class RunSink:
    """A pass is a step, and has its number where the directory was empty.

    `layer::call2@activation` is the activation of the layer's second call in the step, `…@activation/quantized` the
    quantized one, its parts and internals below it. The event of the call says which microbatch it was.
    """

    def __init__(self, session: Session, first_step: int) -> None:
        self._session = session
        self._capture = TensorCapture(session)
        self._number: int | None = None  # of the pass, when something is in it
        core = session._writer_now().core
        while first_step > 0 and core.skip_pass() < first_step - 1:
            pass

    def add_model(self, described: dict[str, Any], taps: list[LayerTap]) -> None:
        writer = self._session._writer_now()
        for tap in taps:
            for alias in tap.names[1:]:
                writer.core.add_alias(tap.names[0], alias)
        writer.add_model(described)

    def begin(self, call: LayerCall) -> None:
        core = self._session._writer_now().core
        if self._number is None:
            self._number = core.open_pass()
            if self._number != call.step:
                held = f"{self._session.directory} held passes already: step {call.step} is pass {self._number}"
                self._session._warn(held, aloud=False)
        name = call.tap.names[0]
        call.event = core.begin_event(name, "module", self._number, self._session.options.levels.of_name(name))

    def end(self, call: LayerCall) -> None:
        assert call.event is not None
        notes = json.dumps({"step": call.step, "microbatch": call.microbatch})
        self._session._writer_now().core.end_event(call.event, _core.CallTexts(notes=notes))

    def write(
        self, call: LayerCall, name: str, high_precision: torch.Tensor | None, groups: Groups, inside: bool
    ) -> None:
        assert self._number is not None
        capture, event, names = self._capture, call.event, call.tap.names
        if high_precision is not None:
            capture.record(high_precision, TensorPlace(event, self._number, names, name, ""))
        for orientation, group in groups.items():
            path = _core.append_path("", "quantized")
            path = _core.append_path(path, orientation) if orientation else path
            capture.record(group, TensorPlace(event, self._number, names, name, path))
            for step, tensor in internals(group).items() if inside else ():
                capture.record(tensor, TensorPlace(event, self._number, names, name, _core.append_path(path, step)))

    def end_step(self, step: int, *, aborted: bool) -> None:
        writer = self._session._writer_now()
        if self._number is not None:
            writer.close_pass(self._number, aborted=aborted)
        elif not aborted:
            writer.core.skip_pass()  # so that the next pass has the number of its step
        self._number = None

    def close(self) -> None:
        pass
