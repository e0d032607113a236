"""Calls of modules inside code that torch.compile compiles: operators of ours that the compiled code calls.

Dynamo follows hooks into a compiled region. A hook that calls `report` there leaves an operator in the graph, which
gives the tensors to the recordings whenever the compiled code runs. The operator has an effect, so nothing removes or
reorders it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch._C._dynamo import eval_frame
from torch._higher_order_ops import effects
from torch.fx.node import has_side_effect

# "begins" and "ends" are of a call, "adds" of results that are computed after it. Without tensors: "enters" and
# "leaves" are of a root's call, which is a pass; "holder begins" and "holder ends" of one that calls a shared module.
Stage = Literal["begins", "ends", "adds", "enters", "leaves", "holder begins", "holder ends"]
# Called with the stage, the module's name, and its tensors with their paths.
Receiver = Callable[[Stage, str, list[tuple[str, torch.Tensor]]], None]

receiving = False  # whether there are receivers; for code of ours that Dynamo follows
_receivers: tuple[Receiver, ...] = ()
_library: torch.library.Library | None = None


def receive(receiver: Receiver) -> None:
    """Calls it from now on. Code that was compiled before reports nothing, and is compiled anew."""
    global _receivers, receiving
    _define()
    _receivers = (*_receivers, receiver)
    receiving = True
    if (frames := sys.modules.get("torch._dynamo.convert_frame")) is not None:
        for reference in list(frames.input_codes.seen):
            if (code := reference()) is not None:
                eval_frame.reset_code(code)


def forget(receiver: Receiver) -> None:
    """Calls it no longer. Without the hooks the regions are compiled anew; code that is kept calls in vain."""
    global _receivers, receiving
    _receivers = tuple(known for known in _receivers if known is not receiver)
    receiving = bool(_receivers)


def _define() -> None:
    global _library
    if _library is not None:
        return
    library = torch.library.Library("tensortap", "FRAGMENT")
    library.define("module_call(Tensor[] tensors, str stage, str name, str[] paths) -> ()")
    library.impl("module_call", _called, "CompositeExplicitAutograd")
    torch.library.register_fake("tensortap::module_call", lambda *given: None, lib=library)
    effects._register_effectful_op(torch.ops.tensortap.module_call.default, effects._EffectType.ORDERED)
    has_side_effect(torch.ops.tensortap.module_call.default)  # PyTorch 2.11 asks for this when it removes nodes
    _library = library


def _called(tensors: list[torch.Tensor], stage: Stage, name: str, paths: list[str]) -> None:
    for receiver in _receivers:
        receiver(stage, name, list(zip(paths, tensors, strict=True)))


# ---- followed by Dynamo ----


def report_hook(stage: Stage, name: str, arguments: tuple[Any, ...]) -> None:
    """In a hook that is being compiled: leaves the operator in the graph, with the tensors of the hook's arguments."""
    tensors: list[torch.Tensor] = []
    paths: list[str] = []
    if stage == "begins":
        args, kwargs = arguments
        _collect(args, "", tensors, paths)
        _collect(kwargs, "", tensors, paths)
    elif stage == "ends":
        _, output = arguments
        _collect(output, "", tensors, paths)
    report(stage, name, tensors, paths)


def report(stage: Stage, name: str, tensors: list[torch.Tensor], paths: list[str]) -> None:
    """In code that is being compiled: leaves the operator in the graph."""
    # An exported program goes where TensorTap is not. (Dynamo of PyTorch 2.11 takes is_exporting() for true.)
    if not torch.compiler._is_exporting_flag:
        torch.ops.tensortap.module_call.default(tensors, stage, name, paths)


def _collect(value: Any, path: str, tensors: list[torch.Tensor], paths: list[str]) -> None:
    """As tensors.nested.tensors_in, which Dynamo cannot follow: the structures that modules of today give."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        paths.append(path)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, item in zip(value._fields, value, strict=False):
            _collect(item, f"{path}/{name}", tensors, paths)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _collect(item, f"{path}/{index}", tensors, paths)
    elif isinstance(value, dict):  # a ModelOutput too
        for name, item in value.items():
            _collect(item, f"{path}/{name}", tensors, paths)
