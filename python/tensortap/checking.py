"""tap.check(): the first NaN or Inf of a run, and every later one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensortap import _core
from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.literals import DType, Origin
from tensortap.session.filters import one_pattern


@dataclass(frozen=True)
class NonfiniteTensor:
    """A tensor that holds NaN or Inf.

    Attributes
    ----------
    origin
        How it came about, where the recording says what calls used: `made` by a call from finite arguments,
        `nan_from_inf`, `came_in` from outside, `uninitialised` memory, `on_purpose` (a mask), `from_rank` (another rank
        gave it to a collective), or `unknown`.
    inherited
        It was passed on to this tensor.
    fault
        False for what is meant to be so, and for Inf that went no further.
    from_rank
        The rank where it arose, if a collective brought it from there.
    """

    key: str
    rank: int
    pass_number: int
    dtype: DType
    shape: tuple[int, ...]
    count: int
    nan: int
    pos_inf: int
    neg_inf: int
    origin: Origin | None = None
    inherited: bool = False
    fault: bool = True
    from_rank: int | None = None


@dataclass(frozen=True)
class Spread:
    """A collective that brought NaN or Inf from one rank to others: the `number`-th of its group in the pass."""

    op: str
    group: str
    number: int
    from_rank: int
    to_ranks: tuple[int, ...]


@dataclass(frozen=True)
class Contribution:
    """What one rank gave to a collective.

    Attributes
    ----------
    group_rank
        Its place in the process group.
    rank
        The rank of the run; None where its call was not recorded.
    known, finite
        Whether the values were recorded, and are known to be finite.
    missing
        Why they are not known.
    """

    group_rank: int
    rank: int | None
    known: bool
    finite: bool
    missing: str | None


@dataclass(frozen=True)
class Collective:
    """A collective whose result holds NaN or Inf, with what each rank gave to it.

    `problem` says why the calls of the ranks could not be paired; then there are no contributions.
    """

    op: str
    group: str
    number: int
    problem: str | None
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class FirstNonfinite(NonfiniteTensor):
    """The one to look at first: the first fault, else the first that was found.

    Attributes
    ----------
    place
        The index of its first NaN or Inf; None where the bytes were not kept.
    call, module, stack
        The call that made it, the module that ran in, and the program's own lines, innermost first.
    inputs_finite
        Whether everything that the call was given was finite; None where that was not recorded.
    before
        The last tensor before it that is known to be clean.
    hints
        What usually causes it.
    spread
        The collectives that brought it to other ranks, in the order in which it went.
    collectives
        Where it came out of a collective: which one, and what each rank gave to it.
    """

    place: tuple[int, ...] | None = None
    call: str = ""
    module: str = ""
    stack: tuple[str, ...] = ()
    inputs_finite: bool | None = None
    before: str | None = None
    hints: tuple[str, ...] = ()
    spread: tuple[Spread, ...] = ()
    collectives: tuple[Collective, ...] = ()


@dataclass(frozen=True)
class Unjudged:
    """A tensor of which nothing can be said, or whose bytes are damaged."""

    key: str
    rank: int
    pass_number: int
    reason: str


class Check:
    """What `tap.check` found. Printing it prints what `ttap check` prints.

    Attributes
    ----------
    ok : bool
        No NaN, no Inf and no damage, everything could be judged, and nothing was lost.
    clean, complete, conclusive : bool
        The parts of that. Not conclusive: nothing was found, but passes or tensors were lost while recording (a quota,
        a full disk or staging memory).
    judged : int
        How many tensors were looked at.
    first : FirstNonfinite or None
    found : list of NonfiniteTensor
        All that hold NaN or Inf, in execution order.
    unjudged, damaged : list of Unjudged
        Tensors without statistics; with `verify`, those whose bytes do not match their hash.
    unreadable : list of str
        Passes that could not be opened.
    """

    def __init__(self, core: _core.Check) -> None:
        self._core = core
        self._json: dict[str, Any] = json.loads(core.json())
        self.clean: bool = core.clean
        self.complete: bool = core.complete
        self.conclusive: bool = core.conclusive
        self.ok: bool = core.clean and core.complete and core.conclusive
        self.judged: int = self._json["judged"]
        self.first: FirstNonfinite | None = _first(self._json["first"])
        self.found: list[NonfiniteTensor] = [NonfiniteTensor(**_tensor(one)) for one in self._json["found"]]
        self.unjudged: list[Unjudged] = [_unjudged(one) for one in self._json["unjudged"]]
        self.damaged: list[Unjudged] = [_unjudged(one) for one in self._json["damaged"]]
        self.unreadable: list[str] = [f"{one['path']}: {one['message']}" for one in self._json["unreadable"]]

    def __repr__(self) -> str:
        none = "no NaN, no Inf" if self.conclusive else "inconclusive"
        what = f"first in {self.first.key}" if self.first is not None else none
        return f"<Check {what}, {len(self.found)} of {self.judged} tensors>"

    def __str__(self) -> str:
        return self._core.text()

    def _repr_html_(self) -> str:
        rows = [
            (one.rank, one.pass_number, one.key, one.dtype, list(one.shape), one.nan, one.pos_inf + one.neg_inf)
            for one in self.found[:ROWS_SHOWN]
        ]
        return html_table(
            repr(self)[1:-1], ("rank", "pass", "key", "dtype", "shape", "NaN", "Inf"), rows, len(self.found)
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap check --json` prints it."""
        return self._json


