"""Whether a suspect is the cause: the second program runs once more with what the first one computed there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tensortap import reading
from tensortap.comparing import Diff
from tensortap.grafting.removed import removed_error
from tensortap.hunting.second_run import options_that_keep
from tensortap.hunting.suspects import CallPlace, Lead, is_place_of, place_in
from tensortap.programs.recorded_program import ProgramNotRecorded, run_recorded
from tensortap.reading import FormatError, Run
from tensortap.replaying.right.find_tensor import find_tensor


@dataclass(frozen=True)
class Output:
    """The last tensor that both programs compute in a pass."""

    a: CallPlace
    b: CallPlace


def output_of(diff: Diff, a: Run, b: Run, lead: Lead) -> Output | None:
    """That of the rank and pass of a suspect; None where they have none in common."""
    if lead.a is None:
        return None
    for compared in diff.to_json()["passes"]:
        if not is_place_of(compared["a"], lead.a.rank, lead.a.pass_number):
            continue
        for tensor in reversed(compared["tensors"]):
            if tensor["verdict"] in ("extra", "missing") or tensor["measures"] is None or tensor["role"] != "out":
                continue
            of_a = place_in(a, compared["a"], tensor["key"])
            of_b = place_in(b, compared["b"], tensor.get("key_b", tensor["key"]))
            if of_a is None or of_b is None or of_a.pass_number != lead.a.pass_number:
                break
            return Output(of_a, of_b)
    return None


class NotConfirmed(Exception):
    """Nothing is known of a suspect's share; the message says why."""


def share_of(
    lead: Lead,
    output: Output | None,
    runs: dict[str, Path],
    program: Sequence[str],
    options: Sequence[str],
    names_of: Path | None,
    out: Path,
    ttap: str | os.PathLike[str] | None,
) -> float:
    """The share of the output's error that goes when B is given the result of A. Raises NotConfirmed.

    Parameters
    ----------
    lead
        The suspect.
    output
        Whose error it is; `runs` has its bytes.
    runs
        The second runs of `a` and `b`.
    program, options
        B, which is run once more, into `out`, and the options of every run.
    names_of
        The first run of B, where it has other names than A.
    """
    if lead.a is None:
        raise NotConfirmed("A has no such call")
    if output is None:
        raise NotConfirmed("the programs have no output in common")
    words = ["--graft", f"{runs['a']}:{lead.a.key}"]
    if names_of is not None:
        words += ["--graft-names-of", str(names_of)]
    try:
        run_recorded(program, out, [*words, *options_that_keep([output.b], options)], ttap=ttap)
    except ProgramNotRecorded as error:
        raise NotConfirmed(error.what) from error
    right, wrong = _tensor(runs["a"], output.a), _tensor(runs["b"], output.b)
    grafted = _tensor(out, output.b)
    notes = [note for rank in reading.open(out).ranks for note in rank.coverage["source"]["notes"]]
    said = [note for note in notes if note.startswith("graft of ")]
    if not any(": put in " in note for note in said):
        raise NotConfirmed("; ".join(note.rpartition(": ")[2] for note in said) or "it was not put in")
    try:
        return removed_error(right, wrong, grafted)
    except ValueError as error:
        raise NotConfirmed(str(error)) from error


def _tensor(run: Path, place: CallPlace) -> torch.Tensor:
    try:
        _, kept, _ = find_tensor(reading.open(run), place.rank, place.pass_number, place.key)
    except (LookupError, OSError, FormatError) as error:
        raise NotConfirmed(str(error.args[0] if error.args else error)) from error
    value = kept.get(place.key)
    if not isinstance(value, torch.Tensor):
        raise NotConfirmed(f"{run} has no bytes of {place.key}")
    return value
