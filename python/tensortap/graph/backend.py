"""tap.graph_backend(): a backend for torch.compile that runs each graph node by node and records it."""

from __future__ import annotations

import itertools
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tensortap import launch
from tensortap.graph.filter import NodeFilter
from tensortap.graph.mismatch import Mismatch, SearchLimits, Tolerance
from tensortap.literals import Format, GraphPart, Level, Parameters, Stage, Step
from tensortap.options import Options, choice, options_of
from tensortap.session import Session

if TYPE_CHECKING:
    import torch
    from torch import fx, nn
    from typing_extensions import Unpack

    from tensortap.graph.call_marks import Calls
    from tensortap.graph.callable import Graph
    from tensortap.graph.check import Checked
    from tensortap.typed_dicts import WritingOptions
    from tensortap.writer import Writer

STAGES: tuple[Stage, ...] = ("dynamo", "aot")
PARAMETERS: tuple[Parameters, ...] = ("once", "always")
_LIMITS = SearchLimits()
_WRITING = {"staging", "device_staging", "quota", "when_full", "write", "deduplicate", "sync"}  # options of record()


@dataclass(frozen=True)
class GraphSeen:
    """A graph that torch.compile has handed over."""

    id: str
    stage: Stage
    part: GraphPart
    nodes: int
    selected: int  # of these, by the filter


class _Running(threading.local):
    depth = 0  # graphs under way on this thread, one inside the other


