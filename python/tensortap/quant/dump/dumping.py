"""tap.quant.record(): the life of a dump of layers' tensors, unquantized and quantized, on a schedule."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from tensortap.literals import Format
from tensortap.modules.hooks import HookSet
from tensortap.modules.unseen import explain_unseen
from tensortap.quant.dump.config import DumpConfig, dump_config
from tensortap.quant.dump.files import FileSink
from tensortap.quant.dump.findings import Findings
from tensortap.quant.dump.layer_tap import LayerCall, LayerTap, UnderWay
from tensortap.quant.dump.quantized import Groups, sides_of
from tensortap.quant.dump.run import RunSink, Sink
from tensortap.quant.dump.selection import select, unmatched_notes
from tensortap.session import metadata
from tensortap.session.coverage import Coverage, report_lines
from tensortap.session.options import Options, options_of
from tensortap.session.passes import in_backward
from tensortap.session.program import program_records
from tensortap.session.session import Session
from tensortap.torch_glue.call_stack import calls_under_way


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.under_way: list[UnderWay] = []


class Dump(Session):
    """A dump under way; made by `tensortap.quant.record`. Closing it takes every hook off the model.

    Attributes
    ----------
    current_step
        The step that the program is in.
    microbatch
        How many forwards of the model this step had before the last one that began.
    """

    sink: Sink
    against_late_gradients = "call `dump.step()` after the backward"

    def __init__(self, models: Mapping[str, nn.Module], options: Options, config: DumpConfig, first_step: int) -> None:
        super().__init__(options)
        self.config = config
        self.current_step: int = first_step
        self.taps: list[LayerTap] = []
        self._dumped: set[int] = set()  # the steps of which something was
        self._begin_step()
        if self._closed:
            return
        if not options.wants_rank(metadata.rank()):
            self._closed = True
            return
        self._coverage = Coverage()
        self.findings = Findings()
        self._hooks = HookSet(self.guarded)
        notes = self._select(models)
        try:
            self.sink = self._make_sink()
            self._attach(models)
        except BaseException:
            self._closed = True
            self._hooks.remove()
            if self._writer is not None:
                self._writer.release(self)
            raise
        for note in (*config.notes, *notes):
            self._warn(note)

    def _make_sink(self) -> Sink:
        if self.options.core.format == "pt":
            sink = FileSink(self, self.current_step, self.guarded)
            self._rank_directory = sink.directory
            return sink
        return RunSink(self, self.current_step)

    # ---- steps ----

    def step(self) -> int:  # type: ignore[override]
        """Ends a step, as the optimizer's does: what follows belongs to the next one, whose number is returned."""
        if not self._closed:
            self._end_step(aborted=False)
        self.current_step += 1
        return self.current_step

    def close(self, *, aborted: bool = False) -> None:
        """Takes the hooks off and ends the step. Closing twice is no error.

        Parameters
        ----------
        aborted
            The step was cut short: its pass says so.
        """
        if self._closed:
            return
        self._hooks.remove()
        self._end_step(aborted=aborted)
        self._closed = True
        assert self._coverage is not None
        for tap in self.taps:
            if not tap.called:
                where = tap.description
                self._coverage.unseen(where.name, where.type_name, explain_unseen(where, tap.module))
        self.findings.cover(self._coverage, [(tap.names[0], tensor) for tap in self.taps for tensor in tap.was_due])
        for found in self._selections:
            modules = len(found.described["modules"])
            self._coverage.count_root(found.described["name"], modules, len(found.taps), len(self._dumped))
        self.sink.close()
        self._release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(aborted=kind is not None)

    def __repr__(self) -> str:
        state = f"at step {self.current_step}" if self.recording else "off"
        return f"<Dump of {len(self.taps)} layers into {self.options.directory}, {state}>"

    def _begin_step(self) -> None:
        self.microbatch: int = 0
        self._forwards = 0
        self._until_step: list[RemovableHandle] = []
        self._local = _ThreadState()

    def _end_step(self, *, aborted: bool) -> None:
        for handle in self._until_step:
            handle.remove()
        self._begin_step()
        self.sink.end_step(self.current_step, aborted=aborted)

    # ---- the model ----

    def _select(self, models: Mapping[str, nn.Module]) -> list[str]:
        """Finds the layers; what is to be said of those that were not found."""
        self._selections = [select(self, self.config, model, prefix) for prefix, model in models.items()]
        self.taps = [tap for selection in self._selections for tap in selection.taps]
        return unmatched_notes(self._selections)

    def _attach(self, models: Mapping[str, nn.Module]) -> None:
        for selection in self._selections:
            self.sink.add_model(selection.described, selection.taps)
        for model in models.values():
            self._hooks.serve_globally(model.modules())
            self._hooks.before(model, self._entering(model))
        for tap in self.taps:
            module = tap.module
            assert module is not None
            self._hooks.before(module, tap.before)
            self._hooks.after(module, tap.after, always=True)

    def _entering(self, model: nn.Module) -> Callable[..., None]:
        reference = weakref.ref(model)

        def entering(args: tuple, kwargs: dict[str, Any]) -> None:
            # Not when the model calls itself, nor when it is recomputed.
            if not in_backward() and calls_under_way(reference()) <= 1:  # type: ignore[arg-type]
                self.microbatch, self._forwards = self._forwards, self._forwards + 1

        return entering

    @property
    def under_way(self) -> list[UnderWay]:
        """The calls of layers on this thread, the innermost last."""
        return self._local.under_way

    def begin(self, call: LayerCall) -> None:
        """A call whose tensors will come."""
        self.sink.begin(call)

    def end(self, call: LayerCall) -> None:
        """The call has returned, or raised; gradients may still come."""
        self.sink.end(call)

    def keep_until_step(self, handle: RemovableHandle | None) -> None:
        """A hook that would outlive its graph goes when the step ends."""
        if handle is not None:
            self._until_step.append(handle)

    def take(
        self, call: LayerCall, name: str, tensor: torch.Tensor | None, groups: Groups | None = None, times: int = 1
    ) -> None:
        """One tensor of a call, if its step asks for it.

        Parameters
        ----------
        call, name
            Of which call, and which tensor it is.
        tensor, groups
            What there is of it; a tensor may be a quantized one.
        times
            The how-manieth of this name.
        """
        if name in call.due:  # what fails here keeps nothing else of the call from being dumped
            self.guarded(self._take, call, name, tensor, groups, times)

    def _take(self, call: LayerCall, name: str, tensor: torch.Tensor | None, groups: Groups | None, times: int) -> None:
        plan = call.due[name]
        assert self._coverage is not None
        if call.step != self.current_step:
            self._coverage.late_gradients += 1
            return
        sides = sides_of(tensor, groups, plan)
        self.findings.note(call.tap.names[0], plan, sides)
        self._dumped.add(call.step)
        numbered = f"{name}_{times}" if times > 1 else name
        self.sink.write(call, numbered, sides.high_precision, sides.groups, plan.internals)

    # ---- for the writer ----

    def _release(self) -> None:
        if self.options.core.format != "pt":
            super()._release()
            return
        sink: Any = self.sink
        totals = {"passes": len(sink.steps), "tensors": sink.files, "tensor_bytes": sink.bytes, "drops": {}}
        lines = report_lines(sink.directory, totals, self.coverage, None, self.against_late_gradients)
        if len(lines) > 1:
            lines[-1] = f"  all of it: {sink.directory / 'coverage.json'}"
        if self.options.report and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # closed, or a pipe that nobody reads
                print("\n".join(lines), file=sys.stderr)

    def _after_fork(self) -> None:
        """A forked child dumps nothing: the step is its parent's."""
        self._closed = True


