"""What a blame looks like on a terminal."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tensortap.replaying.blame.found import BlamedCall, Findings

_REASONS_SHOWN = 8
_LONGEST = 100


def blame_text(found: Findings) -> str:
    """The worst call in full, the others as a table, and what was not judged."""
    blocks = []
    if found.findings:
        blocks.append("\n".join(_story(found.findings[0], str(found.path))))
    if found.calls:
        blocks.append("\n".join(_table(found.calls)))
    if found.cancelling:
        blocks.append("\n".join(_cancelling(found.cancelling)))
    blocks.append("\n".join(_counts(found)))
    return "\n\n".join(blocks)


def _story(one: BlamedCall, run: str) -> Iterator[str]:
    error = one.error
    yield f"blamed: {one.place} {_what(one)}"
    if one.setting:
        yield f"  {one.setting}"
    yield ""
    yield f"  where      rank {one.rank}, pass {one.pass_number}, event {one.event}"
    yield f"  tensor     {error.dtype} {list(error.shape)}" + (f", result {error.path}" if error.path else "")
    yield f"  error      {error.relative:.3g} of its size, {error.unequal} of {error.count} values beyond their bound"
    if abs(error.factor) > 1e-6:
        yield f"  factor     {1 + error.factor:.7g} of the exact values"
    yield f"  worst at   {list(error.worst)}: recorded {number_text(error.got)}, exact {number_text(error.exact)}"
    yield f"  call       {one.op}({one.call})"
    if one.line:
        yield f"  line       {one.line}"
    place = f"--pass {one.pass_number} --rank {one.rank}"
    yield f"  look       ttap replay {shlex.quote(run)} {shlex.quote(one.key)} {place}"


def _what(one: BlamedCall) -> str:
    error = one.error
    if error.kind == "nonfinite":
        return "gave NaN or Inf where the exact result is finite"
    if error.kind == "overflow":
        return f"overflowed: the exact result is finite, and larger than {error.dtype} can hold"
    if error.kind == "rounding":
        return "is not called as its module says"
    return f"is {bounds_text(error.bounds)} rounding bounds from the exact result of its own arguments"


def _table(calls: Sequence[BlamedCall]) -> list[str]:
    rows = [("rank", "pass", "operator", "kind", "bounds", "relative", "dtype", "shape")]
    for one in calls:
        error = one.error
        kind = "setting" if one.setting else error.kind
        sizes = (bounds_text(error.bounds), f"{error.relative:.2g}", error.dtype, str(list(error.shape)))
        rows.append((str(one.rank), str(one.pass_number), one.place, kind, *sizes))
    return aligned(rows, "rrllrrll")


def _cancelling(calls: Sequence[BlamedCall]) -> list[str]:
    rows = [(one.place, f"{one.error.cancellation:.0f}", one.error.dtype) for one in calls[:3]]
    more = f" (the first 3 of {len(calls)})" if len(calls) > 3 else ""
    title = f"terms cancel here, which is no mistake, but where precision is lost{more}:"
    return [title, *("  " + line for line in aligned([("operator", "times", "dtype"), *rows], "lrl"))]


def _counts(found: Findings) -> Iterator[str]:
    many = sum(found.nothing_to_judge.values())
    kinds = ", ".join(f"{n} {what}" for what, n in found.nothing_to_judge.most_common())
    above = f"{len(found.findings)} of {count_text(found.judged, 'call')} above the line"
    yield f"{above}; {many} more with nothing to judge" + (f": {kinds}" if many else "")
    if not found.refused:
        return
    yield f"{count_text(len(found.refused), 'call')} not replayed:"
    reasons = found.reasons.most_common(None if found.show_all else _REASONS_SHOWN)
    for reason, count in reasons:
        yield f"  {count:>4}  {reason}"
        if found.show_all:
            yield from (f"        {one.module + ': ' if one.module else ''}{one.op}, event {one.event}"
                        for one in found.refused if one.reason == reason)  # fmt: skip
    if len(found.reasons) > len(reasons):
        yield f"  and {len(found.reasons) - len(reasons)} more reasons: --all"


def reason_lines(reasons: Counter[str], shown: int) -> Iterator[str]:
    """How many there are of each, the most first."""
    yield from (f"  {count:>4}  {reason}" for reason, count in reasons.most_common(shown))
    if len(reasons) > shown:
        yield f"  and {len(reasons) - shown} more reasons: --json"


def count_text(number: int, what: str) -> str:
    """`1 call`, `3 calls`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def bounds_text(bounds: float) -> str:
    """`41.3`, or `∞`."""
    return "∞" if math.isinf(bounds) else f"{bounds:.3g}"


def number_text(value: complex) -> str:
    """As many digits as float32 has."""
    return str(value) if isinstance(value, complex) else f"{value:.7g}"


def aligned(rows: Iterable[Sequence[str]], sides: str) -> list[str]:
    """The lines of a table; `sides` says of each column whether it stands left or right: "rl"."""
    cut = [[cell if len(cell) <= _LONGEST else cell[: _LONGEST - 1] + "…" for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cut) for column in range(len(sides))]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, sides, widths, strict=True)
        return "  ".join(cell.rjust(width) if side == "r" else cell.ljust(width) for cell, side, width in cells)

    return [line(row).rstrip() for row in cut]
