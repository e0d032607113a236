"""Nodes of a graph as Python code: what is called with what, and what is known of the result."""

from __future__ import annotations

import enum
import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from tensortap.graph.fx.identity import function_name
from tensortap.tensors.dtypes import TORCH_DTYPES

_SHORT_DTYPES = {theirs: ours for ours, theirs in TORCH_DTYPES.items()}
_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>", operator.eq: "==", operator.ne: "!=",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)\n\s*(?P<code>[^\n]*)')
_PATH_STEP = re.compile(r"\.?(\w+)|\[['\"]?([^\]'\"]*)['\"]?\]")


def value_of(node: torch.fx.Node) -> Any:
    """What the compiler knows of a node's value: a fake tensor, a symbolic number, or a nest of them; else None."""
    return node.meta.get("val", node.meta.get("example_value"))


def type_text(value: Any) -> str:
    """A tensor as `f32[s0, 8]`, numbers as they are, several values in brackets; nothing of what is not known."""
    if isinstance(value, torch.Tensor):
        dtype = _SHORT_DTYPES.get(value.dtype, str(value.dtype).removeprefix("torch."))
        return f"{dtype}[{', '.join(str(size) for size in value.shape)}]"
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return f"Sym({value})"
    if isinstance(value, list | tuple):
        return f"({', '.join(type_text(item) for item in value)})"
    return "" if value is None else type(value).__name__


def source_of(node: torch.fx.Node) -> str:
    """The line of the program that a node comes from, as `model.py:32 in forward: x = x + y`; nothing if unknown."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return ""
    last = frames[-1]
    name = last["file"].replace("\\", "/").rpartition("/")[2]
    return f"{name}:{last['line']} in {last['function']}: {last['code'].strip()}".rstrip(": ")


def module_of(node: torch.fx.Node) -> str:
    """The module a node belongs to, by its name from the outermost one: `layers.0.o_proj`; nothing if unknown."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    # Dynamo writes `L['self'].layers[0].o_proj`, later stages `layers.0.o_proj`.
    return dotted(paths[-1]) if paths else ""


def dotted(path: str) -> str:
    """A path such as `L['self']._modules['layers'][0]` as a name such as `layers.0`."""
    if "[" not in path:
        return path
    steps = [first or second for first, second in _PATH_STEP.findall(path.removeprefix("L"))]
    return ".".join(step for step in steps[1:] if step not in ("_modules", ""))


def call_text(node: torch.fx.Node, module: str = "self") -> str:
    """The Python expression that computes a node; `module` is what its attributes are taken from."""
    positional = [literal(argument) for argument in node.args]
    given = positional + [f"{name}={literal(value)}" for name, value in node.kwargs.items()]
    if node.op == "call_method":
        return f"{positional[0]}.{node.target}({', '.join(given[1:])})"
    if node.op == "call_module":
        return f"{attribute_text(module, str(node.target))}({', '.join(given)})"
    if node.op == "get_attr":
        return attribute_text(module, str(node.target))
    if node.op == "placeholder":
        return node.name
    if node.op == "output":
        return positional[0]
    if not node.kwargs and len(positional) == 2:
        if node.target in _INFIX:
            first, second = (f"({text})" if text.startswith("-") else text for text in positional)
            return f"{first} {_INFIX[node.target]} {second}"
        if node.target is operator.getitem:
            return f"{positional[0]}[{_index(node.args[1])}]"
        if node.target is getattr and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{positional[0]}.{node.args[1]}"
    return f"{code_name(node.target)}({', '.join(given)})"


def code_name(function: Callable[..., Any]) -> str:
    """The expression that gives a function, once the module is imported that its first parts name."""
    name = function_name(function)
    ours = isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator)
    return f"torch.ops.{name}" if ours else name.removeprefix("builtins.")


def attribute_text(module: str, name: str) -> str:
    """`self.layers` and what lies below; what is no name of Python is asked for by text."""
    text = module
    for part in name.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f"getattr({text}, {part!r})"
    return text


def literal(value: Any) -> str:
    """An argument of a node as Python code; nodes by their names."""
    if isinstance(value, torch.fx.Node):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, enum.Enum) and type(value).__module__ != "builtins":
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, torch.Size):
        return f"torch.Size([{', '.join(literal(item) for item in value)}])"
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"({', '.join(literal(item) for item in value)},)"
    if isinstance(value, tuple):
        return f"({', '.join(literal(item) for item in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return str(value)
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return code_name(value)
    return "..." if value is ... else repr(value)


def inputs_of(node: torch.fx.Node) -> Iterator[tuple[str, str]]:
    """The nodes that a node uses, each once, with what is known of them."""
    for used in node.all_input_nodes:
        yield used.name, type_text(value_of(used))


def _index(index: Any) -> str:
    if isinstance(index, tuple) and index:
        return ", ".join(_one_index(part) for part in index) + ("," if len(index) == 1 else "")
    return _one_index(index)


def _one_index(index: Any) -> str:
    if not isinstance(index, slice):
        return literal(index)
    parts = ["" if part is None else literal(part) for part in (index.start, index.stop)]
    return ":".join(parts) + ("" if index.step is None else f":{literal(index.step)}")
