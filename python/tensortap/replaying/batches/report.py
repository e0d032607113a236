"""What `tap.batch_invariance` gives."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.replaying.blame.found import CallAt, RefusedCall
from tensortap.replaying.blame.report import row_json
from tensortap.replaying.blame.text import aligned, count_text, reason_lines

_ROWS = 10
_REASONS_SHOWN = 5


@dataclass(frozen=True)
class BatchDependentCall(CallAt):
    """A call that gives a request other bits alone than in the batch.

    Attributes
    ----------
    request
        Which request: 0 is the first.
    relative
        How far the values are apart, beside their size.
    unequal, count
        How many values of the request differ, of how many.
    """

    request: int
    relative: float
    unequal: int
    count: int


@dataclass
class BatchInvariance:
    """What `tap.batch_invariance` found. Printing it prints what `ttap twice --batch-invariance` prints.

    Attributes
    ----------
    path
        The run.
    requests
        How many are in a batch.
    findings
        The calls that give a request other bits alone, in the order of the run. Each is called with what was recorded,
        so none of them is there because of another.
    judged
        How many calls were made for one request.
    refused
        Calls that take the batch and were not, with the reason.
    kept
        Whether the run is there still, to be looked at.
    """

    path: Path
    requests: int
    findings: list[BatchDependentCall] = field(default_factory=list)
    judged: int = 0
    refused: list[RefusedCall] = field(default_factory=list)
    kept: bool = True

    @property
    def ok(self) -> bool:
        """Whether every call gives a request the same bits alone."""
        return not self.findings

    @property
    def first(self) -> BatchDependentCall | None:
        """The first call that does not."""
        return self.findings[0] if self.findings else None

    def __repr__(self) -> str:
        return f"<BatchInvariance of {self.requests} requests: {self._counts()}>"

    def __str__(self) -> str:
        blocks = []
        if self.first is not None:
            blocks.append("\n".join(self._story(self.first)))
        if len(self.findings) > 1:
            blocks.append("\n".join(self._table()))
        blocks.append("\n".join([self._counts(), *self._not_judged()]))
        return "\n\n".join(blocks)

    def _story(self, one: BatchDependentCall) -> Iterator[str]:
        alone = f"gives request {one.request} other bits alone than among {self.requests}"
        yield f"depends on the batch: {one.place} {alone}"
        yield ""
        yield f"  where    rank {one.rank}, pass {one.pass_number}, event {one.event}"
        yield f"  call     {one.op}({one.call})"
        if one.line:
            yield f"  line     {one.line}"
        yield f"  apart    {one.unequal} of {one.count} values, by up to {one.relative:.2g} of their size"
        if self.kept:
            place = f"--pass {one.pass_number} --rank {one.rank}"
            yield f"  look     ttap log {shlex.quote(str(self.path))} --around {shlex.quote(one.key)} {place}"

    def _table(self) -> Iterator[str]:
        yield "later ones, each with what it was given:"
        rows = [("rank", "pass", "operator", "apart", "line")]
        rest = self.findings[1:]
        for one in rest[:_ROWS]:
            rows.append((str(one.rank), str(one.pass_number), one.place, f"{one.relative:.2g}", one.line))
        yield from (f"  {line}" for line in aligned(rows, "rrlrl"))
        if len(rest) > _ROWS:
            yield f"  and {len(rest) - _ROWS} more: --json"

    def _counts(self) -> str:
        return f"{len(self.findings)} of {count_text(self.judged, 'call')} give a request other bits alone"

    def _not_judged(self) -> Iterator[str]:
        if not self.refused:
            return
        yield f"{count_text(len(self.refused), 'call')} not made for one request:"
        yield from reason_lines(Counter(f"{one.op}: {one.reason}" for one in self.refused), _REASONS_SHOWN)

    def _repr_html_(self) -> str:
        rows = [(o.rank, o.pass_number, o.place, f"{o.relative:.2g}", o.call) for o in self.findings[:ROWS_SHOWN]]
        return html_table(repr(self)[1:-1], ("rank", "pass", "operator", "apart", "call"), rows, len(self.findings))

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap twice --batch-invariance --json` prints it."""
        return {
            "command": "twice --batch-invariance",
            "path": str(self.path),
            "requests": self.requests,
            "ok": self.ok,
            "findings": [row_json(one) for one in self.findings],
            "judged": self.judged,
            "refused": [row_json(one) for one in self.refused],
        }
