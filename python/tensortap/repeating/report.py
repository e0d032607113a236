"""What `tap.same_bits` gives."""

from __future__ import annotations

from typing import Any

from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.repeating.found import Differences, UnequalCall
from tensortap.repeating.text import differences_text
from tensortap.replaying.blame.report import row_json


class SameBits(Differences):
    """How two runs of a program compare, bit for bit. Printing it prints what `ttap twice` prints."""

    def __repr__(self) -> str:
        what = f"begins at {self.first.place}" if self.first else "nothing differs"
        return f"<SameBits {what}, {self.identical} calls with the same bits, {self.received} received others>"

    def __str__(self) -> str:
        return differences_text(self)

    def _repr_html_(self) -> str:
        rows = [(one.rank, one.pass_number, one.place, one.kind, one.what) for one in self.findings[:ROWS_SHOWN]]
        return html_table(repr(self)[1:-1], ("rank", "pass", "operator", "kind", "what"), rows, len(self.findings))

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap twice --json` prints it."""
        return {
            "command": "twice",
            "a": str(self.a),
            "b": str(self.b),
            "ok": self.ok,
            "first": None if self.first is None else _call_json(self.first),
            "findings": [_call_json(one) for one in self.findings],
            "identical": self.identical,
            "received": self.received,
            "received_from": {str(rank): giver for rank, giver in self.received_from.items()},
            "unjudged": dict(self.unjudged),
            "notes": self.notes,
        }


def _call_json(one: UnequalCall) -> dict[str, Any]:
    return row_json(one) | {"same_inputs": one.same_inputs}
