"""Why a call of one run and its counterpart of the other differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tensortap import _core
from tensortap.literals import RepeatKind
from tensortap.reading import pass_of
from tensortap.repeating.calls import NOT_INITIALISED, Bits, Call, PassCalls, is_view
from tensortap.repeating.found import MADE, UnequalCall
from tensortap.repeating.pairing import Pairing, paired
from tensortap.repeating.words import Said, Words
from tensortap.replaying.blame.blaming import call_text
from tensortap.replaying.operators import is_collective

HashPair = tuple[str, str]


@dataclass
class Exchange:
    """One call of a collective, which other processes have a part in.

    Attributes
    ----------
    op, number
        Which operator, and which call of it in this process: the first is 1.
    gave_other
        Whether what this process gave to it differs between the runs.
    finding
        Where it is among the findings, when it made other bits from the same bits.
    made
        The hashes of what it made, where they differ.
    """

    op: str
    number: int
    gave_other: bool
    finding: UnequalCall | None
    made: list[HashPair]


class _Begins(NamedTuple):
    kind: RepeatKind
    said: Said
    hashes: list[HashPair]


class ProcessJudge:
    """Compares the passes of one process, one after the other.

    Attributes
    ----------
    differing
        Values that are known to differ, as the hash in A with that in B: who receives one of them only inherits.
    made
        Those of them that its own operators made, collectives apart.
    outside
        Findings about tensors that no operator of this process made, with their hashes.
    exchanges
        Its calls of collectives.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.findings: list[UnequalCall] = []
        self.identical = 0
        self.received = 0
        self.unjudged: Counter[str] = Counter()
        self.differing: set[HashPair] = set()
        self.made: set[HashPair] = set()
        self.exchanges: list[Exchange] = []
        self.outside: list[tuple[UnequalCall, list[HashPair]]] = []
        self._exchanged: Counter[str] = Counter()

    def add(self, number: int, a: PassCalls, b: PassCalls) -> None:
        """Compare a pass of A with that of B."""
        _PassJudge(self, number, a, b).run()

    def next_exchange(self, op: str) -> int:
        self._exchanged[op] += 1
        return self._exchanged[op]


