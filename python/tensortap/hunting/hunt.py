"""`tap.hunt`: the operator to blame for the difference of two programs, with both run twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tensortap import reading
from tensortap.comparing import diff
from tensortap.hunting.confirming import NotConfirmed, Output, output_of, share_of
from tensortap.hunting.result import Hunt
from tensortap.hunting.script import NoScript, write_script
from tensortap.hunting.second_run import options_that_keep
from tensortap.hunting.suspects import Lead, leads_of
from tensortap.hunting.verdicts import HuntedSuspect, JudgedLead, judged
from tensortap.programs.recorded_program import ProgramNotRecorded, run_recorded
from tensortap.reading import Run
from tensortap.replaying.calling import device_of

Progress = Callable[[str], None]
_FIRST_RUN = ["--ops", "--level", "sketch", "--stacks"]


def hunt(
    a: Sequence[str],
    b: Sequence[str] | None = None,
    out: str | os.PathLike[str] = "hunt",
    *,
    options: Sequence[str] = (),
    suspects: int = 3,
    confirm: bool = False,
    device: str | torch.device = "cpu",
    ttap: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Hunt:
    """Find the operator that makes one program compute something else than another.

    Both are run with fingerprints of every operator, and compared. Then both are run again, and keep the bytes of the
    suspects alone, which are replayed in float64: that tells which side is wrong. For each suspect a small program is
    written that shows the error when it is run.

        print(tap.hunt(["python", "good.py"], ["python", "bad.py"], "hunt"))

    Parameters
    ----------
    a, b
        The programs and their arguments; `a` is the reference. Without `b`, `a` is run against itself.
    out
        A folder for the recordings and the programs. It is made, and nothing lies in it yet.
    options
        Of `ttap run`, for every run: `["--steps", "0-2"]`.
    suspects
        How many are followed up, in the order of the run.
    confirm
        Whether B also runs with a suspect's result taken from A, which says how much of the error of its output that
        removes; suspect after suspect, until one is the cause.
    device
        Where the operators are called again.
    ttap
        The command; by default the one that belongs to this package.
    progress
        Called with what is being done.

    Raises
    ------
    ValueError
        When something lies in `out`.
    ProgramNotRecorded
        When a program was not started, or recorded nothing.
    """
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; name another folder")
    programs = {"a": list(a), "b": list(b if b is not None else a)}
    hunting = _Hunting(programs, folder, list(options), device_of(device), ttap, progress or (lambda text: None))
    found = hunting.compared()
    if not found.same:
        leads = leads_of(found.diff, *hunting.opened(), suspects)
        hunting.follow(found, leads, confirm)
    return found


@dataclass
class _Hunting:
    """The programs, and their runs: the first by `a` and `b`, then those that keep the suspects."""

    programs: dict[str, list[str]]
    folder: Path
    options: list[str]
    device: torch.device
    ttap: str | os.PathLike[str] | None
    tell: Progress

    def compared(self) -> Hunt:
        """Both programs with fingerprints."""
        runs = {}
        for side, program in self.programs.items():
            self.tell(f"running {side.upper()} with fingerprints")
            runs[side] = run_recorded(program, self.folder / side, [*_FIRST_RUN, *self.options], ttap=self.ttap)
        self.tell("comparing")
        return Hunt(self.folder, runs["a"], runs["b"], diff(runs["a"].path, runs["b"].path))

    def opened(self) -> tuple[Run, Run]:
        """The first runs."""
        return reading.open(self.folder / "a"), reading.open(self.folder / "b")

    def follow(self, found: Hunt, leads: list[Lead], confirm: bool) -> None:
        """Both programs once more for these leads, and what comes of each."""
        output = output_of(found.diff, *self.opened(), leads[0]) if confirm and leads else None
        for side in self.programs:
            self._run_again(side, leads, output)
        for number, lead in enumerate(leads, 1):
            self.tell(f"replaying suspect {number} of {len(leads)}")
            one = judged(lead, self._kept("a"), self._kept("b"), self.device)
            found.suspects.append(_with_script(one, self.folder / f"suspect_{number}.py"))
        for number, lead in enumerate(leads):
            if confirm and found.suspects[number].verdict != "rounding":
                found.suspects[number] = self._confirmed(found.suspects[number], lead, output, number + 1)
                if found.suspects[number].is_cause:
                    break

    def _kept(self, side: str) -> Path:
        return self.folder / f"{side}.suspects"

    def _run_again(self, side: str, leads: list[Lead], output: Output | None) -> None:
        places = [place for lead in leads if (place := getattr(lead, side)) is not None]
        if not places:
            return
        self.tell(f"running {side.upper()} again for {len(places)} suspects")
        if output is not None:
            places.append(getattr(output, side))
        words = options_that_keep(places, self.options)
        try:
            run_recorded(self.programs[side], self._kept(side), words, ttap=self.ttap)
        except ProgramNotRecorded as error:  # its suspects are not known, and what is known is kept
            self.tell(f"{side.upper()} recorded nothing the second time: {error.what}")

    def _confirmed(self, one: HuntedSuspect, lead: Lead, output: Output | None, number: int) -> HuntedSuspect:
        self.tell(f"running B with what A computed in suspect {number}")
        renamed = lead.b is not None and lead.a is not None and lead.a.key != lead.b.key
        names_of = self.folder / "b" if renamed else None
        kept = {side: self._kept(side) for side in self.programs}
        grafted = self.folder / f"b.grafted_{number}"
        try:
            removed = share_of(lead, output, kept, self.programs["b"], self.options, names_of, grafted, self.ttap)
        except NotConfirmed as reason:
            return replace(one, not_confirmed=str(reason))
        return replace(one, removed=removed)


def _with_script(one: JudgedLead, path: Path) -> HuntedSuspect:
    try:
        write_script(one, path)
    except NoScript as reason:
        return replace(one.found, no_script=str(reason))
    return replace(one.found, script=str(path))
