"""What `tap.blame` gives."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.replaying.blame.found import Findings
from tensortap.replaying.blame.text import blame_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Blame(Findings):
    """What `tap.blame` found. Printing it prints what `ttap blame` prints."""

    def __repr__(self) -> str:
        what = self.findings[0].place if self.findings else "nothing"
        return f"<Blame {what}, {len(self.findings)} of {self.judged} calls above the line>"

    def __str__(self) -> str:
        return blame_text(self)

    def _repr_html_(self) -> str:
        rows = [
            (one.rank, one.pass_number, one.place, one.error.kind, f"{one.error.bounds:.3g}", one.call)
            for one in self.calls[:ROWS_SHOWN]
        ]
        return html_table(repr(self)[1:-1], ("rank", "pass", "operator", "kind", "bounds", "call"), rows, self.judged)

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap blame --json` prints it."""
        return {
            "command": "blame",
            "path": str(self.path),
            "ok": self.ok,
            "judged": self.judged,
            "findings": [row_json(one) for one in self.findings],
            "calls": [row_json(one) for one in self.calls],
            "cancelling": [row_json(one) for one in self.cancelling],
            "nothing_to_judge": dict(self.nothing_to_judge),
            "not_replayed": dict(self.reasons),
            "refused": [row_json(one) for one in self.refused],
        }


def row_json(one: DataclassInstance) -> dict[str, Any]:
    """Its fields as JSON has them, with `pass` for `pass_number`."""
    return {"pass" if name == "pass_number" else name: plain_json(value) for name, value in asdict(one).items()}


def plain_json(value: Any) -> Any:
    """As JSON has it: NaN and infinities as words, a complex number as its text."""
    if isinstance(value, dict):
        return {name: plain_json(each) for name, each in value.items()}
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
