"""What both sides of a suspect say: which is wrong, or in what they were asked for different things."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from tensortap.hunting.arguments import differing_arguments
from tensortap.hunting.call_again import CallAgain, call_again, side_of
from tensortap.hunting.suspects import CallPlace, SuspectPair
from tensortap.literals import HuntVerdict, WhoIsWrong
from tensortap.replaying.blame.judged import LINE
from tensortap.replaying.distance import distances
from tensortap.replaying.right.report import Suspect

# A suspect whose graft removes less of the error is not the cause, or not alone.
CAUSE = 0.9
_OF_WRONG: dict[WhoIsWrong, HuntVerdict] = {"a": "a is wrong", "b": "b is wrong", "both": "both are wrong"}


@dataclass(frozen=True)
class HuntedSuspect:
    """A suspect, and both of its calls beside the exact results of their own arguments.

    Attributes
    ----------
    suspect
        Both sides, called again.
    verdict
        `other arguments`: both compute what they are asked for, and are asked for different things; `only in a`, `only
        in b`: the other side has no such call; `rounding`: what is between them is no more than rounding.
    reason
        What the diff says of it.
    places
        Where the call is in A and in B; None where that side has no such call.
    arguments
        In what the arguments differ.
    apart
        How far the recorded results are apart, in rounding bounds; None where that is not known.
    path
        Which result the verdict is of.
    script
        The program that shows it; empty where there is none, and then `no_script` says why.
    removed
        The share of the output's error that goes when B is given what A computed there; None where that was not tried,
        or `not_confirmed` says why it is not known.
    """

    suspect: Suspect
    verdict: HuntVerdict
    reason: str
    places: tuple[CallPlace | None, CallPlace | None]
    arguments: tuple[str, ...] = ()
    apart: float | None = None
    path: str = ""
    script: str = ""
    no_script: str = ""
    removed: float | None = None
    not_confirmed: str = ""

    @property
    def key(self) -> str:
        """Of the tensor, as the diff has it."""
        return self.suspect.key

    @property
    def is_found(self) -> bool:
        """Whether it explains a difference that rounding does not."""
        return self.verdict not in ("rounding", "not known")

    @property
    def is_cause(self) -> bool:
        """Whether nearly all of the output's error goes when B is given what A computed there."""
        return self.removed is not None and self.removed >= CAUSE

    @property
    def sentence(self) -> str:
        """`B is wrong: 3,100 rounding bounds from the exact result of its own inputs; A is 0.6`."""
        if self.verdict == "other arguments":
            return f"both compute what they are asked for, and their arguments differ: {'; '.join(self.arguments)}"
        if self.verdict in ("only in a", "only in b"):
            has, lacks = ("A", "B") if self.verdict == "only in a" else ("B", "A")
            return f"{has} makes a call that {lacks} does not"
        return self.suspect.sentence


@dataclass(frozen=True)
class JudgedPair:
    """The verdict on a pair, and the calls that a program is written of."""

    found: HuntedSuspect
    a: CallAgain | None
    b: CallAgain | None


def judged(
    pair: SuspectPair,
    run_a: str | os.PathLike[str],
    run_b: str | os.PathLike[str],
    device: torch.device,
    failed: Mapping[str, str] = MappingProxyType({}),
) -> JudgedPair:
    """Both calls of a pair made again, in runs that kept their bytes; `failed` says by side why a run has none."""
    side_a = side_of(run_a, pair.a, device, failed.get("a", ""))
    side_b = side_of(run_b, pair.b, device, failed.get("b", ""))
    a, b = call_again(run_a, pair.a, side_a.call, device), call_again(run_b, pair.b, side_b.call, device)
    if a is not None and b is not None and pair.a is not None and pair.b is not None:
        a, b = a.shaped_as(b, pair.b), b.shaped_as(a, pair.a)
    suspect = Suspect(pair.key, side_a, side_b)
    apart, path = _apart(a, b)
    for side in (side_a, side_b):
        if side.call is not None and side.is_wrong:
            path = side.call.error.path
    if not path:  # nothing of both is known: that of the tensor itself
        found_in = [(again, place) for again, place in ((a, pair.a), (b, pair.b)) if again is not None]
        path = next((again.kept.record(place.key).path for again, place in found_in if place is not None), "")
    arguments = [] if a is None or b is None else differing_arguments(a.double.call, b.double.call)
    verdict = _verdict(pair, suspect, apart, bool(arguments))
    found = HuntedSuspect(suspect, verdict, pair.reason, (pair.a, pair.b), tuple(arguments), apart, path)
    return JudgedPair(found, a, b)


def _verdict(pair: SuspectPair, suspect: Suspect, apart: float | None, arguments_differ: bool) -> HuntVerdict:
    if (wrong := _OF_WRONG.get(suspect.wrong)) is not None:
        return wrong
    if pair.a is None or pair.b is None:
        return "only in b" if pair.a is None else "only in a"
    if suspect.wrong == "unknown":
        return "not known"
    return "other arguments" if arguments_differ and (apart is None or apart > LINE) else "rounding"


def _apart(a: CallAgain | None, b: CallAgain | None) -> tuple[float | None, str]:
    """How far the results are apart in what rounding may do to both, and which result is farthest."""
    found: list[tuple[float, str]] = []
    for path in a.paths if a is not None and b is not None else []:
        assert a is not None
        assert b is not None
        at_a, at_b = a.compared(path), b.compared(path)
        bound = None if at_a is None or at_b is None else at_a.bound_beside(at_b)
        if at_a is None or at_b is None or bound is None or not bound.numel():
            continue
        found.append((float((distances(at_a.values, at_b.values) / bound).max()), path))
    return max(found, default=(None, ""), key=lambda one: one[0])
