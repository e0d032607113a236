"""A program that is run again and again, until it gives other bits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tensortap.programs.recorded_program import ProgramNotRecorded, RecordedProgram, run_recorded
from tensortap.repeating.comparing import same_bits
from tensortap.repeating.report import SameBits

# Every tensor is read at every call: what is said of "the same bits" must not rest on what a value was before.
_OPTIONS = ("--ops", "--level", "fingerprint", "--stacks", "--unseen-writes")
# What --why fixes: in words, and the variables that do it.
_FIXED = {
    "one thread (OMP_NUM_THREADS=1)": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    "the hash seed of Python (PYTHONHASHSEED=0)": {"PYTHONHASHSEED": "0"},
}
# Bytes that the C library puts into memory that it hands out: unlike zeros they show that nobody wrote to it.
_MEMORY = "MALLOC_PERTURB_"
_FILLS = (85, 170, 51, 204)

Says = Callable[[str], None]


@dataclass
class Repeats:
    """Runs a program, and compares each run with the first.

    Attributes
    ----------
    command
        The program and its arguments.
    folder
        Where the recordings go: `1`, `2`, ….
    options
        Of `ttap run`, besides those that a comparison needs.
    ttap
        The command.
    says
        Told what is done.
    """

    command: Sequence[str]
    folder: Path
    options: Sequence[str] = ()
    ttap: str | os.PathLike[str] | None = None
    says: Says = lambda what: None
    _runs: int = field(default=0, init=False)

    def until_other_bits(self, times: int, environment: Mapping[str, str] | None = None) -> SameBits:
        """Run it `times` times at most, until one run differs from the first."""
        first = self._run(times, environment)
        while True:
            other = self._run(times, environment)
            self.says("comparing")
            found = same_bits(first.path, other.path)
            found.notes += _notes(first, other)
            if times > 2:
                found.notes.append(
                    f"{self._runs} runs" if found.ok else f"the second run is run {self._runs} of {times}"
                )
            if not found.ok or self._runs >= times:
                return found
            shutil.rmtree(other.path)  # it holds what the first holds

    def why(self, found: SameBits) -> None:
        """Run it twice more for each thing that can be fixed, and note whether that gives the same bits."""
        for what, variables in _FIXED.items():
            if all(os.environ.get(name) == value for name, value in variables.items()):
                continue
            folder = self.folder / next(iter(variables))
            again = Repeats(self.command, folder, self.options, self.ttap, self.says)
            self.says(f"with {what}")
            try:
                verdict = _beside(found, again.until_other_bits(2, variables))
            except ProgramNotRecorded as error:  # what is known already is not lost with it
                verdict = f"not known, {error.what}"
            found.notes.append(f"with {what}: {verdict}")
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, times: int, environment: Mapping[str, str] | None) -> RecordedProgram:
        self._runs += 1
        self.says(f"run {self._runs}" + (f" of {times}" if times == 2 else f" of {times} at most"))
        variables = dict(environment or {})
        if _MEMORY not in os.environ:
            variables[_MEMORY] = str(_FILLS[self._runs % len(_FILLS)])
        path = self.folder / str(self._runs)
        return run_recorded(self.command, path, [*_OPTIONS, *self.options], ttap=self.ttap, environment=variables)


def _beside(found: SameBits, fixed: SameBits) -> str:
    """What the runs with something fixed say of those without."""
    if fixed.ok:
        return "the same bits in two runs"
    one, other = found.first, fixed.first
    if one is not None and other is not None and (one.place, one.kind) == (other.place, other.kind):
        return "differs as before"
    return f"begins to differ elsewhere: {other.place}" if other is not None else "differs, and where is not known"


def _notes(first: RecordedProgram, other: RecordedProgram) -> list[str]:
    notes = []
    if first.status != other.status:
        notes.append(f"the first run ended with {first.ending}, the second with {other.ending}")
    elif first.status != 0:
        notes.append(f"both runs ended with {first.ending}")
    return notes
