"""Calls that were held against their exact results, and those that could not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tensortap.replaying.blame.judged import TensorError


@dataclass(frozen=True)
class CallAt:
    """A call of an operator, and where in a run it is.

    Attributes
    ----------
    key
        Of its result, for `ttap show` and `ttap replay`.
    op, module, backward
        `aten::mm`, the module that it ran in, and whether in its backward.
    rank, pass_number, event
        Where in the run it is; `event` counts those of the pass.
    call
        Its arguments, with dtype and shape for each tensor.
    line
        The innermost line of the program's own code; empty without stacks.
    """

    key: str
    op: str
    module: str
    backward: bool
    rank: int
    pass_number: int
    event: int
    call: str
    line: str

    @property
    def place(self) -> str:
        """`encoder.layer.0: aten::mm`, with its direction."""
        return place_text(self.module, self.op, backward=self.backward)


def place_text(module: str, op: str, *, backward: bool) -> str:
    """`encoder.layer.0: aten::mm in the backward`."""
    return (f"{module}: " if module else "") + op + (" in the backward" if backward else "")


@dataclass(frozen=True)
class BlamedCall(CallAt):
    """A call that was held against the exact result of its own arguments.

    Attributes
    ----------
    error
        How far it is from the exact result, where it is farthest.
    setting
        An argument that its module contradicts: `its eps is 0.001, and that of its module 1e-05`.
    """

    error: TensorError
    setting: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether rounding does not explain it."""
        return self.error.kind != "rounding" or bool(self.setting)


@dataclass(frozen=True)
class RefusedCall:
    """A call that was not made again, and why."""

    op: str
    module: str
    rank: int
    pass_number: int
    event: int
    reason: str


@dataclass
class Findings:
    """What was found in a run.

    Attributes
    ----------
    findings
        Calls with an error that rounding does not explain, the largest first.
    calls
        Every call that was judged, the largest error first; with `top`, so many.
    judged
        How many calls were held against their exact results.
    cancelling
        Calls whose terms cancelled: most digits of the result are rounding, which is no mistake.
    nothing_to_judge
        How many calls of each kind have nothing to judge: views, integer results.
    refused
        Calls that were not made again.
    """

    path: Path
    findings: list[BlamedCall] = field(default_factory=list)
    calls: list[BlamedCall] = field(default_factory=list)
    judged: int = 0
    cancelling: list[BlamedCall] = field(default_factory=list)
    nothing_to_judge: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedCall] = field(default_factory=list)
    show_all: bool = False

    @property
    def ok(self) -> bool:
        """Whether rounding explains every call that was judged."""
        return not self.findings

    @property
    def first(self) -> BlamedCall | None:
        """The call with the largest error that rounding does not explain."""
        return self.findings[0] if self.findings else None

    @property
    def reasons(self) -> Counter[str]:
        """Why calls were not made again, and how many each."""
        return Counter(each.reason for each in self.refused)