class _PassJudge:
    def __init__(self, process: ProcessJudge, number: int, a: PassCalls, b: PassCalls) -> None:
        self._process, self._number, self._a, self._b = process, number, a, b
        self._pairing: Pairing = paired(a.calls, b.calls)
        self._place_a = {call.index: i for i, call in enumerate(a.calls)}
        self._place_b = {call.index: j for j, call in enumerate(b.calls)}
        self._unequal_a: set[int] = set()  # events whose results differ, or that B does not have
        self._unequal_b: set[int] = set()
        self._garbage: set[int] = set()  # events of A whose results show memory that nothing was written to
        self._words = Words(a, b)
        self._alone: tuple[bool, list[Call]] = (True, [])  # calls in a row that only A makes (or only B)

    def run(self) -> None:
        for i, j in self._in_order():
            if i is None or j is None:
                self._make_alone(i, j)
                continue
            self._end_row()
            call, other = self._a.calls[i], self._b.calls[j]
            if call.question == other.question and call.answer == other.answer:
                self._process.identical += 1
                self._exchange(call, None, gave_other=False, made=[])
            else:
                self._judge(call, other)
        self._end_row()

    def _in_order(self) -> Iterator[tuple[int | None, int | None]]:
        of_a: list[tuple[float, int | None, int | None]] = [(i, i, j) for i, j in enumerate(self._pairing.of_a)]
        of_b: list[tuple[float, int | None, int | None]] = [(p, None, j) for j, p in self._pairing.place_of_b.items()]
        return ((i, j) for _, i, j in sorted([*of_a, *of_b], key=lambda each: (each[0], each[2] or 0)))

    # ---- calls that only one run makes ----

    def _make_alone(self, i: int | None, j: int | None) -> None:
        of_a = i is not None
        call = self._a.calls[i] if i is not None else self._b.calls[j or 0]
        if self._alone[1] and self._alone[0] != of_a:
            self._end_row()
        self._alone = (of_a, self._alone[1])
        self._alone[1].append(call)
        (self._unequal_a if of_a else self._unequal_b).add(call.index)

    def _end_row(self) -> None:
        of_a, row = self._alone
        self._alone = (True, [])
        if row:
            self._find("calls", row[0] if of_a else None, None if of_a else row[0], self._words.alone(of_a, row),
                       count=len(row))  # fmt: skip

    # ---- calls that both make ----

    def _judge(self, call: Call, other: Call) -> None:
        finding = None
        if call.question == other.question:
            finding = self._made_other_bits(call, other)
        else:
            begins = self._asked_otherwise(call, other)
            if begins is None:
                self._process.received += 1
            elif begins.kind == "uninitialised" and is_view(call.event.name):
                self._garbage.add(call.index)  # it reads nothing: whoever does is named
                return
            else:
                finding = self._find(begins.kind, call, other, begins.said)
                self._process.differing.update(begins.hashes)
                if begins.kind == "data":
                    self._process.outside.append((finding, begins.hashes))
        made = self._differing_results(call, other)
        if made or call.answer != other.answer:
            self._unequal_a.add(call.index)
            self._unequal_b.add(other.index)
        self._process.differing.update(made)
        if not is_collective(call.name):
            self._process.made.update(made)
        gave_other = call.question != other.question
        self._exchange(call, None if gave_other else finding, gave_other=gave_other, made=made)

    def _differing_results(self, call: Call, other: Call) -> list[HashPair]:
        found = []
        for path in call.made.keys() & other.made.keys():
            mine, theirs = self._a.hash(call.made[path]), self._b.hash(other.made[path])
            if mine is not None and theirs is not None and mine != theirs:
                found.append((mine, theirs))
        return found

    def _made_other_bits(self, call: Call, other: Call) -> UnequalCall | None:
        unread = {path: self._a.unread(use) or self._b.unread(other.given[path]) for path, use in call.given.items()}
        for path, reason in unread.items():
            if reason.startswith(NOT_INITIALISED):
                return self._find("uninitialised", call, other, self._words.uninitialised(path))
        missing = next((reason for reason in unread.values() if reason), "")
        if missing:
            self._process.unjudged[f"an argument was not read: {missing}"] += 1
            return None
        if call.draws:
            kind, said = self._words.draw(call, other)
            return self._find(kind, call, other, said)
        relative, is_rounding = self._words.facts.apart(call, other)
        if self._words.facts.writes_meanwhile(call, other):
            kind, said = "race", self._words.race()
        else:
            kind, said = self._words.other_bits(call, is_rounding=is_rounding)
        return self._find(kind, call, other, said, relative=relative)

    def _asked_otherwise(self, call: Call, other: Call) -> _Begins | None:
        """The difference that begins here; None when what it received differed already."""
        received = False
        begins: _Begins | None = None
        hashes: list[HashPair] = []
        for path in call.given:
            if path not in other.given or self._a.bits(call.given[path]) == self._b.bits(other.given[path]):
                continue
            why = self._why_other(call, other, path)
            if why is None:
                received = True
                continue
            known = self._a.hash(call.given[path]), self._b.hash(other.given[path])
            if known[0] is not None and known[1] is not None:
                hashes.append((known[0], known[1]))
            if begins is None:
                begins = _Begins(*why, hashes)
        if begins is None and not received:
            begins = _Begins("argument", self._words.arguments(call, other), hashes)
        if begins is None or (received and begins.kind == "order"):
            return None
        return begins

    def _why_other(self, call: Call, other: Call, path: str) -> tuple[RepeatKind, Said] | None:
        """Why an argument has other bits; None where it had them before."""
        mine, theirs = call.given[path], other.given[path]
        of_a, of_b = self._a.hash(mine), self._b.hash(theirs)
        for known, use in ((self._a, mine), (self._b, theirs)):
            if known.unread(use).startswith(NOT_INITIALISED):
                return "uninitialised", self._words.uninitialised(path)
        if of_a is None or of_b is None or (of_a, of_b) in self._process.differing:
            return None
        makers_a, makers_b = self._makers(self._a, call, path), self._makers(self._b, other, path)
        if any(one.index in self._unequal_a for one in makers_a) or any(
            one.index in self._unequal_b for one in makers_b
        ):
            return None
        if any(one.index in self._garbage for one in makers_a):
            return "uninitialised", self._words.partly_uninitialised(path)
        both_made = bool(makers_a and makers_b)
        if both_made and [self._counterpart(one) for one in makers_a] != [one.index for one in makers_b]:
            return "order", self._words.other_maker(call, other, path, makers_a, makers_b)
        if both_made and mine.tensor in self._words.facts.began_empty:
            return "uninitialised", self._words.partly_uninitialised(path)
        outside_a, outside_b = self._words.facts.outside
        if of_a in outside_b and of_b in outside_a:
            return "order", self._words.data_elsewhere(path)
        first_made = self._words.facts.first_made.get(-1 if mine.tensor is None else mine.tensor, call.index)
        return "data", self._words.data(path, past_pytorch=first_made < call.index)

    def _makers(self, known: PassCalls, call: Call, path: str) -> list[Call]:
        """The call that made an argument, or those that wrote to parts of it; none where it came from outside."""
        uses = [call.given[path], *call.parts.get(path, [])]
        made = {maker.index: maker for use in uses if (maker := known.maker(use)) is not None}
        return [made[index] for index in sorted(made)]

    def _counterpart(self, call: Call) -> int | None:
        place = self._pairing.of_a[self._place_a[call.index]]
        return None if place is None else self._b.calls[place].index

    # ---- what was found ----

    def _find(
        self,
        kind: RepeatKind,
        call: Call | None,
        other: Call | None,
        said: Said,
        *,
        relative: float | None = None,
        count: int = 1,
    ) -> UnequalCall:
        side, one = (self._a, call) if call is not None else (self._b, other)
        assert one is not None
        name = one.name
        made = next(iter(one.made.values()), None)
        known: Bits | None = side.bits(made) if made is not None else None
        found = UnequalCall(
            kind=kind,
            key=_core.key_text(one.event.name, one.event.call, made.role, made.path) if made and known else "",
            op=name.op,
            module=name.scope,
            backward=name.backward,
            rank=self._process.rank,
            pass_number=self._number,
            event_a=call.index if call is not None else None,
            event_b=other.index if other is not None else None,
            call=call_text(pass_of(one.event), one.event),
            line=one.line,
            line_b=other.line if other is not None else "",
            what=said.what,
            hint=said.hint,
            relative=relative,
            certain=(kind in MADE and kind != "draw") or not self._process.findings,
            count=count,
        )
        self._process.findings.append(found)
        return found

    def _exchange(self, call: Call, finding: UnequalCall | None, *, gave_other: bool, made: list[HashPair]) -> None:
        name = call.name
        if is_collective(name):
            number = self._process.next_exchange(name.op)
            self._process.exchanges.append(Exchange(name.op, number, gave_other, finding, made))
