"""What a comparison of two runs looks like on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from tensortap.repeating.found import Differences, UnequalCall
from tensortap.replaying.blame.text import aligned

_ROWS = 10


def differences_text(found: Differences) -> str:
    """Where the first difference of each rank begins, a table of the others, and what was not compared."""
    blocks = ["\n".join(_story(one, found)) for one in found.firsts.values()]
    blocks += [f"rank {rank}: nothing begins here; what differs came from rank {giver}"
               for rank, giver in found.received_from.items()]  # fmt: skip
    firsts = {id(one) for one in found.firsts.values()}
    rest = [one for one in found.findings if id(one) not in firsts]
    if rest:
        blocks.append("\n".join(_table(rest)))
    blocks.append("\n".join(_counts(found)))
    return "\n\n".join(blocks)


def _story(one: UnequalCall, found: Differences) -> Iterator[str]:
    yield f"{'differs' if one.same_inputs else 'called otherwise'}: {one.place}: {one.what}"
    yield f"  likely   {one.hint}"
    yield ""
    event = f"event {one.event_a if one.event_a is not None else one.event_b}"
    yield f"  where    rank {one.rank}, pass {one.pass_number}, {event}"
    yield f"  call     {one.op}({one.call})"
    if one.line:
        yield f"  line     {one.line}"
    if one.line_b not in ("", one.line):
        yield f"  line in the second run  {one.line_b}"
    if one.relative is not None:
        yield f"  apart    by {one.relative:.2g} of its size at least"
    if one.key and found.kept:
        run = found.a if one.event_a is not None else found.b
        place = f"--pass {one.pass_number} --rank {one.rank}"
        yield f"  look     ttap log {shlex.quote(str(run))} --around {shlex.quote(one.key)} {place}"


def _table(findings: Sequence[UnequalCall]) -> Iterator[str]:
    yield "later ones:"
    rows = [("rank", "pass", "operator", "kind", "what", "line")]
    for one in findings[:_ROWS]:
        what = one.what if one.certain else f"{one.what} (may follow from the first)"
        rows.append((str(one.rank), str(one.pass_number), one.place, one.kind, what, one.line))
    yield from (f"  {line}" for line in aligned(rows, "rrllll"))
    if len(findings) > _ROWS:
        yield f"  and {len(findings) - _ROWS} more: --json"


def _counts(found: Differences) -> Iterator[str]:
    same = f"{found.identical} {'call' if found.identical == 1 else 'calls'} with the same bits"
    if found.ok:
        yield f"the same bits: {same}"
    else:
        yield f"{same}; {found.received} received other bits; in {len(found.findings)} a difference begins"
    for reason, count in found.unjudged.most_common():
        yield f"  {count:>4} not compared: {reason}"
    yield from (f"  {note}" for note in found.notes)
