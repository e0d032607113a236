"""What `tap.who_is_right` gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.literals import WhoIsWrong
from tensortap.replaying.blame.found import BlamedCall
from tensortap.replaying.blame.judged import cancels
from tensortap.replaying.blame.report import row_json
from tensortap.replaying.blame.text import bounds_text, number_text

_SHOWN = 4
_FROM = "rounding bounds from the exact result of its own inputs"


@dataclass(frozen=True)
class ReplayedSide:
    """One side of a difference, called again.

    Attributes
    ----------
    key
        Its tensor.
    call
        Its call beside the exact result of its own inputs; of a module, the worst of its operators. None where it was
        not replayed.
    operators
        Those that were held against their exact results.
    reason
        Why it was not replayed.
    record
        Where bytes are missing, how to record them.
    """

    key: str
    call: BlamedCall | None = None
    operators: tuple[str, ...] = ()
    reason: str = ""
    record: str = ""

    @property
    def is_wrong(self) -> bool | None:
        """Whether rounding does not explain its result; None where it was not replayed."""
        return None if self.call is None else self.call.is_finding


@dataclass(frozen=True)
class Suspect:
    """A difference that an operator introduced, with both sides called again."""

    key: str
    a: ReplayedSide
    b: ReplayedSide

    @property
    def wrong(self) -> WhoIsWrong:
        """Which side is farther from the exact result of its own inputs than rounding explains."""
        of_a, of_b = self.a.is_wrong, self.b.is_wrong
        if of_a and of_b:
            return "both"
        if of_a or of_b:
            return "a" if of_a else "b"
        return "unknown" if None in (of_a, of_b) else "neither"

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        a, b = self.a, self.b
        if self.wrong == "both":
            return f"both are wrong: A {_error(a)}; B {_error(b)}"
        if self.wrong == "neither":
            return ("neither is wrong: both are within rounding of the exact result of their own inputs"
                    f" ({_bounds(a)} bounds in A, {_bounds(b)} in B)")  # fmt: skip
        if self.wrong == "unknown" and a.reason == b.reason:
            return f"not known, since neither side is replayed: {a.reason}"
        if self.wrong == "unknown":
            return "; ".join(_state(name, side) for name, side in (("A", a), ("B", b)))
        (name, wrong), (other, sound) = (("A", a), ("B", b)) if self.wrong == "a" else (("B", b), ("A", a))
        beside = (
            f"{other} is {_bounds(sound)}" if sound.call is not None else f"{other} is not replayed: {sound.reason}"
        )
        return f"{name} is wrong: {_error(wrong)}; {beside}"

    @property
    def note(self) -> str:
        """Where neither is wrong: why they differ all the same, as far as that is seen here."""
        a, b = self.a.call, self.b.call
        if a is None or b is None or self.wrong != "neither":
            return ""
        if self.a.operators != self.b.operators:
            return f"other operators ran: {_list(self.a)} in A, {_list(self.b)} in B"
        if len(self.a.operators) == 1 and a.call != b.call:
            return f"they are called differently: A {a.op}({a.call}), B {b.op}({b.call})"
        if cancels(a.error) or cancels(b.error):
            return "terms cancel there: most digits of the result are rounding"
        return ""

    def lines(self) -> Iterator[str]:
        """As `ttap diff --replay` prints it."""
        yield f"{self.key}: {self.sentence}"
        if self.note:
            yield f"  {self.note}"
        for name, side in (("A", self.a), ("B", self.b)):
            if side.call is None:
                if side.record:
                    yield f"  record {name}   {side.record}"
                continue
            if len(side.operators) > 1:
                yield f"  worst in {name} {side.call.place}, of {len(side.operators)} operators"
            if side.is_wrong:
                error = side.call.error
                got, exact = number_text(error.got), number_text(error.exact)
                yield f"  worst at   {list(error.worst)}: {name} {got}, exact {exact}"
                yield f"  call in {name}  {side.call.op}({side.call.call})"
                if side.call.line:
                    yield f"  line in {name}  {side.call.line}"


@dataclass(frozen=True)
class WhoIsRight:
    """What `tap.who_is_right` found. Printing it prints what `ttap diff --replay` adds to a diff.

    Attributes
    ----------
    suspects
        The differences that operators introduced, in execution order.
    left_out
        How many more there are.
    """

    suspects: list[Suspect] = field(default_factory=list)
    left_out: int = 0

    @property
    def first(self) -> Suspect | None:
        """That of the first difference."""
        return self.suspects[0] if self.suspects else None

    def __repr__(self) -> str:
        return f"<WhoIsRight {self.first.key}: {self.first.sentence}>" if self.first else "<WhoIsRight: no suspects>"

    def __str__(self) -> str:
        if not self.suspects:
            return "no operator introduced a difference: nothing to replay"
        blocks = ["\n".join(each.lines()) for each in self.suspects]
        if self.left_out:
            blocks.append(f"{self.left_out} more not replayed")
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        rows = [(each.key, each.wrong, each.sentence) for each in self.suspects[:ROWS_SHOWN]]
        return html_table(repr(self)[1:-1], ("key", "wrong", "answer"), rows, len(self.suspects))

    def to_json(self) -> list[dict[str, Any]]:
        """As it stands in `ttap diff --replay --json`, under `replayed`."""
        return [
            {
                "key": each.key,
                "wrong": each.wrong,
                "sentence": each.sentence,
                "note": each.note,
                "a": _side_json(each.a),
                "b": _side_json(each.b),
            }
            for each in self.suspects
        ]


def _side_json(side: ReplayedSide) -> dict[str, Any]:
    known = {name: value for name, value in asdict(side).items() if name != "call"}
    return {**known, "is_wrong": side.is_wrong, "call": None if side.call is None else row_json(side.call)}


def _list(side: ReplayedSide) -> str:
    shown = list(dict.fromkeys(side.operators))
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


def _bounds(side: ReplayedSide) -> str:
    return "" if side.call is None else bounds_text(side.call.error.bounds)


def _error(side: ReplayedSide) -> str:
    assert side.call is not None
    error = side.call.error
    if error.kind == "nonfinite":
        return "it has NaN or Inf where the exact result of its own inputs is finite"
    if error.kind == "overflow":
        return f"it overflowed: the exact result of its own inputs is finite, and larger than {error.dtype} can hold"
    if error.kind == "rounding":
        return side.call.setting
    return f"{bounds_text(error.bounds)} {_FROM}"


def _state(name: str, side: ReplayedSide) -> str:
    if side.call is None:
        return f"{name} is not replayed: {side.reason}"
    return f"{name} is within rounding of the exact result of its own inputs ({_bounds(side)} bounds)"