def check(
    run: str | os.PathLike[str],
    *,
    passes: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    filter: str | Sequence[str] | Callable[[str], object] | None = None,
    verify: bool = False,
    all: bool = False,
) -> Check:
    """Finds the first NaN or Inf of a run and where it came from, as `ttap check` does.

    Parameters
    ----------
    run
        A run, a rank, a pass, a trace, or where one lies.
    passes, ranks
        Only these: `"0,2-5"`, a number, or numbers.
    filter
        Only tensors in whose key this pattern, or one of them, is found; or a function of the key.
    verify
        Also read every byte that was kept and compare its hash.
    all
        The printed text lists every tensor, also what is meant to hold Inf and what is near overflow.
    """
    wanted = filter if callable(filter) else None
    pattern = "" if callable(filter) else one_pattern(filter)
    return Check(_core.check(os.fspath(run), _numbers(passes), _numbers(ranks), pattern, wanted, verify, all))


def _numbers(given: str | int | Iterable[int] | None) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    return ",".join(str(number) for number in ([given] if isinstance(given, int) else given))


def _tensor(one: dict[str, Any]) -> dict[str, Any]:
    known = {name: one[name] for name in ("key", "rank", "dtype", "count", "nan", "pos_inf", "neg_inf")}
    return {**known, "pass_number": one["pass"], "shape": tuple(one["shape"]), **(one.get("because") or {})}


def _collective(one: dict[str, Any]) -> Collective:
    return Collective(**{**one, "contributions": tuple(Contribution(**each) for each in one["contributions"])})


def _unjudged(one: dict[str, Any]) -> Unjudged:
    return Unjudged(one["key"], one["rank"], one["pass"], one["error"]["message"])


def _first(one: dict[str, Any] | None) -> FirstNonfinite | None:
    if one is None:
        return None
    story, event = one["origin"], one["event"]
    known = _tensor(one) | {
        "place": None if one["place"] is None else tuple(one["place"]["index"]),
        "inputs_finite": all(each["finite"] for each in one["inputs"]) if one["inputs"] else None,
        "before": one["before"],
    }
    if story is not None:
        made, arguments = story["call"], story["arguments"]
        known |= {"origin": story["kind"], "fault": story["fault"], "hints": tuple(story["hints"])}
        known["spread"] = tuple(Spread(**{**each, "to_ranks": tuple(each["to_ranks"])}) for each in story["spread"])
        known["collectives"] = tuple(_collective(each) for each in story["collectives"])
        known["inputs_finite"] = all(each["finite"] for each in arguments) if arguments else None
        if made is not None:
            known |= {"call": made["text"] or made["name"], "module": made["module"], "stack": tuple(made["stack"])}
    elif event is not None:
        stack = event["stack"].splitlines()
        known |= {"call": event["name"], "module": event["parents"].rpartition(" > ")[2], "stack": tuple(stack[::-1])}
    return FirstNonfinite(**known)
