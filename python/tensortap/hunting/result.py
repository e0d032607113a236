"""What a hunt found, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensortap.comparing import Diff
from tensortap.hunting.suspects import CallPlace
from tensortap.hunting.verdicts import HuntedSuspect
from tensortap.programs.recorded_program import RecordedProgram
from tensortap.replaying.blame.report import plain_json, row_json
from tensortap.replaying.right.report import ReplayedSide


@dataclass
class Hunt:
    """What `tap.hunt` found. Printing it prints what `ttap hunt` prints.

    Attributes
    ----------
    path
        The folder with the recordings and the programs that show the suspects.
    a, b
        How the first run of either program ended.
    diff
        The comparison of the first runs.
    suspects
        The calls that may have introduced the difference, in the order of the run, each judged.
    """

    path: Path
    a: RecordedProgram
    b: RecordedProgram
    diff: Diff
    suspects: list[HuntedSuspect] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the programs agree."""
        return self.diff.same

    @property
    def first(self) -> HuntedSuspect | None:
        """The suspect that was confirmed; else the first that explains a difference which rounding does not."""
        found = [one for one in self.suspects if one.is_found or one.is_cause]
        return next((one for one in found if one.is_cause), found[0] if found else None)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.same:
            return f"no difference: {self.diff.sentence}"
        if self.first is not None:
            one = self.first
            share = (
                f"; grafting it removes {_percent(one.removed)} of the output's error"
                if one.removed is not None
                else ""
            )
            return f"{one.key}: {one.sentence}{share}"
        if not self.suspects:
            return f"no operator to replay: {self.diff.sentence}"
        unknown = next((one for one in self.suspects if one.verdict == "not known"), None)
        if unknown is not None:
            return f"{unknown.key}: {unknown.sentence}"
        many = f"each of {len(self.suspects)} suspects" if len(self.suspects) > 1 else "the suspect"
        return f"rounding explains {many}: {self.diff.sentence}"

    def __repr__(self) -> str:
        return f"<Hunt {self.sentence}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield ("hunted: " if not self.same else "") + self.sentence
        if not self.same:
            yield f"  diff       {self.diff.sentence}"
        for name, program in (("A", self.a), ("B", self.b)):
            if program.status != 0:
                yield f"  {name} ended   {program.ending}: {shlex.join(program.command)}"
        for number, one in enumerate(self.suspects, 1):
            yield ""
            yield from _suspect_lines(number, one)
        if not self.same:
            yield ""
            yield f"  look       ttap diff {shlex.quote(str(self.a.path))} {shlex.quote(str(self.b.path))}"

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap hunt --json` prints it; the diff with its answer alone."""
        first = self.first
        return {
            "command": "hunt",
            "path": str(self.path),
            "same": self.same,
            "sentence": self.sentence,
            "a": _program_json(self.a),
            "b": _program_json(self.b),
            "diff": {"verdict": self.diff.verdict, "sentence": self.diff.sentence, "counts": self.diff.counts},
            "first": None if first is None else self.suspects.index(first),
            "suspects": [_suspect_json(one) for one in self.suspects],
        }


def _suspect_lines(number: int, one: HuntedSuspect) -> Iterator[str]:
    a, b = one.suspect.a, one.suspect.b
    yield f"suspect {number}: {one.key}" + (f" (B: {b.key})" if b.key not in ("", one.key) else "")
    yield f"  verdict    {one.sentence}"
    yield f"  diff says  {one.reason}"
    place = one.places[1] or one.places[0]
    if place is not None:
        yield f"  where      rank {place.rank}, pass {place.pass_number}"
    yield from _call_lines(a, b)
    for name, side in (("A", a), ("B", b)):
        if side.reason:
            yield f"  {name} is not judged: {side.reason}"
    if one.removed is not None:
        yield f"  confirmed  with what A computed there, {_percent(one.removed)} of the error of B's output is gone"
    elif one.not_confirmed:
        yield f"  confirmed  not known: {one.not_confirmed}"
    yield f"  script     python {shlex.quote(one.script)}" if one.script else f"  no script  {one.no_script}"


def _call_lines(a: ReplayedSide, b: ReplayedSide) -> Iterator[str]:
    calls = [(side.call.op, side.call.call, side.call.line) for side in (a, b) if side.call is not None]
    names = ("",) if len(set(calls)) < 2 else (" of A", " of B")
    for name, (op, call, line) in zip(names, calls, strict=False):
        yield f"  {'call' + name:<10} {op}({call})"
        if line:
            yield f"  {'line':<10} {line}"


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _program_json(program: RecordedProgram) -> dict[str, Any]:
    return {"command": list(program.command), "path": str(program.path), "status": program.status}


def _suspect_json(one: HuntedSuspect) -> dict[str, Any]:
    a, b = one.places
    return {
        "key": one.key,
        "verdict": one.verdict,
        "sentence": one.sentence,
        "reason": one.reason,
        "arguments": list(one.arguments),
        "apart": plain_json(one.apart),
        "a": _side_json(a, one.suspect.a),
        "b": _side_json(b, one.suspect.b),
        "script": one.script or None,
        "no_script": one.no_script,
        "removed": plain_json(one.removed),
        "not_confirmed": one.not_confirmed,
    }


def _side_json(place: CallPlace | None, side: ReplayedSide) -> dict[str, Any]:
    where = None if place is None else {"key": place.key, "name": place.call, "kind": place.kind, "rank": place.rank,
                                        "pass": place.pass_number}  # fmt: skip
    return {"place": where, "call": None if side.call is None else row_json(side.call), "reason": side.reason}
