"""Calls of modules inside code that torch.compile compiles: operators of ours that the compiled code calls.

Dynamo follows hooks into a compiled region. A hook that calls `tell` there leaves an operator in the graph, which hands
the tensors over whenever the compiled code runs. The operator has an effect, so nothing removes or reorders it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch._C._dynamo import eval_frame
from torch._higher_order_ops import effects
from torch.fx.node import has_side_effect

Stage = Literal["begins", "ends", "enters", "leaves"]  # of a call; of a root's, which is a pass, without tensors
# Is told the stage, the module's name, and its tensors with their paths.
Receiver = Callable[[Stage, str, list[tuple[str, torch.Tensor]]], None]

_receivers: tuple[Receiver, ...] = ()
_library: torch.library.Library | None = None


def receive(receiver: Receiver) -> None:
    """Tells it of calls from now on. Code that was compiled before has nothing to tell, and is compiled anew."""
    global _receivers
    _define()
    _receivers = (*_receivers, receiver)
    if (frames := sys.modules.get("torch._dynamo.convert_frame")) is not None:
        for reference in list(frames.input_codes.seen):
            if (code := reference()) is not None:
                eval_frame.reset_code(code)


def forget(receiver: Receiver) -> None:
    """Tells it no longer. Without the hooks the regions are compiled anew; code that is kept calls in vain."""
    global _receivers
    _receivers = tuple(known for known in _receivers if known is not receiver)


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


def tell(stage: Stage, name: str, arguments: tuple[Any, ...]) -> None:
    """In a hook that is being compiled: leaves the operator in the graph, with the tensors of the hook's arguments."""
    # An exported program goes where TensorTap is not. (Dynamo of PyTorch 2.11 takes is_exporting() for true.)
    if torch.compiler._is_exporting_flag:
        return
    tensors: list[torch.Tensor] = []
    paths: list[str] = []
    if stage == "begins":
        args, kwargs = arguments
        _collect(args, "", tensors, paths)
        _collect(kwargs, "", tensors, paths)
    elif stage == "ends":
        _, output = arguments
        _collect(output, "", tensors, paths)
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
