"""tap.record(): the life of a recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tensortap.literals import Format, Level, Modules, Role, Step, TensorRole, WhenFull, Write
from tensortap.modules.module_source import ModuleSource
from tensortap.modules.quant_pieces import capture_pieces
from tensortap.modules.root_finder import RootFinder
from tensortap.modules.token_batch import Batch, record_batch, record_logprobs, scored_texts
from tensortap.ops.op_tap import OpTap
from tensortap.session import metadata
from tensortap.session.coverage import Coverage
from tensortap.session.options import Options, options_of
from tensortap.session.passes import SKIPPED, PassTracker
from tensortap.session.program import program_records
from tensortap.session.session import Session
from tensortap.session.writer import Writer, tell_of_forks
from tensortap.torch_glue import op_extension
from tensortap.torch_glue.cuda_graphs import CudaGraphs, OfRecording
from tensortap.torch_glue.gpu import has_gpu
from tensortap.typed_dicts import QuantizedPieces

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Recording(Session):
    """A recording under way; made by `tensortap.record`. Closing it takes every hook off the models.

    That of a whole program, with operators, has all of them in its passes, also those that no module runs.
    """

    def __init__(
        self, models: Mapping[str, nn.Module] | None, options: Options, *, whole_program: bool = False
    ) -> None:
        super().__init__(options, op_extension.load().suppress_recording if options.ops else None)
        self._described: list[dict[str, Any]] = []
        self._optimizers: list[dict[str, Any]] = []
        self._finder: RootFinder | None = None
        self.ops: OpTap | None = None
        self._graphs: CudaGraphs | None = None
        self._whole_program = whole_program and options.ops
        self.notes_at_end: Callable[[], list[str]] | None = None  # what others have to say of the run, for its coverage
        if self._closed:
            return
        if not options.wants_rank(metadata.rank()):
            self._closed = True
            return
        if options.ops:
            self.ops = OpTap(options, models, lambda module: self._source.name_of(module))
        self._coverage = Coverage()
        self.tracker = PassTracker(
            self._writer_now,
            manual=options.step == "manual",
            steps=options.steps,
            gradients=options.ops or bool(options.roles & {"grad_out", "grad_in"}),
            pass_changed=self.ops.set_pass if self.ops is not None else None,
            newest_changed=self.ops.set_pass_of_others if self.ops is not None and self._whole_program else None,
            before_end=self.ops.launch_waiting if self.ops is not None else None,
        )
        self._source = ModuleSource(
            self,
            self.ops,
            explicit=models is not None,
            model_attached=self._model_attached,
            optimizer_stepped=self._optimizer_stepped,
        )
        if models is None:
            # A directory is made by the processes that run a module, or an operator to be recorded, and only by them.
            self._finder = RootFinder(self._source)
            self._watch_operators()
            return
        self._writer_now()
        try:
            for prefix, model in models.items():
                self._source.attach(model, prefix)
            if not options.ops:
                self._source.say_what_matches_nothing()
        except BaseException:
            self._source.detach()
            self._stop_ops()
            self._release()
            raise

    def flush(self) -> None:
        """Returns when everything recorded so far is in the files."""
        if self._writer is not None and not self._closed:
            if self.ops is not None:
                self.ops.launch_waiting()
            self._flush_writer()

    def close(self) -> None:
        """Takes the hooks off, ends the passes, writes the coverage report. Closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        if self.notes_at_end is not None:
            self._coverage.notes += self.notes_at_end()
        if self._finder is not None:
            self._finder.remove()
        self._source.detach()
        self._stop_ops()
        if self._writer is not None:
            self.tracker.end_all()
        self._source.cover()
        # Those that came too late are counted apart.
        self._coverage.missing_gradients = max(0, self.tracker.missing_gradients - self._coverage.late_gradients)
        # Until the end it is not known which models and operators there are.
        if self._finder is not None or self.options.ops:
            self._source.say_what_matches_nothing()
        self._say_what_was_left_out()
        self._release()

    def capture_quantized(self, name: str, *, role: TensorRole = "out", **pieces: Unpack[QuantizedPieces]) -> None:
        """As tensortap.capture_quantized(), into this recording only."""
        if torch.compiler.is_compiling() or self._closed:
            return
        self.guarded(capture_pieces, self._source, name, role, pieces)

    def _take_batch(self, batch: Batch) -> None:
        """As tensortap.batch(), into this recording only."""
        if not self._closed:
            self.guarded(record_batch, self._source, batch)

    def logprobs(
        self,
        token_ids: Sequence[torch.Tensor | Sequence[int]],
        values: Sequence[torch.Tensor | Sequence[float]],
        *,
        request_ids: Sequence[str] | None = None,
    ) -> None:
        """As tensortap.logprobs(), into this recording only."""
        self._take_logprobs(scored_texts(token_ids, values, request_ids))

    def _take_logprobs(self, scored: Batch) -> None:
        if not self._closed:
            self.guarded(record_logprobs, self._source, scored)

    def add_results(self, module: nn.Module, tensors: list[tuple[str, torch.Tensor]]) -> None:
        """Further results of a module's last call, with their paths, which an engine computes outside of it."""
        if not self._closed:
            self.guarded(self._source.add_results, module, tensors)

    def record_weights(self, model: nn.Module) -> None:
        """A pass of the model's parameters as they are now, if the role `param` is recorded."""
        if not self._closed and "param" in self.options.roles:
            self.guarded(self._record_weights, model)

    def _record_weights(self, model: nn.Module) -> None:
        number = self.tracker.begin_step()
        try:
            if number != SKIPPED:
                self._source.record_weights(model, number)
        finally:
            self.tracker.end_step(number, aborted=False)

    def __repr__(self) -> str:
        return f"<Recording into {self.options.directory}, {'on' if self.recording else 'off'}>"

    def adopt(self, model: nn.Module) -> None:
        """Modules of this model have their names in it, though the program never calls the model itself."""
        if not self._closed and self._finder is not None and not self._source.is_root(model):
            self.guarded(self._source.attach, model)

    # ---- for the source ----

    def first_call(self, module: nn.Module, args: Any) -> None:
        """The call in which this recording began, which its hooks have not seen."""
        if self._finder is not None:
            self._finder.before(module, args)

    def _watch_operators(self) -> None:
        if self.ops is not None and self._whole_program:
            tell_of_forks(self)
            self.ops.watch(lambda: self.guarded(self.tracker.begin_early))

    def _writer_made(self, writer: Writer) -> None:
        if self.ops is not None:
            self.ops.start(writer.core)
        self._watch_graphs()
        for described in self._described:
            self._add_model(described)
        for described in self._optimizers:
            writer.add_optimizer(described)

    def _model_attached(self, described: dict[str, Any]) -> None:
        if described in self._described:  # a program may make the same module again and again
            return
        self._described.append(described)
        if self._writer is not None:
            self._add_model(described)

    def _optimizer_stepped(self, described: dict[str, Any]) -> None:
        if described in self._optimizers:
            return
        self._optimizers.append(described)
        if self._writer is not None:
            self._writer.add_optimizer(described)

    def _add_model(self, described: dict[str, Any]) -> None:
        assert self._writer is not None
        for name, alias in self._source.aliases():
            self._writer.core.add_alias(name, alias)
        self._writer.add_model(described)

    def _warn(self, note: str, *, aloud: bool = True) -> None:
        super()._warn(note, aloud=aloud and self._finder is None)

    def _watch_graphs(self) -> None:
        if not has_gpu():
            return
        assert self._writer is not None
        self._graphs = CudaGraphs(OfRecording(self._writer.core, self.ops))

    def _stop_ops(self) -> None:
        if self._graphs is not None:
            self._graphs.remove()
            self._graphs = None
        if self.ops is not None:
            self.ops.stop()
            self._coverage.ops = self.ops.counts()

    def _after_fork(self) -> None:
        if self.ops is not None:
            self.ops.stop()
        super()._after_fork()
        self._source.after_fork()
        self._source.coverage = self._coverage
        self._watch_operators()


