"""What identifies a graph of torch.compile, in every process alike.

The id of a graph is a hash of a text that says all of its structure: the nodes in order with what they call and what
they are given, the shapes and dtypes of the inputs, symbols numbered as they appear. Nothing in it depends on the
process: no address, no `id()`, no order of a set, no counter.

Names of nodes are part of it. Structure alone would do to tell what is computed, but whoever has an id looks for
`%add_1` in a recording, a file or the graph's code: the same id promises the same names.
"""

from __future__ import annotations

import enum
import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx

from tensortap import _core
from tensortap.tensors.dtypes import TORCH_DTYPES

# Constants of at most so many elements count with their values.
_SMALL = 4096
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
# What Dynamo names after the `id()` of an object.
_OBJECT_NUMBER = re.compile(r"\d{9,}")


def graph_id(module: torch.fx.GraphModule, stage: str, part: str) -> str:
    """Say which graph it is.

    Parameters
    ----------
    module
        The graph. It is not changed, and nothing of it is run.
    stage, part
        Where in the compilation it was taken, and of what: as forward and as inference the same graph has two ids.

    Returns
    -------
    str
        12 hexadecimal digits: the same for the same graph in every process.
    """
    text = _GraphText(_Symbols())
    text.add(f"{stage} {part}")
    with torch.utils._python_dispatch._disable_current_modes():  # constants are read, not traced
        text.add_graph(module)
    return hashlib.blake2b("\n".join(text.lines).encode(), digest_size=6).hexdigest()


def target_name(node: torch.fx.Node) -> str:
    """What a node calls or stands for: `aten.add.Tensor`, `torch.nn.functional.linear`, `view`, `layers.0`."""
    return node.target if isinstance(node.target, str) else function_name(node.target)


def function_name(function: Callable[..., Any]) -> str:
    """The name under which a function is known, whatever the process."""
    if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(function)
    if isinstance(function, torch._ops.HigherOrderOperator):
        return f"higher_order.{function.name()}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if name is None:  # an object that can be called
        return _object_text(function)
    short = getattr(function, "__name__", name)
    for place, known in _PLACES:
        if getattr(known, short, None) is function:
            return f"{place}.{short}"
    module = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", "")
    name = short if "pybind11" in name else name  # which names the compiler that PyTorch was built with
    return f"{module.replace('_operator', 'operator')}.{name}" if module else name


# Built-in functions often do not say where they come from; the first place that has one is how people write it.
_PLACES = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("operator", operator),
    ("math", __import__("math")),
    ("torch._C._nn", torch._C._nn),
    ("torch._C", torch._C),
    ("torch.fft", torch.fft),
    ("torch.linalg", torch.linalg),
    ("torch.special", torch.special),
)


