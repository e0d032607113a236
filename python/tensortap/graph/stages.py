"""From a graph of Dynamo's to what torch.compile runs in its place: as it is, or through AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd

from tensortap.graph.call_marks import Calls
from tensortap.graph.callable import Graph
from tensortap.graph.identity import graph_id
from tensortap.graph.modules import Origin
from tensortap.names import unwrapped

if TYPE_CHECKING:
    from tensortap.graph.backend import GraphBackend


def compile_graph(backend: GraphBackend, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """What runs in place of a graph, with the inputs one by one."""
    if not (backend.recording or backend.checks):
        return module.forward
    owner = Calls().innermost
    origin = Origin(module, unwrapped(owner) if owner is not None else None)
    if backend.stage == "dynamo":
        return _ready(backend, module, inputs, origin, "forward")

    def compiler(part: str) -> Callable[..., Any]:
        return lambda lowered, given: _boxed(_ready(backend, lowered, given, origin, part))

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=backend.decompositions,
    )(module, inputs)


def _ready(
    backend: GraphBackend, module: fx.GraphModule, inputs: Sequence[Any], origin: Origin, part: str
) -> Callable[..., Any]:
    """The graph, recorded in every run if anything is; held against what `inner` makes of it, where there is one."""
    reference, known_as = module.forward, ""
    selected = backend.select(module) if backend.recording else set()
    try:
        known_as = graph_id(module, backend.stage, part)
        if backend.recording:
            graph = Graph(backend, module, origin, known_as, part, selected)
            backend.add_graph(module, graph)
            reference = graph
    except Exception as error:
        backend.failed(error)
    return backend.check(reference, module, inputs, known_as)


def _boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """As AOTAutograd calls it: with a list, which is emptied, so that inputs can be freed while it runs."""

    def run(arguments: list[Any]) -> Any:
        if isinstance(function, Graph):
            return function.run(arguments)
        taken = tuple(arguments)
        arguments.clear()
        return function(*taken)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
