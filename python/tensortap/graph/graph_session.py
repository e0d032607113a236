"""What is known of the graphs of one backend while they are compiled and run."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from tensortap.graph.call_marks import Calls
from tensortap.graph.check.checked import Checked
from tensortap.graph.check.difference import SearchLimits, Tolerance
from tensortap.graph.check.mismatch import Mismatch
from tensortap.graph.filter import NodeFilter
from tensortap.graph.fx.code import write_graph
from tensortap.literals import GraphPart, Parameters, Stage
from tensortap.session import metadata
from tensortap.session.coverage import Coverage
from tensortap.session.options import Options
from tensortap.session.passes import PassTracker
from tensortap.session.session import Session
from tensortap.session.tensor_capture import TensorCapture
from tensortap.session.writer import Writer
from tensortap.torch_glue import cuda_graphs
from tensortap.torch_glue.cuda_graphs import CudaGraphs, OfRecording
from tensortap.torch_glue.gpu import has_gpu


@dataclass(frozen=True)
class GraphSeen:
    """A graph that torch.compile has given to the backend."""

    id: str
    stage: Stage
    part: GraphPart
    nodes: int
    selected: int  # of these, by the filter


class _Running(threading.local):
    depth = 0  # graphs under way on this thread, one inside the other


class GraphSession(Session):
    """What the graphs of one backend have in common: options, passes, a recorder; checks of what was compiled."""

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
        """With `inner`: the runs in which the compiled graph and the interpreted one differed."""
        return [mismatch for checked in self._checked for mismatch in checked.mismatches]

    # ---- for compiling ----

    @property
    def checks(self) -> bool:
        """Whether graphs are held against what another backend makes of them."""
        return self._inner is not None

    def select(self, module: fx.GraphModule) -> set[fx.Node]:
        """The nodes that are recorded. What the filter raises comes through: it is the program's own."""
        return {node for node in module.graph.nodes if node.op != "output" and self.node_filter.selects(node)}

    def add_graph(self, module: fx.GraphModule, graph: GraphSeen) -> None:
        """A graph that will be recorded."""
        self._seen.append(graph)
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
        session = weakref.ref(self)

        def over() -> None:
            if (alive := session()) is not None and alive.recording:
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
        return cuda_graphs.graph_now(self._writer_now().core)

    def failed(self, error: Exception) -> None:
        """Recording failed; the model goes on, unless this is strict."""
        if self._coverage is not None and self._is_to_be_raised(error):
            raise error

    # ---- the end ----

    def flush(self) -> None:
        """Returns when everything recorded so far is in the files; a pass whose call is over is ended."""
        if self._writer is not None and not self._closed:
            self.tracker.close_finished_pass()
            self._flush_writer()

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
        if has_gpu():
            self._cuda_graphs = CudaGraphs(OfRecording(writer.core, None))

    def _after_fork(self) -> None:
        super()._after_fork()
        self._runs.clear()
        self.running = _Running()
        self.late = 0