def record(
    model: nn.Module | Mapping[str, nn.Module],
    directory: str | os.PathLike[str] | None,
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    format: Format | None = None,
    first_step: int = 0,
    ranks: str | int | Iterable[int] | None = None,
    append: bool | None = None,
    strict: bool | None = None,
    report: bool | None = None,
) -> Dump:
    """Dumps tensors of chosen layers at chosen steps: as they are, quantized, and what is inside of that.

    The config is of the kind that TransformerEngine's debug feature DumpTensors has.

    Parameters
    ----------
    model
        A module, or modules by name. Layers are those of its modules that have a weight of two dimensions or more.
    directory
        Where the run goes; made if missing.
    config
        The path of a YAML file, YAML, or a dict: sections, each with `layers` and what to dump of them.
    format
        `ttap` (default), `safetensors` or `npy`: a run, in which a pass is a step. `pt`: a file for each tensor,
        `rank_{r}/iter_{i:06d}/{layer}_{tensor}_microbatch{m}.pt`, a dict of plain tensors.
    first_step
        The number of the step that the program is in; more than 0 where training goes on.
    ranks
        Which ranks dump.
    append
        Go on in the newest run of the directory, instead of beginning a new one.
    strict
        Raise what cannot be dumped into the model, instead of counting it.
    report
        Print a short report to stderr at the end.

    Returns
    -------
    Dump
        A context manager; leaving it closes it. Its `step()` is to be called after each step of the optimizer: what
        happens between two such calls is one step, and each forward in it a microbatch.

    Raises
    ------
    ConfigError
        The config cannot be meant; a ValueError that says where, and what is allowed there.
    """
    if isinstance(first_step, bool) or not isinstance(first_step, int) or first_step < 0:
        raise ValueError(f"first_step is {first_step!r}: it is the number of a step, counted from 0")
    models = model if isinstance(model, Mapping) else {"": model}
    for name, value in models.items():
        if not hasattr(value, "register_forward_hook"):
            what = f"the model {name!r}" if name else "the model"
            raise TypeError(f"{what} is a {type(value).__name__}, not a torch.nn.Module")
    checked = dump_config(config)
    options = options_of(directory, format=format, ranks=ranks, append=append, strict=strict, report=report)
    described = {**options.described, "dump": json.loads(json.dumps(checked.given, default=str))}
    options = dataclasses.replace(options, described=described)
    if options.directory is not None:
        program_records()
    return Dump(models, options, checked, first_step)