class GraphBackend(Session):
    """A backend for `torch.compile`; made by `tensortap.graph_backend`. Closed it records no more, and graphs go on."""

    __name__ = "tensortap"

    def __init__(
        self,
        options: Options,
        node_filter: NodeFilter,
        *,
        stage: Stage,
        inputs: bool,
        outputs: bool,
        skip: int,
        graphs: bool,
        parameters: Parameters,
        decompositions: Mapping[Any, Callable[..., Any]] | None,
        inner: str | Callable[..., Any] | None,
        tolerance: Tolerance | None,
        limits: SearchLimits | None,
    ) -> None:
        super().__init__(options)
        from tensortap import metadata
        from tensortap.coverage import Coverage
        from tensortap.passes import PassTracker
        from tensortap.tensor_capture import TensorCapture

        self.node_filter: NodeFilter = node_filter
        self.stage: Stage = stage
        self.inputs: bool = inputs
        self.outputs: bool = outputs
        self.skip: int = skip
        self._writes_code = graphs
        self.parameters: Parameters = parameters
        self.decompositions = decompositions
        self._inner, self._tolerance, self._limits = inner, tolerance, limits
        self._checked: list[Checked] = []
        self._seen: list[GraphSeen] = []
        self._written: set[str] = set()
        self._runs: dict[str, Any] = {}  # by graph: counts its runs
        self._cuda_graphs: Any = None
        self.running = _Running()
        self.late = 0  # backward graphs whose pass had ended
        if not self._closed and not options.wants_rank(metadata.rank()):
            self._closed = True
        if self._closed:
            return
        self._coverage = Coverage()
        self.capture = TensorCapture(self)
        self.tracker = PassTracker(
            self._writer_now, manual=options.step == "manual", steps=options.steps, gradients=False
        )

    @property
    def graphs(self) -> list[GraphSeen]:
        """The graphs so far, in the order in which they were compiled."""
        return list(self._seen)

    @property
    def mismatches(self) -> list[Mismatch]:
        """With `inner`: the runs in which the compiled graph and the interpreted one parted."""
        return [mismatch for checked in self._checked for mismatch in checked.mismatches]

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a graph, as torch.compile asks a backend to."""
        from tensortap.graph.stages import compile_graph

        if asked:  # of torch.compile
            warnings.warn(
                f"tensortap: {' and '.join(asked)} given to torch.compile, of no use to a backend that runs graphs as "
                "they are; the one that compiles takes them: inner=functools.partial(…)",
                stacklevel=2,
            )

        return compile_graph(self, module, inputs)

    # ---- for compiling ----

    @property
    def checks(self) -> bool:
        """Whether graphs are held against what another backend makes of them."""
        return self._inner is not None

    def select(self, module: fx.GraphModule) -> set[fx.Node]:
        """The nodes that are recorded. What the filter raises comes through: it is the program's own."""
        return {node for node in module.graph.nodes if node.op != "output" and self.node_filter.selects(node)}

    def add_graph(self, module: fx.GraphModule, graph: Graph) -> None:
        """A graph that will be recorded."""
        from tensortap.graph.code import write_graph

        self._seen.append(GraphSeen(graph.id, self.stage, graph.part, graph.plan.node_count, graph.plan.selected))
        if self._writes_code and graph.id not in self._written:
            self._written.add(graph.id)
            directory = self._writer_now().rank_directory
            write_graph(module, directory, graph.id, stage=self.stage, part=graph.part)

    def check(
        self, reference: Callable[..., Any], module: fx.GraphModule, inputs: Sequence[Any], graph_id: str
    ) -> Callable[..., Any]:
        """The graph as `inner` compiles it, held against the reference in every run; the reference without `inner`."""
        if self._inner is None:
            return reference
        from tensortap.graph.check import Checked

        checked = Checked(
            reference,
            None,
            module,
            graph_id=graph_id,
            directory=self._rank_directory,
            inner=self._inner,
            tolerance=self._tolerance,
            inputs=inputs,
            stage=self.stage,
            strict=self.options.core.strict,
            limits=self._limits,
        )
        self._checked.append(checked)
        return checked

    # ---- for the graphs ----

    def count_run(self, graph_id: str) -> int:
        """Which run of a graph this is, counted from 0 in this process."""
        return next(self._runs.setdefault(graph_id, itertools.count()))

    def watch_call(self, calls: Calls, root: nn.Module) -> None:
        """The pass lasts as long as the outermost call of a module."""
        backend = weakref.ref(self)

        def over() -> None:
            if (alive := backend()) is not None and alive.recording:
                alive.call_is_over(root)

        if calls.mark(f"<tensortap {id(self)}>", over):
            self.call_is_over(root)  # an earlier call that ended unnoticed

    def call_is_over(self, root: nn.Module) -> None:
        try:
            self.tracker.call_is_over(root)
        except Exception as error:
            self.failed(error)

    def graph_now(self) -> int:
        """The recorder's taps in the CUDA graph that is captured on the current stream; 0 when none is."""
        from tensortap import cuda_graphs

        return cuda_graphs.graph_now(self._writer_now().core)

    def failed(self, error: Exception) -> None:
        """Recording failed; the model goes on, unless this is strict."""
        if self.options.core.strict:
            raise error
        if self._coverage is None:
            return
        self._coverage.failed(f"{type(error).__name__}: {error}")

    # ---- the end ----

    def flush(self) -> None:
        """Returns when everything recorded so far is in the files; a pass whose call is over is ended."""
        if self._writer is not None and not self._closed:
            self.tracker.end_what_is_over()
            self._writer.core.flush()

    def close(self) -> None:
        """Ends the passes and writes the coverage report. Closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        assert self._coverage is not None
        if self._cuda_graphs is not None:
            self._cuda_graphs.remove()
        if self._writer is not None:
            self.tracker.end_all()
        for note in self.node_filter.unmatched():
            self._warn(note)
        if self._seen and not any(graph.selected for graph in self._seen):
            graphs = "the graph" if len(self._seen) == 1 else f"any of the {len(self._seen)} graphs"
            self._warn(f"the filter selects no node of {graphs}; see the names in graph_*.py, in the run")
        for count, what in (
            (self.tracker.missing_gradients, "ran forward and not backward before their pass ended"),
            (self.late, "ran backward when their pass had ended, and were not recorded then"),
        ):
            if count:
                self._coverage.notes.append(f"graphs that {what}: {count}")
        self._coverage.outside_steps = self.tracker.outside
        self._say_what_was_left_out()
        self._release()

    def _writer_now(self) -> Writer:
        try:
            return super()._writer_now()
        except OSError as error:  # the program may never close the backend, which would report it
            warnings.warn(f"tensortap: nothing is recorded: {error}", stacklevel=2)
            raise

    def _writer_made(self, writer: Writer) -> None:
        import torch

        if torch.cuda.is_available():
            from tensortap.cuda_graphs import CudaGraphs, OfRecording

            self._cuda_graphs = CudaGraphs(OfRecording(writer.core, None))

    def _after_fork(self) -> None:
        super()._after_fork()
        self._runs.clear()
        self.running = _Running()
        self.late = 0

    def __repr__(self) -> str:
        return f"<GraphBackend into {self.options.directory}, {'on' if self.recording else 'off'}>"


def graph_backend(
    directory: str | os.PathLike[str] | None = None,
    *,
    filter: Callable[[torch.fx.Node], object] | Sequence[str] | str | None = None,
    stage: Stage = "dynamo",
    inputs: bool = True,
    outputs: bool = True,
    level: Level | Mapping[str, Level] = "full",
    step: Step = "auto",
    steps: str | int | Iterable[int] | None = None,
    skip: int = 0,
    ranks: str | int | Iterable[int] | None = None,
    format: Format = "ttap",
    stacks: bool = False,
    graphs: bool = True,
    parameters: Parameters = "once",
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    inner: str | Callable[..., Any] | None = None,
    tolerance: Tolerance | None = None,
    limits: SearchLimits | None = _LIMITS,
    strict: bool = False,
    report: bool = True,
    **writing: Unpack[WritingOptions],
) -> GraphBackend:
    """Makes a backend for `torch.compile` that runs each graph node by node and records what every node took and gave.

    Every option that `record()` has can be given as an environment variable too (`TTAP_DIR`, `TTAP_FILTER`,
    `TTAP_FILTER_FN`, `TTAP_LEVEL`, …), which then outweighs what is passed here. Without a directory from either,
    nothing is recorded, and graphs run as they are.

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
        `full`, `fingerprint` (hash and statistics) or `meta`; or a level for each pattern, of which the first that is
        found in the name of a node or module counts.
    step
        `auto`: the outermost call of a module is one pass, or outside any the run of a graph. `manual`: what is inside
        `with backend.step():`.
    steps
        Which steps to record, counted from 0: `"0,3-5,10-"`.
    skip
        How many runs of each graph to leave out first.
    ranks
        Which ranks record.
    format
        `ttap`, or as what to write each pass when it ends: `pt`, `safetensors`, or `npy`, which gives
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
        `staging`, `device_staging`, `quota`, `when_full`, `write`, `deduplicate`, `sync`: as for `record()`.

    Returns
    -------
    GraphBackend
        For `torch.compile(model, backend=backend)`. A context manager; leaving it closes it.
    """
    choice(stage, STAGES, "stage")
    choice(parameters, PARAMETERS, "parameters")
    if inner is not None:
        from tensortap.graph.inner import backend_of

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
    if options.filter.given is not None:
        node_filter = NodeFilter(options.filter.given)
    described = {name: value for name, value in options.described.items() if name not in ("roles", "modules")}
    described |= {"filter": str(node_filter), "stage": stage, "inputs": inputs, "outputs": outputs}
    options = replace(options, of_graphs=True, described=described | ({"skip": skip} if skip else {}))
    if options.directory is not None:
        launch.step_aside()
    return GraphBackend(
        options, node_filter, stage=stage, inputs=inputs, outputs=outputs, skip=skip, graphs=graphs,
        parameters=parameters, decompositions=decompositions, inner=inner, tolerance=tolerance,
        limits=limits,
    )  # fmt: skip
