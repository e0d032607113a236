"""Which nodes may write to their arguments, and which of these arguments they have written to."""

from __future__ import annotations

import torch
from torch import fx


def may_write(node: fx.Node) -> bool:
    """Whether the node may change a tensor that was there before: True unless it is known not to."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable or bool(quietly_written(node))
    if isinstance(target, torch._ops.OpOverloadPacket):  # which of them it is, the arguments decide
        return any(getattr(target, overload)._schema.is_mutable for overload in target.overloads())
    if "out" in node.kwargs or node.kwargs.get("inplace") or quietly_written(node):
        return True
    if node.op == "call_method":
        return _sounds_like_writing(str(target))
    if node.op != "call_function" or isinstance(target, torch._ops.HigherOrderOperator):
        return True
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None) or ""
    if module in ("_operator", "operator"):
        return name in _WRITING_OPERATORS
    if module.split(".")[0] not in _READING_MODULES:
        return True  # somebody else's function
    # Of torch.nn.functional some take `inplace` by position.
    return _sounds_like_writing(name) or (module == "torch.nn.functional" and True in node.args)


_READING_MODULES = {"torch", "math", "builtins", ""}  # built-in functions of PyTorch often name none
_WRITING_OPERATORS = {
    "setitem", "delitem", "iadd", "iand", "iconcat", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow",
    "irshift", "isub", "itruediv", "ixor",
}  # fmt: skip


def quietly_written(node: fx.Node) -> tuple[str, ...]:
    """The arguments that a function writes to though neither its name nor its schema says so, nor always a version."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.rpartition("::")[2]
    else:
        name = getattr(target, "__name__", "") if node.op == "call_function" else ""
    name = name.removeprefix("_")
    if name.endswith(_UPDATE_STATISTICS):
        unless_given = name.endswith("instance_norm")
        given = node.args[5] if len(node.args) > 5 else unless_given
        if node.kwargs.get("training", node.kwargs.get("use_input_stats", given)) is False:
            return ()
        first = 1 if getattr(target, "__module__", None) == "torch.nn.functional" else 3
        return (str(first), str(first + 1), "running_mean", "running_var")
    if name in ("embedding", "embedding_bag") and _renormalises(node):
        return ("1", "weight")
    return ()


_UPDATE_STATISTICS = ("batch_norm", "instance_norm", "batch_norm_impl_index")


def _renormalises(node: fx.Node) -> bool:
    """An embedding of torch.nn.functional with a largest norm shortens the rows that it looks up."""
    if getattr(node.target, "__module__", None) != "torch.nn.functional":
        return False
    return node.kwargs.get("max_norm", node.args[3] if len(node.args) > 3 else None) is not None


def _sounds_like_writing(name: str) -> bool:
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    return name.endswith("_")


def version_of(tensor: torch.Tensor) -> int | None:
    """A number that changes when the tensor, or one that shares its memory, is written to; None: it has none."""
    return None if tensor.is_inference() else tensor._version


def names_as_written(node: fx.Node, path: str) -> bool:
    """Whether the node's target says that it writes to the argument there; for tensors that have no version."""
    place = path.split("/")[1]
    if quiet := quietly_written(node):
        return place in quiet
    if isinstance(node.target, torch._ops.OpOverload):
        arguments = node.target._schema.arguments
        named = [argument for argument in arguments if argument.name == place]
        argument = arguments[int(place)] if place.isdigit() and int(place) < len(arguments) else next(iter(named), None)
        return argument is not None and argument.alias_info is not None and argument.alias_info.is_write
    return place in ("0", "out")
