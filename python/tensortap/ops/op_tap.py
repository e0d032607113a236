"""The operators of a recording: they go into its passes, beneath its modules."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from tensortap import _core
from tensortap.ops.kernels import Kernels
from tensortap.ops.module_scopes import ModuleScopes
from tensortap.ops.tensor_kinds import describe, take_apart
from tensortap.session.options import Options
from tensortap.session.passes import SKIPPED
from tensortap.tensors.live_rows import row_options
from tensortap.torch_glue import op_extension
from tensortap.torch_glue.compiling import Compiling
from tensortap.torch_glue.swapping import Swapping


class OpTap:
    """Observes operators for one recording. Started anew when its process has forked."""

    def __init__(
        self,
        options: Options,
        models: Mapping[str, nn.Module] | None,
        name_given: Callable[[nn.Module], str | None],
    ) -> None:
        self._ops = op_extension.load()
        self._options = options
        self._models = dict(models or {})
        self._name_given = name_given
        self._source: Any = None
        self._core: _core.Recorder | None = None  # outlives the source
        self._scopes: ModuleScopes | None = None
        self._aids: list[Any] = []
        self._ended: list[dict[str, Any]] = []  # counts of sources that were stopped
        self._first: Callable[[], None] | None = None  # is called once, before the first operator is recorded
        self._first_lock = threading.Lock()

    def start(self, core: _core.Recorder) -> None:
        """Begins, or goes on, with a recorder of this process."""
        if self._source is None:
            self._observe()
        self._core = core
        self._source.set_recorder(core.address)

    def watch(self, first: Callable[[], None]) -> None:
        """Begins without a recorder: `first` is called when there is an operator to be recorded, which waits for it."""
        self._first, self._first_lock = first, threading.Lock()
        self._observe()

    def _observe(self) -> None:
        options = self._options
        self._source = self._ops.OpSource(
            view="dispatch",
            inputs=True,
            outputs=True,
            ids=True,
            stacks=options.stacks,
            all_threads=True,
            compilation=False,
            unseen_writes=options.unseen_writes,
            level=0,
            decide=self._level_of,
            describe=describe,
            take_apart=functools.partial(take_apart, most_decoded=options.core.device_staging_bytes),
            hook=None,
            limit_bytes=0,
            recorder=0,  # it comes later
            **row_options(options.live_rows),
        )
        self._scopes = ModuleScopes(self._source, self._models, self._name_given)
        self._aids = [Compiling(), self._scopes, Kernels(self._source), Swapping(self._source)]
        self._source.start()
        self._scopes.enter_those_under_way()

    def _level_of(self, name: str) -> int | None:
        options = self._options
        if not options.filter.selects_op(name):
            return None
        if self._first is not None:
            with self._first_lock:
                if self._first is not None:
                    self._first()
                    self._first = None
        return options.levels.of_name(name)

    def stop(self) -> None:
        """Ends it; before the recorder is closed."""
        if self._source is None:
            return
        self._source.stop()
        for aid in reversed(self._aids):
            aid.remove()
        self._ended.append(self._source.counts())
        self._source, self._scopes, self._aids, self._core = None, None, [], None

    @property
    def source(self) -> Any:
        """The source that is at work, or None."""
        return self._source

    def launch_waiting(self) -> None:
        """Fingerprints of CUDA tensors that wait for others are launched: a pass is about to end."""
        if self._source is not None:
            self._source.launch_waiting()

    def set_pass(self, number: int | None) -> None:
        """The pass of this thread's operators; None: it has none of its own, SKIPPED: they are left out."""
        if self._source is not None:
            self._source.set_pass(-1 if number is None else -2 if number == SKIPPED else number)

    def set_pass_of_others(self, number: int | None) -> None:
        """The pass of operators on threads that have none of their own; None: they belong to none."""
        if self._source is not None:
            self._source.set_pass_of_others(-1 if number is None else number)

    def enter_early(self, module: nn.Module) -> None:
        """A module is being called, which the modules' hooks may not have seen yet."""
        if self._scopes is not None:
            self._scopes.enter_early(module)

    def module_event(self, event: _core.Event | None) -> None:
        """The module that was entered last on this thread has this event."""
        if self._source is not None and event is not None:
            self._source.set_scope_event(event.number)

    def counts(self) -> dict[str, int]:
        """What was seen so far, for the coverage report."""
        all_counts = [*self._ended, *([self._source.counts()] if self._source is not None else [])]
        return {
            name: sum(counts[name] for counts in all_counts)
            for name in ("calls", "rejected", "outside_passes", "compilation", "failed", "lost")
        }
