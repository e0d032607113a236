"""What a graft has in common with a recording: which modules, which pass, which call; but it writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from tensortap import _core
from tensortap.grafting.call_counter import NoWriter
from tensortap.grafting.placing import Placing
from tensortap.grafting.plan import Plan
from tensortap.grafting.recorded_values import RecordedValues
from tensortap.grafting.report import NO_SUCH_CALL, Tally
from tensortap.modules.module_source import ModuleSource
from tensortap.modules.root_finder import RootFinder
from tensortap.session.coverage import Coverage
from tensortap.session.filters import NameFilter
from tensortap.session.options import Levels, Options
from tensortap.session.passes import PassTracker
from tensortap.session.session import Session
from tensortap.session.writer import tell_of_forks


def _options(names: set[str], *, operators: bool) -> Options:
    """Those of a recording that takes results and inputs of the modules of these names.

    With operators the calls of all modules are followed, as a recording of operators does.
    """
    return Options(
        directory=None,
        filter=NameFilter(lambda name, module: name in names),
        levels=Levels("full"),
        roles=frozenset(["in", "out"]),
        modules="all",
        compiled=False,
        ops=operators,
        stacks=False,
        unseen_writes=False,
        step="auto",
        steps=None,
        ranks=None,
        report=False,
        core=_core.RecorderOptions(),
    )


class GraftSession(Session):
    """The modules of a graft. Without models, those of whatever module the program calls outermost."""

    def __init__(
        self,
        models: Mapping[str, nn.Module] | None,
        plan: Plan,
        values: RecordedValues,
        tally: Tally,
        *,
        operators: bool,  # those of the whole program have passes, too
    ) -> None:
        super().__init__(_options({name for key in plan.of_kind("module") for name in key.names}, operators=operators))
        self._closed = False
        self._coverage = Coverage()
        self._no_writer = NoWriter()
        self.tracker = PassTracker(
            self._writer_now,
            manual=False,
            steps=None,
            gradients=True,
            newest_changed=(lambda number: None) if operators else None,
        )
        self.at_fork: list[Callable[[], None]] = [tally.reset]  # in a child
        self._placing = Placing(self, plan, values, tally)
        self.source = ModuleSource(
            self,
            None,
            explicit=models is not None,
            model_attached=lambda described: None,
            optimizer_stepped=lambda described: None,
            capture=self._placing,
            changes=self._placing,
        )
        self._finder = RootFinder(self.source) if models is None else None
        for prefix, model in (models or {}).items():
            self.source.attach(model, prefix)
        tell_of_forks(self)

    @property
    def counter(self) -> Any:
        """Which call of an operator in a pass it is, counted beside those of modules."""
        return self._no_writer.core

    def close(self) -> None:
        """Takes the hooks off. Closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        if self._finder is not None:
            self._finder.remove()
        self.source.detach()
        self._placing.begin()
        self.tracker.end_all()
        self.source.cover()

    def why_unmet(self, names: set[str]) -> str:
        """Why no call of a module of these names was seen."""
        assert self._coverage is not None
        for item in self._coverage.never_called:
            if item["name"] in names:
                return item["why"]
        if self._coverage.first_failure:
            return f"a hook failed: {self._coverage.first_failure}"
        known = {name for root in self.source._roots for name in root.names}
        return NO_SUCH_CALL if names & known else "no module of that name was called"

    def _after_fork(self) -> None:
        super()._after_fork()
        self._no_writer = NoWriter()
        self.source.after_fork()
        assert self._coverage is not None
        self.source.coverage = self._coverage
        for restart in self.at_fork:
            restart()

    def _writer_now(self) -> Any:
        return self._no_writer
