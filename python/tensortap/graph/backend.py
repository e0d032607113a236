"""tap.graph_backend(): a backend for torch.compile that runs each graph node by node and records it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tensortap.graph.check.difference import SearchLimits, Tolerance
from tensortap.graph.check.inner import backend_of
from tensortap.graph.filter import NodeFilter
from tensortap.graph.graph_session import GraphSession
from tensortap.graph.stages import compile_graph
from tensortap.literals import Format, Level, Parameters, Stage, Step
from tensortap.session.options import choice, options_of
from tensortap.session.program import program_records
from tensortap.typed_dicts import WritingOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

STAGES: tuple[Stage, ...] = ("dynamo", "aot")
PARAMETERS: tuple[Parameters, ...] = ("once", "always")
_LIMITS = SearchLimits()
_WRITING = {
    "append",
    "staging",
    "device_staging",
    "quota",
    "when_full",
    "write",
    "deduplicate",
    "sync",
}  # options of record()


class GraphBackend(GraphSession):
    """A backend for `torch.compile`; made by `tensortap.graph_backend`. Closed it records no more, and graphs go on."""

    __name__ = "tensortap"

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a graph, as torch.compile asks a backend to."""
        if asked:  # of torch.compile
            warnings.warn(
                f"tensortap: {' and '.join(asked)} given to torch.compile, of no use to a backend that runs graphs as "
                "they are; the one that compiles takes them: inner=functools.partial(…)",
                stacklevel=2,
            )

        return compile_graph(self, module, inputs)

    def __repr__(self) -> str:
        return f"<GraphBackend into {self.options.directory}, {'on' if self.recording else 'off'}>"


def graph_backend(
    directory: str | os.PathLike[str] | None = None,
    *,
    filter: Callable[[torch.fx.Node], object] | Sequence[str] | str | None = None,
    stage: Stage = "dynamo",
    inputs: bool = True,
    outputs: bool = True,
    level: Level | Mapping[str, Level] | None = None,
    step: Step | None = None,
    steps: str | int | Iterable[int] | None = None,
    skip: int = 0,
    ranks: str | int | Iterable[int] | None = None,
    format: Format | None = None,
    stacks: bool | None = None,
    graphs: bool = True,
    parameters: Parameters = "once",
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    inner: str | Callable[..., Any] | None = None,
    tolerance: Tolerance | None = None,
    limits: SearchLimits | None = _LIMITS,
    strict: bool | None = None,
    report: bool | None = None,
    **writing: Unpack[WritingOptions],
) -> GraphBackend:
    """Makes a backend for `torch.compile` that runs each graph node by node and records what every node took and gave.

    Options that `record()` has too are taken from the environment where they are None, as there (`TTAP_DIR`,
    `TTAP_FILTER`, `TTAP_FILTER_FN`, `TTAP_LEVEL`, …). Without a directory from either, nothing is recorded, and graphs
    run as they are.

    Parameters
    ----------
    directory
        Where the run goes; made if missing. Each process writes into a directory of its own in it.
    filter
        None for every node; a function that is given the `torch.fx.Node` and gives it back, or None, or says yes or no;
        `"file.py:func"`, which names such a function; or patterns, of which one must be found in a node's name or
        target. Asked once per node.
    stage
        `dynamo`: the graphs as Dynamo captured them, bit for bit what eager computes; the backward is autograd's.
        `aot`: after functionalisation and decomposition, forward and backward graphs.
    inputs, outputs
        Whether what a node takes and what it gives is kept. A value that a record of the pass holds already is referred
        to, not kept again.
    level
        `full` (default), `sketch`, `fingerprint` or `meta`; or a level for each pattern, of which the first
        that is found in the name of a node or module counts.
    step
        `auto` (default): the outermost call of a module is one pass, or outside any the run of a graph. `manual`: what
        is inside `with backend.step():`.
    steps
        Which steps to record, counted from 0: `"0,3-5,10-"`.
    skip
        How many runs of each graph to leave out first.
    ranks
        Which ranks record.
    format
        `ttap` (default), or as what to write each pass when it ends: `pt`, `safetensors`, or `npy`, which gives
        `worldsize{W}_global_rank{R}/graph_{id}/{step}/{node}-{target}.{INPUT|OUTPUT}.{i}.npy` and an `index.json`.
    stacks
        Where in the program each node comes from, as a stack.
    graphs
        Whether to write the code of each graph as `graph_{id}.py`, beside the passes.
    parameters
        `once`: bytes of a graph's inputs that an earlier pass of this recording has, as those of parameters, are not
        written again; they are read from that pass. `always`: every pass has all of its bytes. For format `ttap`.
    decompositions
        For stage `aot`: what to put in place of which operator.
    inner
        A backend, by its name or itself (`"inductor"`): compiles every graph, which then runs both ways on the same
        inputs. The outputs are compared, and the program gets the compiled one's. What differs is in `mismatches`.
    tolerance
        With `inner`: what counts as close; the defaults of `tap.diff` by default.
    limits
        With `inner`: how much may be spent on the smallest part of a graph that shows a mismatch. None: it is not
        looked for.
    strict
        Raise what cannot be recorded, and a mismatch, into the model, instead of counting it.
    report
        Print a short report to stderr at the end.
    **writing
        `append`, `staging`, `device_staging`, `quota`, `when_full`, `write`, `deduplicate`, `sync`: as for `record()`.

    Returns
    -------
    GraphBackend
        For `torch.compile(model, backend=backend)`. A context manager; leaving it closes it.
    """
    choice(stage, STAGES, "stage")
    choice(parameters, PARAMETERS, "parameters")
    if inner is not None:
        backend_of(inner)  # a wrong name is said now
    if isinstance(skip, bool) or not isinstance(skip, int) or skip < 0:
        raise ValueError(f"skip is {skip!r}: it is how many runs of each graph are left out")
    if unknown := set(writing).difference(_WRITING):
        raise TypeError(f"graph_backend() has no option {', '.join(sorted(unknown))}")
    options = options_of(
        directory, level=level, step=step, steps=steps, ranks=ranks, format=format, stacks=stacks, strict=strict,
        report=report, **writing,
    )  # fmt: skip
    node_filter = NodeFilter(filter)  # checked even where the environment overrides it
    if options.filter.given is not None and (filter is None or options.override):
        node_filter = NodeFilter(options.filter.given)
    described = {name: value for name, value in options.described.items() if name not in ("roles", "modules")}
    described |= {"filter": str(node_filter), "stage": stage, "inputs": inputs, "outputs": outputs}
    options = replace(options, of_graphs=True, described=described | ({"skip": skip} if skip else {}))
    if options.directory is not None:
        program_records()
    return GraphBackend(
        options, node_filter, stage=stage, inputs=inputs, outputs=outputs, skip=skip, graphs=graphs,
        parameters=parameters, decompositions=decompositions, inner=inner, tolerance=tolerance,
        limits=limits,
    )  # fmt: skip
