"""What is said of a node beside its values: what it calls, where it stands in the source, which parameter it is."""

from __future__ import annotations

import re
from typing import Any

import torch

_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')
# L['self']._modules['layers']._modules['0']._parameters['weight'], and the same with attributes
_STEP = re.compile(
    r"\._(?:modules|parameters|buffers)\[['\"](?P<name>[^'\"]+)['\"]\]|\.(?P<attribute>\w+)|\[(?P<index>\d+)\]"
)
_BASE = re.compile(r"[A-Z]+\[['\"](?P<name>[^'\"]+)['\"]\]")


def target_text(node: torch.fx.Node) -> str:
    """What the node calls, as people write it: `aten.add.Tensor`, `torch.relu`, `add_`, `layers.0`."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    name = getattr(target, "__name__", None) or type(target).__name__
    module = getattr(target, "__module__", None) or ""
    if module in ("_operator", "operator"):
        return f"operator.{name}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{name}"
    if getattr(torch, name, None) is target:
        return f"torch.{name}"
    for place in ("nn.functional", "linalg", "fft", "special"):
        package: Any = torch
        for step in place.split("."):
            package = getattr(package, step)
        if getattr(package, name, None) is target:
            return f"torch.{place}.{name}"
    return f"{module}.{name}" if module else name


class Frames:
    """The stack a node was made from, innermost last."""

    def __init__(self, node: torch.fx.Node) -> None:
        self._frames: list[tuple[str, str, str, str]] = []
        trace = node.meta.get("stack_trace") or node.stack_trace or ""
        for line in trace.splitlines():
            if match := _FRAME.fullmatch(line):
                self._frames.append((match["file"], match["line"], match["function"], ""))
            elif self._frames and line.strip() and not self._frames[-1][3]:
                self._frames[-1] = (*self._frames[-1][:3], line.strip())

    def source(self) -> str | None:
        """The innermost frame: `model.py:32 in forward: x = x + y`."""
        if not self._frames:
            return None
        file, line, function, text = self._frames[-1]
        return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{line} in {function}" + (f": {text}" if text else "")

    def text(self) -> str:
        """All of them, as an event keeps its stack."""
        return "\n".join(f"{file}:{line} in {function}\t{text}" for file, line, function, text in self._frames)


def path_steps(text: str) -> tuple[str, ...]:
    """The steps of a path from what it begins with: `layers`, `0` of `L['self'].layers.0`."""
    base = _BASE.match(text)
    rest = text[base.end() :] if base is not None else f".{text}"
    if "[" not in rest:
        return tuple(step for step in rest.split(".") if step)
    return tuple(match["name"] or match["attribute"] or match["index"] for match in _STEP.finditer(rest))


def parameter_steps(source: object) -> tuple[str, ...] | None:
    """The steps to the parameter or buffer that a Dynamo source names; None when it names something else."""
    name = getattr(source, "name", None)
    text = name() if callable(name) else name
    if not isinstance(text, str) or not re.search(r"_(parameters|buffers)\[", text):
        return None
    return path_steps(text)
