"""What a graph writes to, and copies of its inputs for a second run that must not disturb the first."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from tensortap.graph.fx.identity import function_name
from tensortap.graph.fx.writes import quietly_written

_NONE: frozenset[str] = frozenset()


@dataclass
class Writes:
    """What a graph may write to: inputs by name, attributes by path. Rather too many than too few."""

    inputs: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)  # targets of get_attr and call_module nodes


def writes_of(module: torch.fx.GraphModule) -> Writes:
    """Follow every value through views to where it may be written."""
    found = Writes()
    roots: dict[torch.fx.Node, frozenset[str]] = {}
    targets: dict[str, str] = {}

    def written(values: Iterable[Any]) -> None:
        for value in values:
            for root in _roots_in(value, roots):
                if root in targets:
                    found.attributes.add(targets[root])
                else:
                    found.inputs.add(root)

    for node in module.graph.nodes:
        if node.op == "placeholder":
            roots[node] = frozenset([node.name])
        elif node.op == "get_attr":
            targets[node.name] = str(node.target)
            roots[node] = frozenset([node.name])
        elif node.op == "output":
            continue
        else:
            if node.op == "call_module":
                found.attributes.add(str(node.target))
            aliased, changed = _effect(node)
            written(changed)
            roots[node] = _NONE.union(*(_roots_in(value, roots) for value in aliased))
    return found


def _roots_in(value: Any, roots: dict[torch.fx.Node, frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    torch.fx.node.map_arg(value, lambda node: found.update(roots.get(node, ())))
    return frozenset(found)


def _effect(node: torch.fx.Node) -> tuple[list[Any], list[Any]]:
    """The arguments that the result may be a view of, and those that may be written to."""
    everything = [*node.args, *node.kwargs.values()]
    if isinstance(node.target, torch._ops.OpOverload):
        return _effect_by_schema(node.target, node)
    if node.op == "call_module" or isinstance(node.target, torch._ops.HigherOrderOperator):
        return everything, everything
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if _is_of_operator(node.target):
        inplace = name == "setitem" or (name.startswith("i") and hasattr(operator, f"__{name}__"))
        inplace = inplace and name not in ("invert", "inv", "index", "is_", "is_not", "indexOf")
        return (node.args[:1] if inplace or name == "getitem" else []), (node.args[:1] if inplace else [])
    if node.op == "call_function" and not _is_of_torch(node.target):
        return everything, everything
    changed = [node.kwargs["out"]] if "out" in node.kwargs else []
    if quietly_written(node):
        changed += everything[1:]
    if (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__setitem")) or _is_inplace(node):
        changed += node.args[:1]
        return everything, changed
    views, writes = _aten_effect(name)
    return (everything if views else []), changed + (everything if writes else [])


def _effect_by_schema(op: torch._ops.OpOverload, node: torch.fx.Node) -> tuple[list[Any], list[Any]]:
    aliased, changed = [], []
    if quietly_written(node):
        changed += list(node.args[1:])
    for i, argument in enumerate(op._schema.arguments):
        value = node.kwargs.get(argument.name, node.args[i] if i < len(node.args) else None)
        if argument.alias_info is not None:
            aliased.append(value)
            if argument.alias_info.is_write:
                changed.append(value)
    return aliased, changed


def _is_of_operator(target: Any) -> bool:
    return getattr(target, "__module__", "") in ("_operator", "operator")


def _is_of_torch(target: Any) -> bool:
    return function_name(target).startswith(("torch.", "math.", "builtins."))


def _is_inplace(node: torch.fx.Node) -> bool:
    """Whether a function such as relu was asked to work in place."""
    if node.op != "call_function":
        return False
    if "inplace" in node.kwargs:
        return bool(node.kwargs["inplace"])
    names = _parameters(node.target)
    place = names.index("inplace") if "inplace" in names else len(node.args)
    return place < len(node.args) and node.args[place] is not False


@functools.cache
def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


@functools.cache
def _aten_effect(name: str) -> tuple[bool, bool]:
    """Whether an operator of ATen may give a view, and whether it may write; of another function all is thinkable."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return True, name not in _READ_ONLY
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    overloads = [op for op in overloads if not any(argument.is_out for argument in op._schema.arguments)]
    views = any(returned.alias_info is not None for op in overloads for returned in op._schema.returns)
    writes = any(a.alias_info is not None and a.alias_info.is_write for op in overloads for a in op._schema.arguments)
    return views, writes


# Functions and methods in Python that read their arguments only.
_READ_ONLY = {
    "float", "half", "double", "bfloat16", "int", "long", "short", "bool", "char", "byte", "cpu", "cuda", "T", "mT",
    "dim", "numel", "size", "stride", "ndimension", "is_floating_point", "is_contiguous", "unflatten", "split",
    "interpolate", "normalize", "cross_entropy", "softmax", "log_softmax", "dropout", "one_hot", "getattr", "tolist",
    "sym_sum",
    "multi_head_attention_forward", "layer_norm", "rms_norm", "group_norm", "max_pool2d", "unfold", "pad", "einsum",
    "_set_grad_enabled", "_enter_autocast", "_exit_autocast", "sym_float", "sym_int", "sym_max", "sym_min", "sym_not",
    "sym_ite", "arange", "finfo", "iinfo", "broadcast_tensors", "meshgrid", "type_as", "new_tensor", "smooth_l1_loss",
}  # fmt: skip


class InputCopies:
    """Inputs of which those that may be written are copied; what shares memory with them is copied along."""

    def __init__(self, inputs: Sequence[Any], which: Collection[int]) -> None:
        storages = {_storage(inputs[i]) for i in which if isinstance(inputs[i], torch.Tensor)} - {None}
        made: dict[int, torch.UntypedStorage] = {}
        self.values: list[Any] = []
        self.copied: list[int] = []
        with torch.no_grad():
            for i, value in enumerate(inputs):
                if not isinstance(value, torch.Tensor):
                    self.values.append(value)
                    continue
                storage = _storage(value)
                if storage is not None and storage in storages:
                    self.values.append(_view_of_copy(value, made))
                    self.copied.append(i)
                elif storage is None and i in which:
                    self.values.append(value.detach().clone())
                    self.copied.append(i)
                else:
                    self.values.append(value.detach())


def _storage(tensor: Any) -> int | None:
    """What identifies the memory of a tensor; None where it cannot be copied as bytes."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    if not plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return None
    return tensor.untyped_storage()._cdata


def _view_of_copy(tensor: torch.Tensor, made: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    storage = tensor.untyped_storage()
    if storage._cdata not in made:
        made[storage._cdata] = storage.clone()
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(made[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())  # type: ignore[call-overload]