def record(
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    directory: str | os.PathLike[str] | None = None,
    *,
    filter: str | Sequence[str] | Callable[[str, nn.Module], bool] | None = None,
    level: Level | Mapping[str, Level] | None = None,
    roles: str | Iterable[Role] | None = None,
    modules: Modules | None = None,
    compiled: bool | None = None,
    ops: bool | None = None,
    stacks: bool | None = None,
    unseen_writes: bool | None = None,
    step: Step | None = None,
    steps: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    append: bool | None = None,
    format: Format | None = None,
    staging: int | str | None = None,
    device_staging: int | str | None = None,
    quota: int | str | None = None,
    when_full: WhenFull | None = None,
    write: Write | None = None,
    strict: bool | None = None,
    deduplicate: bool | None = None,
    sync: bool | None = None,
    rows: int | torch.Tensor | None = None,
    padded: int | None = None,
    report: bool | None = None,
) -> Recording:
    """Records what the modules of a model produce.

    An option that is None is taken from its environment variable (`TTAP_DIR`, `TTAP_FILTER`, `TTAP_LEVEL`, …), else it
    has its default. With `TTAP_OVERRIDE=1` the variables come before what is passed here. Without a directory from
    either, nothing is recorded and nothing costs anything.

    Parameters
    ----------
    model
        A module, modules by name (`{"vision": v, "lm": lm}`; the names come first in the keys), or None for every
        module that the program calls outermost.
    directory
        Where the run goes; made if missing. Each process writes into a directory of its own in it. One that holds a run
        already gets a new run beside it, which is what every reader then takes.
    filter
        Every module by default; a pattern, or several of which one must be found in a name; or a function of name and
        module.
    level
        `full` (default without `ops`), `sketch` (hash, statistics and what errors are estimated from; default with
        `ops`), `fingerprint` (hash and statistics) or `meta`; or a level for each pattern, of which the first that is
        found counts: `{"layers.0.": "full", ".*": "sketch"}`. A name that none is found in has the default.
    roles
        What of a call: `out` (default), `in`, `grad_out`, `grad_in`; `param`: the module's own parameters and buffers,
        in the first pass and in every one before which they have changed.
    modules
        `leaf` (default): those without children. `all`: every one.
    compiled
        Also modules inside regions that torch.compile compiles from now on. The compiled code then hands each result
        over, so it is other code than without, and in 16-bit dtypes may round in other places.
    ops
        Also every operator that PyTorch runs, forward and backward, beneath the modules: arguments, results, and who
        produced what. Filter and level count for their names too: `encoder.layer.0:aten::mm`.
    stacks
        The Python stack of every operator.
    unseen_writes
        For programs that write to tensors without telling PyTorch (through `numpy()`, `data_ptr()`, a kernel of their
        own): every argument of an operator is read at every call, and on a GPU at once.
    step
        `auto` (default): every outermost forward is one pass. `manual`: what is inside `with recording.step():`.
    steps
        Which steps to record, counted from 0: `"0,3-5,10-"`.
    ranks
        Which ranks record.
    append
        Go on in the newest run of the directory, instead of beginning a new one: passes count on.
    format
        `ttap` (default), or as what to write each pass when it ends: `pt`, `safetensors`, `npy`.
    staging
        Memory between the model and the disk: bytes, or text like `"256M"`. As much again is pinned when bytes of
        tensors on a GPU are kept.
    device_staging
        Memory of each GPU through which the bytes of its tensors leave it. Also the most bytes that the values of a
        quantized tensor may have to be decoded there.
    quota
        How much this process may write.
    when_full
        What happens when the staging memory is full: `block` (default) waits, `drop` goes on and counts.
    write
        How large tensors get to the disk: `direct` goes round the page cache, which spares the processor; `buffered`
        goes through it; `auto` (default) goes round it as long as the disk is fast.
    strict
        Raise what cannot be recorded into the model, instead of counting it.
    deduplicate
        Store the same bytes once per pass; on by default.
    sync
        Wait until each pass is on the disk before it gets its final name.
    rows, padded
        Of tensors whose first axis is `padded` long only `rows` are alive and recorded: a number, or a CUDA tensor of
        one integer that holds it when the GPU gets there.
    report
        Print a short report to stderr at the end; on by default.

    Returns
    -------
    Recording
        A context manager; leaving it closes it.
    """
    options = options_of(
        directory,
        filter=filter,
        level=level,
        roles=roles,
        modules=modules,
        compiled=compiled,
        ops=ops,
        stacks=stacks,
        unseen_writes=unseen_writes,
        step=step,
        steps=steps,
        ranks=ranks,
        append=append,
        format=format,
        staging=staging,
        device_staging=device_staging,
        quota=quota,
        when_full=when_full,
        write=write,
        strict=strict,
        deduplicate=deduplicate,
        sync=sync,
        rows=rows,
        padded=padded,
        report=report,
    )
    models = model if model is None or isinstance(model, Mapping) else {"": model}
    for name, value in (models or {}).items():
        if not hasattr(value, "register_forward_hook"):
            what = f"the model {name!r}" if name else "the model"
            raise TypeError(f"{what} is a {type(value).__name__}, not a torch.nn.Module")
    if options.directory is not None:
        program_records()
    return Recording(models, options)
