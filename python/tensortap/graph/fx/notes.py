"""Where a node comes from: its stack, and the module or parameter that a path of Dynamo's names."""

from __future__ import annotations

import re

import torch

_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')
# L['self']._modules['layers']._modules['0']._parameters['weight'], and the same with attributes
_STEP = re.compile(
    r"\._(?:modules|parameters|buffers)\[['\"](?P<name>[^'\"]+)['\"]\]|\.(?P<attribute>\w+)|\[(?P<index>\d+)\]"
)
_BASE = re.compile(r"[A-Z]+\[['\"](?P<name>[^'\"]+)['\"]\]")


def stack_of(node: torch.fx.Node) -> str:
    """The stack a node was made from, as an event keeps it: a frame per line, innermost last."""
    lines: list[str] = []
    for line in (node.meta.get("stack_trace") or "").splitlines():
        if match := _FRAME.fullmatch(line):
            lines.append(f"{match['file']}:{match['line']} in {match['function']}\t")
        elif lines and lines[-1].endswith("\t"):
            lines[-1] += line.strip()
    return "\n".join(lines)


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