class _Symbols:
    """Symbols of sizes, numbered in the order in which they are met."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def text(self, value: torch.SymInt | torch.SymFloat | torch.SymBool) -> str:
        expression = value.node.expr
        known = {symbol: self._named(symbol) for symbol in sorted(expression.free_symbols, key=str)}
        return str(expression.xreplace(known))

    def name(self, symbol: str) -> str:
        """The canonical name of a symbol that was met; else what was given."""
        return self._names.get(symbol, symbol)

    def _named(self, symbol: Any) -> Any:
        name = self._names.setdefault(symbol.name, f"d{len(self._names)}")
        return type(symbol)(name, **symbol.assumptions0)


class _GraphText:
    """The lines from which the id of a graph is made."""

    def __init__(self, symbols: _Symbols) -> None:
        self.lines: list[str] = []
        self._symbols = symbols
        self._numbers: dict[torch.fx.Node, int] = {}

    def add(self, line: str) -> None:
        self.lines.append(line)

    def add_graph(self, module: torch.fx.GraphModule) -> None:
        for node in module.graph.nodes:
            self._numbers[node] = len(self._numbers)
            given = [self._value(argument) for argument in node.args]
            given += [f"{name}={self._keyword(node, name)}" for name in sorted(node.kwargs)]
            name = self._name(node)
            self.add(f"%{name} {node.op} {self._described(node, module)}({', '.join(given)})")

    def _name(self, node: torch.fx.Node) -> str:
        value = node.meta.get("example_value", node.meta.get("val"))
        if node.op == "placeholder" and isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            self._symbols.text(value)  # it is named after its symbol, for which a number stands
        return _OBJECT_NUMBER.sub("N", self._symbols.name(node.name))

    def _described(self, node: torch.fx.Node, module: torch.fx.GraphModule) -> str:
        if node.op == "placeholder":  # its target repeats its name
            return self._type(node.meta.get("example_value", node.meta.get("val")))
        if node.op == "get_attr":
            return f"{node.target} {self._attribute(str(node.target), _attribute(module, str(node.target)))}"
        if node.op == "call_module":
            return f"{node.target} {self._module(_attribute(module, str(node.target)))}"
        return target_name(node)

    def _type(self, value: Any) -> str:
        """What is known of an input: of a tensor shape, strides, dtype, device; of a number whether it is symbolic."""
        if isinstance(value, torch.Tensor):
            shape = ", ".join(self._value(size) for size in value.shape)
            parts = [f"{value.dtype}[{shape}]", str(value.device)]
            if value.layout is torch.strided:
                parts.append(f"strides [{', '.join(self._value(size) for size in value.stride())}]")
            else:
                parts.append(str(value.layout))
            if value.requires_grad:
                parts.append("requires_grad")
            return " ".join(parts)
        return self._value(value)

    def _attribute(self, name: str, value: Any) -> str:
        if isinstance(value, torch.fx.GraphModule):
            return self._module(value)
        if not isinstance(value, torch.Tensor):
            return self._value(value)
        text = self._type(value)
        # Weights change as a model learns, and make no other graph. A constant of the code does.
        if "constant" in name and not isinstance(value, torch.nn.Parameter):
            text += f" {_content(value)}"
        return text

    def _module(self, module: Any) -> str:
        if isinstance(module, torch.fx.GraphModule):
            inner = _GraphText(self._symbols)
            inner.add_graph(module)
            return "{\n" + "\n".join(inner.lines) + "\n}"
        states = [*module.named_parameters(), *module.named_buffers()]
        described = [f"{name}: {self._type(value)}" for name, value in states]
        return f"{function_name(type(module))}({_ADDRESS.sub('', module.extra_repr())}) [{', '.join(described)}]"

    def _keyword(self, node: torch.fx.Node, name: str) -> str:
        value = node.kwargs[name]
        # Triton kernels and their constants stand in a table of the process; nodes hold places in it.
        if name in ("kernel_idx", "constant_args_idx") and isinstance(value, int):
            return self._value(_triton_table_entry(name, value))
        return self._value(value)

    def _value(self, value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return f"%{self._numbers[value]}"
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self._symbols.text(value)
        if isinstance(value, torch.Tensor):
            return f"{self._type(value)} {_content(value)}"
        if isinstance(value, enum.Enum):
            return str(value)
        if value is None or value is ... or isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if isinstance(value, slice):
            return f"slice({self._value(value.start)}, {self._value(value.stop)}, {self._value(value.step)})"
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{self._value(key)}: {self._value(item)}' for key, item in value.items())}}}"
        if isinstance(value, set | frozenset):
            return f"set({', '.join(sorted(self._value(item) for item in value))})"
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            if hasattr(value, "_fields"):
                kind = type(value).__name__
            return f"{kind}({', '.join(self._value(item) for item in value)})"
        if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
            return str(value)
        if isinstance(value, torch.fx.GraphModule):
            return self._module(value)
        if callable(value) and hasattr(value, "__name__"):
            return function_name(value)
        return _object_text(value)


def _attribute(module: torch.nn.Module, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _content(tensor: torch.Tensor) -> str:
    """A hash of the values of a small constant; nothing for one without values, or with many."""
    if tensor.numel() > _SMALL or tensor.dtype not in TORCH_DTYPES.values():
        return ""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type == "meta":
        return ""
    if tensor.layout is not torch.strided:
        return ""
    with torch.no_grad():
        return _core.fingerprint(tensor.detach().cpu().resolve_conj().resolve_neg()).hash


def _triton_table_entry(name: str, index: int) -> Any:
    try:
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table  # not in every PyTorch

        if name == "constant_args_idx":
            return kernel_side_table.get_constant_args(index)
        kernel = kernel_side_table.get_kernel(index)
        return function_name(getattr(kernel, "fn", kernel))
    except (ImportError, AttributeError, AssertionError, KeyError):
        return index


def _object_text(value: Any) -> str:
    """An object by its type, and by what it says of itself but where it lies."""
    kind = type(value)
    said = repr(value) if kind.__repr__ is not object.__repr__ else ""
    return f"{kind.__module__}.{kind.__qualname__} {_OBJECT_NUMBER.sub('N', _ADDRESS.sub('', said))}".strip()
