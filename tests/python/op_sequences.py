"""What ran, as a list of operators: of a trace, of DebugMode, of a dispatch mode that does nothing."""

import torch
from tensortap.torch_glue import op_extension
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode


def op_of(name):
    """`encoder.0:backward:aten::mm` as PyTorch writes it: `aten.mm.default`."""
    scopes_end = name.rfind(":", 0, name.index("::")) + 1
    op = name[scopes_end:].replace("::", ".")
    return op if op.count(".") > 1 else op + ".default"


def of_trace(trace):
    """In the order in which a mode is told: what autograd calls on behalf of an operator comes before it."""
    names = []
    events = list(trace)
    calls = {}  # by the operator on whose behalf
    for index, event in enumerate(events):
        if event.kind == "op":
            by = event.parent if event.parent is not None and events[event.parent].kind == "op" else None
            calls.setdefault(by, []).append(index)

    def add(index):
        for inner in calls.get(index, ()):
            add(inner)
        if index is not None:
            names.append(op_of(events[index].name))

    add(None)
    return names


def of_debug_mode(body):
    with DebugMode() as mode:
        body()
    return [str(call.op) for call in mode.operators if hasattr(call, "op")]


class Bystander(TorchDispatchMode):
    """Does nothing, and so does to a program what any dispatch mode does to it.

    While a mode is active, PyTorch hands it the shallow copies that autograd makes of a tensor that it has saved, as
    `detach` with a class among `types`. They are not operators of the program: DebugMode does not log them, and the
    trace is kept from seeing them.
    """

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not types:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))
        assert func is torch.ops.aten.detach.default
        op_extension.load().suppress_recording(1)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            op_extension.load().suppress_recording(-1)
