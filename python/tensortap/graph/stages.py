"""From a graph of Dynamo's to what torch.compile runs in its place: as it is, or through AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd

from tensortap.graph.call_marks import Calls
from tensortap.graph.callable import Graph
from tensortap.graph.fx.identity import graph_id
from tensortap.graph.graph_session import GraphSeen, GraphSession
from tensortap.graph.modules import Origin
from tensortap.torch_glue.module_names import unwrapped


def compile_graph(session: GraphSession, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """What runs in place of a graph, with the inputs one by one."""
    if not (session.recording or session.checks):
        return module.forward
    owner = Calls().innermost
    origin = Origin(module, unwrapped(owner) if owner is not None else None)
    if session.stage == "dynamo":
        return _ready(session, module, inputs, origin, "forward")

    def compiler(part: str) -> Callable[..., Any]:
        return lambda lowered, given: _boxed(_ready(session, lowered, given, origin, part))

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=session.decompositions,
    )(module, inputs)


def _ready(
    session: GraphSession, module: fx.GraphModule, inputs: Sequence[Any], origin: Origin, part: str
) -> Callable[..., Any]:
    """The graph, recorded in every run if anything is; held against what `inner` makes of it, where there is one."""
    reference, known_as = module.forward, ""
    selected = session.select(module) if session.recording else set()
    try:
        known_as = graph_id(module, session.stage, part)
        if session.recording:
            graph = Graph(session, module, origin, known_as, part, selected)
            session.add_graph(
                module, GraphSeen(known_as, session.stage, part, graph.plan.node_count, graph.plan.selected)
            )
            reference = graph
    except Exception as error:
        session.failed(error)
    return session.check(reference, module, inputs, known_as)


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
