"""What `tap.sensitivity` gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.literals import DType
from tensortap.replaying.blame.found import CallAt, RefusedCall
from tensortap.replaying.blame.report import row_json
from tensortap.replaying.blame.text import aligned, count_text, reason_lines

_REASONS_SHOWN = 5
_MODULES_SHOWN = 5
_LEAST_SHOWN = 0.001
_CANCELLING = 2.0  # times the error that is left


@dataclass(frozen=True)
class CallShare(CallAt):
    """A call, and how much of the output's error its own error explains.

    Attributes
    ----------
    dtype, shape
        Of its first result.
    share
        The part of the output's error that would be gone if this call were exact: 0.4 of it. Below zero where it takes
        away from what others add.
    relative
        Its own error beside the size of its result.
    """

    dtype: DType
    shape: tuple[int, ...]
    share: float
    relative: float


@dataclass
class Sensitivity:
    """What `tap.sensitivity` found. Printing it prints what `ttap blame --sensitivity` prints.

    Attributes
    ----------
    output, dtype, shape
        The result that was looked at.
    relative
        Its error beside its size: what was recorded against the same calls in float64.
    explained
        The sum of all shares: 1 where first order explains the whole error.
    magnitude
        The sum of their magnitudes: much more than 1 where errors of single calls cancel.
    calls
        The calls with the largest shares; `count` is how many have any.
    modules
        The shares of the operators of each module, the largest first.
    cut
        Calls that errors were not followed through, with the reason.
    lost
        How many values were written to in ways that no call tells: what errs in them is not followed.
    """

    path: Path
    rank: int
    pass_number: int
    output: str
    dtype: DType
    shape: tuple[int, ...]
    relative: float
    lost: int = 0
    explained: float = 0.0
    magnitude: float = 0.0
    count: int = 0
    calls: list[CallShare] = field(default_factory=list)
    modules: dict[str, float] = field(default_factory=dict)
    cut: list[RefusedCall] = field(default_factory=list)

    @property
    def first(self) -> CallShare | None:
        """The call that explains most."""
        return self.calls[0] if self.calls else None

    def __repr__(self) -> str:
        what = f"{self.first.place} {_percent(self.first.share)}" if self.first else "no error"
        return f"<Sensitivity of {self.output}: {what}>"

    def __str__(self) -> str:
        where = f"rank {self.rank}, pass {self.pass_number}"
        lines = [
            f"{self.output} is {self.relative:.3g} of its size from the same calls in float64",
            f"  {self.dtype} {list(self.shape)}, {where}",
        ]
        if self.calls:
            some = "" if len(self.calls) == 1 else f"{len(self.calls)} "
            shown = f"the {some}largest of " if len(self.calls) < self.count else ""
            lines += [
                f"  {_percent(self.explained)} of that is explained by the errors of {count_text(self.count, 'call')}"
            ]
            if self.magnitude > _CANCELLING * max(abs(self.explained), 1e-300):
                lines += [f"  they cancel: the shares add up to {_percent(self.magnitude)} without their signs"]
            lines += ["", *_calls_table(self.calls)]
            if shown:
                lines += [f"{shown}{count_text(self.count, 'call')}"]
            if len(self.modules) > 1:
                lines += ["", *_modules_table(self.modules)]
        if self.cut or self.lost:
            lines += ["", *self._not_covered()]
        return "\n".join(lines)

    def _not_covered(self) -> list[str]:
        lines = []
        if self.cut:
            lines += [f"errors are not followed through {count_text(len(self.cut), 'call')}:"]
            lines += reason_lines(Counter(f"{one.op}: {one.reason}" for one in self.cut), _REASONS_SHOWN)
        if self.lost:
            lines += [f"{count_text(self.lost, 'value')} changed through another view, or past PyTorch: "
                      "errors are not followed into them"]  # fmt: skip
        return lines

    def _repr_html_(self) -> str:
        rows = [(_percent(one.share), one.place, f"{one.relative:.3g}", one.dtype, one.call) for one in self.calls]
        columns = ("share", "operator", "own error", "dtype", "call")
        return html_table(repr(self)[1:-1], columns, rows[:ROWS_SHOWN], self.count)

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap blame --sensitivity --json` prints it."""
        return {
            "command": "blame --sensitivity",
            "path": str(self.path),
            "rank": self.rank,
            "pass": self.pass_number,
            "output": self.output,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "relative": self.relative,
            "explained": self.explained,
            "magnitude": self.magnitude,
            "count": self.count,
            "calls": [row_json(one) for one in self.calls],
            "modules": self.modules,
            "cut": [row_json(one) for one in self.cut],
            "lost": self.lost,
        }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _calls_table(calls: list[CallShare]) -> list[str]:
    rows = [("share", "operator", "own error", "dtype", "shape")]
    rows += [(_percent(o.share), o.place, f"{o.relative:.2g}", o.dtype, str(list(o.shape))) for o in calls]
    return aligned(rows, "rlrll")


def _modules_table(modules: dict[str, float]) -> list[str]:
    rows = [("share", "module")]
    large = [(name, share) for name, share in modules.items() if abs(share) >= _LEAST_SHOWN]
    rows += [(_percent(share), name or "(no module)") for name, share in large[:_MODULES_SHOWN]]
    return aligned(rows, "rl")
