"""`tap.trace`: every operator that ran, in memory."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tensortap import _core, reading
from tensortap.comparing import Diff, diff
from tensortap.literals import Level, View
from tensortap.ops.hook_notes import Hook, guarded_hook
from tensortap.ops.kernels import Kernels
from tensortap.ops.module_scopes import ModuleScopes
from tensortap.ops.tensor_kinds import describe, take_apart
from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.session.filters import patterns_of
from tensortap.session.metadata import of_program
from tensortap.session.options import LEVELS, size_in_bytes
from tensortap.tensors.live_rows import LiveRows, row_options
from tensortap.torch_glue import op_extension
from tensortap.torch_glue.compiling import Compiling
from tensortap.torch_glue.cuda_graphs import CudaGraphs, OfTrace, free_device_memory, wait_for_devices
from tensortap.torch_glue.gpu import has_gpu
from tensortap.torch_glue.program_errors import raise_if_of_program
from tensortap.torch_glue.swapping import Swapping
from tensortap.typed_dicts import Comparable, DiffOptions, TraceCounts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensortap import _ops

VIEWS: tuple[View, ...] = ("dispatch", "all", "leaf")


class Trace:
    """The operators that ran while it was at work; a context manager.

    Printing it prints the log. It can be saved as a run, compared with `tap.diff`, and read event by event.
    """

    def __init__(
        self,
        options: dict[str, Any],
        source: _ops.OpSource,
        aids: Iterable[Callable[[], Any]],
        graphs: OfTrace | None = None,
    ) -> None:
        self._options = options
        self._source = source
        self._make_aids = list(aids)
        self._graphs = graphs
        self._live_rows: object = None
        self._aids: list[Any] = []
        self._at_work = False
        self._ended = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._rank_directory: Path | None = None
        self._pass: Pass | None = None

    # ---- at work ----

    def __enter__(self) -> Trace:  # noqa: PYI034
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:  # fmt: skip
        self.stop()

    def start(self) -> None:
        """Begins to record; a trace is started once."""
        if self._at_work or self._ended:
            raise RuntimeError("a trace is started once: make another one with tap.trace()")
        try:
            for make in self._make_aids:
                self._aids.append(make())
            self._source.start()
        except BaseException:
            self._remove_aids()
            raise
        self._at_work = True

    def stop(self) -> None:
        """Ends it. What other threads are in the middle of is counted, not recorded."""
        if not self._at_work:
            return
        self._source.stop()
        self._remove_aids()
        self._at_work, self._ended = False, True
        if self._graphs is not None and self._graphs.captured > 0:
            self._settle()  # what is replayed from now on is not recorded
            free_device_memory()
        if (failed := self._source.counts()["failed"]) > 0:
            first = self._source.counts()["first_failure"]
            print(f"tensortap: {failed} operators were not recorded: {first}", file=sys.stderr)

    def _settle(self) -> None:
        """Everything that is on its way from a GPU has come."""
        wait_for_devices()
        self._source.settle()

    def _remove_aids(self) -> None:
        while self._aids:
            self._aids.pop().remove()

    # ---- what it saw ----

    @property
    def counts(self) -> TraceCounts:
        """How many calls were recorded, left out by the filter, without room, or part of a compilation."""
        return self._source.counts()

    def __fspath__(self) -> str:
        return str(self._saved())

    def __len__(self) -> int:
        return int(self._source.counts()["calls"])

    @property
    def recorded(self) -> Pass:
        """The trace as a pass, to be read like any other."""
        if self._pass is None:
            self._pass = reading.open(self._saved()).ranks[0].passes[0]
        return self._pass

    @property
    def replays(self) -> list[Pass]:
        """A pass for each replay of a CUDA graph that was captured and replayed meanwhile, in order."""
        return list(reading.open(self._saved()).ranks[0].passes.values())[1:]

    @property
    def events(self) -> list[EventRecord]:
        """Every call, in the order in which they began."""
        return self.recorded.events

    def __iter__(self) -> Iterator[EventRecord]:
        return iter(self.events)

    def __str__(self) -> str:
        return self.log()

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} calls>"

    def log(self, *, stack: bool | None = None, inputs: bool | None = None, filter: str = "", module: str = "") -> str:
        """The readable log, as `ttap log` prints it."""
        stack = self._options["stacks"] if stack is None else stack
        inputs = self._options["show_inputs"] if inputs is None else inputs
        text = _core.log_text(
            self.recorded._core, stack="user" if stack else "", inputs=inputs, filter=filter, module=module
        ).rstrip("\n")
        missing = self._source.counts()["no_room"]
        return f"{text}\n# {missing} more calls, for which memory= had no room" if missing else text

    def save(self, directory: str | os.PathLike[str], *, append: bool = False) -> Path:
        """Writes it as a run that every command reads; returns the rank's directory.

        A directory that holds a run already gets a new one beside it; with `append` the trace is a pass of the newest.
        """
        self._must_have_ended("save")
        self._settle()
        return Path(self._source.save(os.fspath(Path(directory).expanduser().absolute()), *self._about(), append))

    def diff(self, other: Comparable, **options: Unpack[DiffOptions]) -> Diff:
        """`tap.diff` of this trace, the reference, and another one."""
        return diff(self, other, **options)

    # ---- its file ----

    def _must_have_ended(self, what: str) -> None:
        if self._at_work:
            raise RuntimeError(f"the trace is still at work: {what} it when it has ended")

    def _saved(self) -> Path:
        """A run in a temporary directory that goes with the trace."""
        self._must_have_ended("read")
        if self._folder is None:
            self._settle()
            self._folder = tempfile.TemporaryDirectory(prefix="tensortap-trace-", ignore_cleanup_errors=True)
            self._rank_directory = Path(self._source.save(self._folder.name, *self._about(), False))
        return Path(self._folder.name)

    def _about(self) -> tuple[str, str]:
        counts = self._source.counts()
        unseen = {
            name: counts[name] for name in ("rejected", "no_room", "compilation", "failed", "lost") if counts[name] > 0
        }
        about = {**of_program(self._options), "source": "ops"}
        return json.dumps(about, default=str), json.dumps({"ops": {"calls": counts["calls"], "not_recorded": unseen}})


def level_of_name(filter: Any, level: int) -> Callable[[str], int | None] | None:
    """Decides which calls are recorded, by their names: `scope:aten::mm`. None: all of them."""
    if filter is None:
        return None
    if callable(filter):
        return _guarded_filter(filter, level)
    patterns = patterns_of(filter)
    return lambda name: level if any(pattern.search(name) for pattern in patterns) else None


def _guarded_filter(wanted: Callable[[str], Any], level: int) -> Callable[[str], int | None]:
    failed: list[str] = []

    def decide(name: str) -> int | None:
        try:
            return level if wanted(name) else None
        except Exception as error:
            raise_if_of_program(error)
            if not failed:
                said = f"{type(error).__name__}: {error}; what it fails at is recorded"
                print(f"tensortap: the filter failed at {name}: {said}", file=sys.stderr)
            failed.append(name)
            return level

    return decide


def trace(
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    *,
    hashes: bool = False,
    inputs: bool = True,
    outputs: bool = True,
    ids: bool = True,
    stacks: bool = False,
    modules: bool = True,
    triton: bool = True,
    level: Level | None = None,
    filter: str | Iterable[str] | Callable[[str], object] | None = None,
    view: View = "dispatch",
    hooks: Hook | Iterable[Hook] | None = None,
    other_threads: bool = True,
    compilation: bool = False,
    unseen_writes: bool = False,
    memory: int | str = "4G",
    rows: int | torch.Tensor | None = None,
    padded: int | None = None,
) -> Trace:
    """Records in memory every operator that PyTorch runs, until the trace ends.

        with tap.trace(hashes=True, stacks=True) as t:
            model(x).sum().backward()
        print(t)

    Parameters
    ----------
    model : torch.nn.Module or dict of them, optional
        Only for the names of modules: those below a model in a dict begin with its key. Without one, the outermost
        module that is called is the root.
    hashes : bool
        hash128, statistics and sketch of every tensor: level "sketch".
    inputs, outputs : bool
        Whether arguments and results get hashes (or bytes); their shapes are kept in any case.
    ids : bool
        Which tensor is which (`t$3`), and so which call produced it. Without them `tap.diff` guesses from the order.
    stacks : bool
        The Python stack of every call; for calls of the backward also that of the forward call.
    modules : bool
        Module boundaries, with full dotted names.
    triton : bool
        Kernels that are launched past the dispatcher: Triton's, and those of torch.compile's inductor.
    level : {"meta", "fingerprint", "sketch", "full"}, optional
        How much of each tensor is kept; by default "meta", with `hashes` "sketch".
    filter : pattern, list of patterns, or function of a name, optional
        Which calls are recorded, by name: `encoder.layer.0:aten::mm`.
    view : {"dispatch", "all", "leaf"}
        What a dispatch mode sees; every operator with those it calls; those that call no other.
    hooks : function or list of functions, optional
        Called after each call with (name, args, kwargs, result); the mapping it returns is shown in the log and kept.
    other_threads : bool
        Whether to record every thread; False: only this one and those that work for it.
    compilation : bool
        Whether to show what runs while torch.compile compiles.
    unseen_writes : bool
        For programs that write to tensors without telling PyTorch (through `numpy()`, `data_ptr()`, a kernel of their
        own): every argument is read at every call, and on a GPU at once. Otherwise a tensor that no operator wrote to
        is taken to be what it was, and is read once.
    memory : int or str
        How much memory the log may take; calls beyond it are counted.
    rows, padded : int or tensor, int
        Of CUDA tensors whose first axis is `padded` long only `rows` are alive and fingerprinted: a number, or a CUDA
        tensor of one integer that holds it when the GPU gets there.
    """
    ops = op_extension.load()
    if view not in VIEWS:
        raise ValueError(f"view is {view!r}: it is one of {', '.join(VIEWS)}")
    level = level or ("sketch" if hashes else "meta")
    if level not in LEVELS:
        raise ValueError(f"level is {level!r}: it is one of {', '.join(LEVELS)}")
    if hashes and level == "meta":
        raise ValueError("hashes are asked for, and level is 'meta': choose 'fingerprint', 'sketch' or 'full'")
    models = model if model is None or isinstance(model, Mapping) else {"": model}
    for each in (models or {}).values():
        if not isinstance(each, torch.nn.Module):
            kind = type(each).__name__
            raise TypeError(f"the model is a {kind}, not a torch.nn.Module; a trace is kept with trace.save(directory)")
    source = ops.OpSource(
        view=view,
        inputs=inputs,
        outputs=outputs,
        ids=ids,
        stacks=stacks,
        all_threads=other_threads,
        compilation=compilation,
        unseen_writes=unseen_writes,
        level=LEVELS[level],
        decide=level_of_name(filter, LEVELS[level]),
        describe=describe,
        take_apart=take_apart,
        hook=guarded_hook(hooks) if hooks is not None else None,
        limit_bytes=size_in_bytes(memory, "memory"),
        recorder=None,
        **row_options(live := LiveRows.of(rows, padded)),
    )
    options = {"level": level, "view": view, "inputs": inputs, "outputs": outputs, "ids": ids, "stacks": stacks,
               "modules": modules, "filter": str(filter), "show_inputs": inputs and level != "meta"}  # fmt: skip
    aids: list[Callable[[], Any]] = [Compiling, lambda: Swapping(source)]
    if modules:
        aids.append(lambda: ModuleScopes(source, dict(models or {})))
    if triton:
        aids.append(lambda: Kernels(source))
    graphs = None
    if has_gpu():
        graphs = OfTrace(source)
        aids.append(lambda: CudaGraphs(graphs))
    made = Trace(options, source, aids, graphs)
    made._live_rows = live  # the GPU reads it
    return made
