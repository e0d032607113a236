"""What differs between two runs of a program: the calls it begins with, and what is known of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tensortap.literals import RepeatKind
from tensortap.replaying.blame.found import place_text

# Other bits were made from the same bits: the operator itself is not the same twice.
MADE: tuple[RepeatKind, ...] = ("draw", "uninitialised", "race", "rounding", "kernel")


@dataclass(frozen=True)
class UnequalCall:
    """A call where a difference between two runs begins: it received no tensor that was different already.

    Attributes
    ----------
    kind
        `draw` (random numbers), `uninitialised` (it reads memory that nothing was written to), `race` (another thread
        writes to its tensor meanwhile), `rounding` (other bits from the same bits, no farther apart than rounding:
        sums in another order), `kernel` (other bits from the same bits); `argument` (called with another number),
        `data` (a tensor that no operator made has other values), `order` (it takes the result of another call), `calls`
        (only one of the runs makes it).
    key
        Of its tensor, for `ttap show`; empty where it has none.
    op, module, backward
        `aten::mm`, the module that it ran in, and whether in its backward.
    rank, pass_number
        Where in the runs it is.
    event_a, event_b
        Which event of the pass it is; None of a run that does not make it.
    call
        Its arguments, with dtype and shape for each tensor.
    line, line_b
        The innermost line of the program's own code, and that in B; empty without stacks.
    what, hint
        What differs, and what makes such differences.
    relative
        How far the results are apart at least, beside their size; None where it is not known.
    certain
        Whether nothing that differed before can be its reason. Differences reach Python unseen (a number that the
        program reads, a list): what Python then does otherwise may follow from an earlier one.
    count
        How many calls in a row it stands for: of `calls`.
    """

    kind: RepeatKind
    key: str
    op: str
    module: str
    backward: bool
    rank: int
    pass_number: int
    event_a: int | None
    event_b: int | None
    call: str
    line: str
    line_b: str
    what: str
    hint: str
    relative: float | None
    certain: bool
    count: int = 1

    @property
    def same_inputs(self) -> bool:
        """Whether it made other bits from the same bits; else it was called otherwise."""
        return self.kind in MADE

    @property
    def place(self) -> str:
        """`encoder.layer.0: aten::mm`, with its direction."""
        return place_text(self.module, self.op, backward=self.backward)


@dataclass
class Differences:
    """How two runs of a program compare, bit for bit.

    Attributes
    ----------
    a, b
        Where the two runs lie.
    findings
        Where differences begin, rank by rank in the order of the calls. What only received another tensor is not
        among them.
    identical
        Calls that made the same bits from the same bits.
    received
        Calls that differ because a tensor that they received does.
    received_from
        Of ranks where nothing begins: the rank whose difference reached them.
    unjudged
        Calls that could not be compared, by reason.
    notes
        What else is to be known: processes that only one run has, tensors that were dropped.
    kept
        Whether the runs are there still, to be looked at.
    """

    a: Path
    b: Path
    findings: list[UnequalCall] = field(default_factory=list)
    identical: int = 0
    received: int = 0
    received_from: dict[int, int] = field(default_factory=dict)
    unjudged: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    kept: bool = True

    @property
    def ok(self) -> bool:
        """Whether every call that was compared made the same bits."""
        return not self.findings and not self.received

    @property
    def first(self) -> UnequalCall | None:
        """Where the first difference begins: of several ranks, that of the earliest pass."""
        return min(self.findings, key=lambda one: one.pass_number, default=None)

    @property
    def firsts(self) -> dict[int, UnequalCall]:
        """By rank, where the first difference of the rank begins."""
        found: dict[int, UnequalCall] = {}
        for one in self.findings:
            found.setdefault(one.rank, one)
        return found

    def of_kind(self, *kinds: RepeatKind) -> Iterator[UnequalCall]:
        """The findings of these kinds."""
        return (one for one in self.findings if one.kind in kinds)
