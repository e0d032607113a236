"""The backend under suspicion: found by its name, given a copy of the graph, its failures kept from the model."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.fx
from torch._dynamo.backends.registry import list_backends, lookup_backend
from torch.utils import _python_dispatch as dispatch

from tensortap.graph.fx.identity import target_name
from tensortap.torch_glue.dispatch_modes import no_modes

Backend = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def backend_of(inner: str | Backend) -> Backend:
    """The backend that a name stands for; a callable is one. Raises ValueError for a name that nobody registered."""
    if callable(inner):
        return inner
    if not isinstance(inner, str):
        raise TypeError(f"inner={inner!r}: give the name of a backend, or a callable (graph, inputs) -> callable")
    if inner not in list_backends(exclude_tags=()):
        known = ", ".join(sorted(list_backends(exclude_tags=())))
        raise ValueError(f"inner={inner!r} is not a backend of torch.compile; there are: {known}")
    return lookup_backend(inner)


def backend_name(inner: str | Backend) -> str:
    """What to call it in messages."""
    if isinstance(inner, str):
        return inner
    return getattr(inner, "__qualname__", None) or getattr(inner, "__name__", None) or type(inner).__name__


def compile_inner(
    inner: str | Backend, module: torch.fx.GraphModule, inputs: Sequence[Any], *, stage: str
) -> Callable[..., Any]:
    """Have the backend compile a copy of the graph. What it raises comes through.

    At stage `dynamo` it is called as torch.compile would. At stage `aot` a callable is handed the graph as it is, as
    AOTAutograd hands it to a compiler. A backend of a name expects a graph of Dynamo there, and to do its own
    functionalisation and decomposition: torch.compile with that backend is called on the graph when it first runs.
    """
    taken = copied_graph(module)
    if stage == "aot" and isinstance(inner, str):
        return retraced(taken, inner, dynamic=_has_symbols(module))
    with same_random_numbers(module):
        compiled = backend_of(inner)(taken, list(inputs))
    # Dynamo passes inputs one by one, whatever is marked otherwise; AOTAutograd heeds the mark.
    return unboxed(compiled) if stage == "aot" else compiled


def retraced(module: torch.fx.GraphModule, inner: str | Backend, *, dynamic: bool | None = False) -> Callable[..., Any]:
    """The graph as torch.compile compiles it by itself, when it is called."""
    compiled: Callable[..., Any] | None = None

    def run(*inputs: Any) -> Any:
        nonlocal compiled
        if compiled is None:
            module.recompile()  # Dynamo looks past code that was written while it compiled another graph
            compiled = torch.compile(module, backend=backend_of(inner), fullgraph=True, dynamic=dynamic)
        with same_random_numbers(module), _outside_modes():
            return compiled(*inputs)

    return run


@contextmanager
def _outside_modes() -> Iterator[None]:
    """Dynamo compiles nothing under a dispatch mode, and AOTAutograd sets one for the first run of each graph."""
    flags = {name: False for name in _MODE_FLAGS if hasattr(dispatch, name)}
    set_ignored = getattr(dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
    before = {name: getattr(dispatch, name) for name in flags}
    vars(dispatch).update(flags)
    if set_ignored is not None:
        set_ignored(False)
    try:
        with no_modes():
            yield
    finally:
        vars(dispatch).update(before)
        if set_ignored is not None:
            set_ignored(before.get("_is_in_any_mode_without_ignore_compile_internals", False))


_MODE_FLAGS = (
    "_is_in_torch_dispatch_mode", "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)  # fmt: skip


def unboxed(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph that takes its inputs one by one, whatever it took them as."""
    if not getattr(compiled, "_boxed_call", False):
        return compiled
    return functools.wraps(compiled, updated=())(lambda *inputs: compiled(list(inputs)))


def same_random_numbers(module: torch.fx.GraphModule) -> AbstractContextManager[Any]:
    """While a graph with random numbers is compiled: Inductor is to draw them as PyTorch does."""
    if not random_nodes(module):
        return nullcontext()
    try:
        import torch._inductor.config as config  # seconds, and not in every PyTorch
    except ImportError:
        return nullcontext()
    return config.patch(fallback_random=True)


def copied_graph(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph for somebody who may change it; parameters are shared."""
    graph = torch.fx.Graph()
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    returned = graph.graph_copy(module.graph, nodes, return_output_node=True)
    if returned is not None:
        value, output = returned
        graph.output(value).meta = copy.copy(output.meta)
    for node, made_node in nodes.items():
        for name, value in getattr(node, "__dict__", {}).items():  # Dynamo keeps its own notes on nodes
            if not hasattr(made_node, name):
                setattr(made_node, name, value)
    graph.set_codegen(copy.copy(module.graph._codegen))
    made = torch.fx.GraphModule(module, graph, type(module).__name__)
    for name, value in module.__dict__.items():
        if name not in made.__dict__ and not name.startswith("__"):
            made.__dict__[name] = value
    made.meta = dict(module.meta)
    for name, inner in list(made.named_children()):
        if isinstance(inner, torch.fx.GraphModule):
            setattr(made, name, copied_graph(inner))
    return made


def random_nodes(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Nodes that draw random numbers."""
    return [node for node in module.graph.nodes if _is_random(node, module)]


def depend_on(nodes: Sequence[torch.fx.Node]) -> set[torch.fx.Node]:
    """These nodes and all that use them, directly or through others."""
    found: set[torch.fx.Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.users
    return found


def _is_random(node: torch.fx.Node, module: torch.fx.GraphModule) -> bool:
    if node.op == "get_attr":
        inner = getattr(module, str(node.target), None) if "." not in str(node.target) else None
        return isinstance(inner, torch.fx.GraphModule) and bool(random_nodes(inner))
    if node.op == "call_module":
        inner = module.get_submodule(str(node.target))
        return inner.training and any("dropout" in type(part).__name__.lower() for part in inner.modules())
    if node.op not in ("call_function", "call_method"):
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags and not _draws_nothing(node)
    name = target_name(node).rpartition(".")[2]
    return _is_seeded(name) and not _draws_nothing(node)


@functools.cache
def _is_seeded(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return name in ("alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "rrelu")
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, overload).tags for overload in packet.overloads())


def _draws_nothing(node: torch.fx.Node) -> bool:
    """Dropout with no probability, or not in training; attention without dropout."""
    name = target_name(node)
    if "dropout" in name:
        probability = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else None)
        training = node.kwargs.get("training", node.kwargs.get("train", node.args[2] if len(node.args) > 2 else True))
        return probability == 0 or training is False
    if "attention" in name:
        place = 4 if name.endswith("scaled_dot_product_attention") else 3
        return not node.kwargs.get("dropout_p", node.args[place] if len(node.args) > place else 0)
    return False


def _has_symbols(module: torch.fx.GraphModule) -> bool:
    symbolic = torch.SymInt | torch.SymFloat | torch.SymBool
    for node in module.graph.nodes:
        value = node.meta.get("val", node.meta.get("example_value"))
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        if node.op == "placeholder" and any(isinstance(size, symbolic) for size in sizes):
            return True
    return False
