"""tap.export() and tap.recover(): the files of a run in another format, and what a killed process left of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tensortap import _core
from tensortap.reading import Pass, open, runs
from tensortap.session.filters import patterns_of


@dataclass(frozen=True)
class ExportedPass:
    """One pass in another format.

    Attributes
    ----------
    source, path
        The file it was, and the file or folder it became.
    tensors
        How many it holds.
    without_bytes
        How many were left out because no bytes of them were recorded, or because they are `missing`.
    missing
        How many have their bytes in another pass, and were not found there.
    """

    source: Path
    path: Path
    tensors: int
    without_bytes: int
    missing: int


@dataclass(frozen=True)
class RecoveredPass:
    """A pass that a killed process left, finished: `cut_bytes` of its torn tail are gone."""

    source: Path
    path: Path
    tensors: int
    cut_bytes: int


def export(
    run: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    format: Literal["pt", "safetensors", "npy"] = "safetensors",
    *,
    filter: str | Sequence[str] | Callable[[str], object] | None = None,
) -> list[ExportedPass]:
    """Writes the passes of a run in another format, as `ttap export` does.

    Parameters
    ----------
    run
        A run, a rank, a pass, or where one lies.
    directory
        Where to; made if missing. Each rank gets a directory of its own in it.
    format
        `pt`, `safetensors` or `npy`.
    filter
        Only tensors in whose key this pattern, or one of them, is found; or a function of the key.
    """
    wanted = None if filter is None else _selector(filter)
    done = []
    for rank in open(run).ranks:
        folder = Path(directory) / _core.exported_rank_name(os.fspath(rank.path), rank.number, rank.pid)
        for each in rank.passes.values():
            path, *counts = each._core.export_to(format, os.fspath(folder), wanted)
            done.append(ExportedPass(each.path, Path(path), *counts))
    return done


def recover(run: str | os.PathLike[str], *, force: bool = False) -> list[RecoveredPass]:
    """Finishes what a killed process left of a run, as `ttap recover` does: whatever was written before is readable.

    Of a directory with several runs all are looked at. Passes that a live process still writes are left alone. On a
    file system without locks that is not known: it is an error there, unless `force` says that no process writes any
    more. An error is raised when all others are done.
    """
    done = []
    failed: Exception | None = None
    found = runs(run) if os.path.isdir(run) else []
    ranks = [rank for each in found or [open(run)] for rank in each.ranks]
    for path in [path for rank in ranks for path in rank.passes.paths if path.suffix == ".incomplete"]:
        try:
            if Pass(path).info["being_written"]:
                continue
            made, *counts = _core.recover_pass(os.fspath(path), force)
        except (OSError, ValueError) as error:
            failed = failed or error
        else:
            done.append(RecoveredPass(path, Path(made), *counts))
    if failed is not None:
        raise failed
    return done


def _selector(filter: str | Sequence[str] | Callable[[str], object]) -> Callable[[str], bool]:
    if callable(filter):
        chosen = filter
        return lambda key: bool(chosen(key))
    patterns = patterns_of(filter)
    return lambda key: any(pattern.search(key) for pattern in patterns)
