"""`tap.graft`: tensors of one run in another run of the program."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from torch import nn

from tensortap.grafting.graft_session import GraftSession
from tensortap.grafting.op_graft import OpGraft
from tensortap.grafting.plan import Plan, opened
from tensortap.grafting.recorded_values import RecordedValues
from tensortap.grafting.report import GraftedKey, Tally
from tensortap.reading import Run

if TYPE_CHECKING:
    from typing_extensions import Self


class _PlanAtWork:
    """The keys of one run: modules and operators."""

    def __init__(self, models: Mapping[str, nn.Module] | None, plan: Plan, tally: Tally) -> None:
        self._plan = plan
        values, of_ops = RecordedValues(plan), bool(plan.of_kind("op"))
        self.session = GraftSession(models, plan, values, tally, operators=of_ops)
        self._ops: OpGraft | None = None
        if of_ops:
            try:
                self._ops = OpGraft(models, plan, values, tally, self.session)
            except BaseException:
                self.session.close()
                raise

    def close(self) -> None:
        """Ends it, and says why what was not met was not."""
        if self._ops is not None:
            self._ops.close()
        self.session.close()
        for key in self._plan.keys:
            grafted = key.grafted
            if not grafted.placed and not grafted.refused and not grafted.unmet:
                source = self._ops if key.kind == "op" and self._ops is not None else self.session
                grafted.unmet = source.why_unmet(key.names)


class Graft:
    """A graft at work, made by `tap.graft`; a context manager. Printing it says what it has put in, and what not.

    Attributes
    ----------
    keys
        A `GraftedKey` for each key that was given.
    """

    def __init__(self, models: Mapping[str, nn.Module] | None, plans: Sequence[Plan]) -> None:
        self.keys: list[GraftedKey] = [key.grafted for plan in plans for key in plan.keys]
        tally = Tally(self.keys)
        self._parts = [_PlanAtWork(models, plan, tally) for plan in plans]

    @property
    def ok(self) -> bool:
        """Whether every key was met, and put in wherever it was."""
        return all(key.ok for key in self.keys)

    @property
    def placed(self) -> int:
        """How many tensors were put in."""
        return sum(key.placed for key in self.keys)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """One pass, as `Recording.step()` makes one."""
        with contextlib.ExitStack() as steps:
            for part in self._parts:
                steps.enter_context(part.session.step())
            yield

    def close(self) -> None:
        """Ends it. Closing twice is no error."""
        for part in self._parts:
            part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return "\n".join(str(key) for key in self.keys)

    def __repr__(self) -> str:
        return f"<Graft of {len(self.keys)} keys, {self.placed} tensors put in>"


def graft(
    model: nn.Module | Mapping[str, nn.Module] | None,
    run: str | os.PathLike[str] | Run,
    keys: str | Sequence[str],
    *,
    names_of: str | os.PathLike[str] | Run | None = None,
) -> Graft:
    """Put recorded tensors of a run into this run of the program, at the same places.

        with tap.graft(model, "good", "encoder.layer.3.output.LayerNorm") as grafted, tap.record(model, "grafted"):
            model(x)
        print(grafted)
        tap.removed_error("good", "bad", "grafted")  # 0.997: that operator made the error

    A place is a pass, a module and its call in the pass. Nothing else is changed; gradients go where they would have
    gone. What cannot be put in is counted, with the reason.

    Parameters
    ----------
    model
        A module, modules by name, or None for every module that the program calls outermost, as `tap.record` takes it.
    run
        The run with the tensors, of level "full".
    keys
        Which: `fc1` a module's result, `fc1@in/0` an argument, `fc1:aten::addmm` an operator's result, `fc1::call2` the
        second call in a pass. A name stands for all its calls and results, where no tensor has exactly this key.
    names_of
        A recording of this program, where it has other names than the run: the keys are those of the run, and go where
        `tap.diff` of the two finds their counterparts.

    Returns
    -------
    Graft
        A context manager; leaving it ends it.

    Raises
    ------
    KeyError
        When a key is not in the run.
    ValueError
        When its bytes are not, or it is nothing that can be put in.
    """
    models = model if model is None or isinstance(model, Mapping) else {"": model}
    for value in (models or {}).values():
        if not isinstance(value, nn.Module):
            raise TypeError(f"the model is a {type(value).__name__}, not a torch.nn.Module")
    asked = [keys] if isinstance(keys, str) else list(keys)
    if not asked:
        raise ValueError("no key is given: name a tensor of the run, or several")
    return Graft(models, [Plan(opened(run), asked, opened(names_of) if names_of is not None else None)])
