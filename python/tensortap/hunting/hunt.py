"""`tap.hunt`: the operator to blame for the difference of two programs, with both run twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tensortap import reading
from tensortap.comparing import diff
from tensortap.hunting.result import Hunt
from tensortap.hunting.script import NoScript, write_script
from tensortap.hunting.second_run import options_that_keep
from tensortap.hunting.suspects import leads_of
from tensortap.hunting.verdicts import HuntedSuspect, JudgedLead, judged
from tensortap.programs.recorded_program import run_recorded

Progress = Callable[[str], None]
_FIRST_RUN = ["--ops", "--level", "sketch", "--stacks"]


def hunt(
    a: Sequence[str],
    b: Sequence[str] | None = None,
    out: str | os.PathLike[str] = "hunt",
    *,
    options: Sequence[str] = (),
    suspects: int = 3,
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
    folder, tell = Path(out), progress or (lambda text: None)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name another folder")
    programs = {"a": list(a), "b": list(b if b is not None else a)}
    runs = {}
    for side, program in programs.items():
        tell(f"running {side.upper()} with fingerprints")
        runs[side] = run_recorded(program, folder / side, [*_FIRST_RUN, *options], ttap=ttap)
    tell("comparing")
    compared = diff(runs["a"].path, runs["b"].path)
    found = Hunt(folder, runs["a"], runs["b"], compared)
    if compared.same:
        return found
    leads = leads_of(compared, reading.open(runs["a"].path), reading.open(runs["b"].path), suspects)
    if not leads:
        return found
    kept = {}
    for side, program in programs.items():
        kept[side] = folder / f"{side}.suspects"
        places = [place for lead in leads if (place := getattr(lead, side)) is not None]
        if places:
            tell(f"running {side.upper()} again for {len(places)} suspects")
            run_recorded(program, kept[side], options_that_keep(places), ttap=ttap)
    for number, lead in enumerate(leads, 1):
        tell(f"replaying suspect {number} of {len(leads)}")
        one = judged(lead, kept["a"], kept["b"], torch.device(device))
        found.suspects.append(_with_script(one, folder / f"suspect_{number}.py"))
    return found


def _with_script(one: JudgedLead, path: Path) -> HuntedSuspect:
    try:
        write_script(one, path)
    except NoScript as reason:
        return replace(one.found, no_script=str(reason))
    return replace(one.found, script=str(path))
