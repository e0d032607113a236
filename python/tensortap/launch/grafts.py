"""What `ttap run --graft` puts into a program that does not know of it."""

from __future__ import annotations

import json
import os
import sys
from multiprocessing import util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensortap.grafting.grafting import Graft

_graft: Graft | None = None
_said = False


def begin_grafts() -> None:
    """Begins what TTAP_GRAFT asks for. Called when PyTorch has been imported, before anything is recorded."""
    global _graft
    text = os.environ.get("TTAP_GRAFT")
    if not text or _graft is not None:
        return
    from tensortap.grafting.grafting import Graft  # imports all of PyTorch
    from tensortap.grafting.plan import Plan, opened  # imports all of PyTorch

    asked = json.loads(text)
    try:
        names_of = opened(asked["names_of"]) if "names_of" in asked else None
        plans = [Plan(opened(run), keys, names_of, strict=False) for run, keys in asked["keys"].items()]
        _graft = Graft(None, plans)
    except (LookupError, OSError, RuntimeError, ValueError) as error:
        print(f"ttap run: process {os.getpid()}: nothing is put in by --graft: {error}", file=sys.stderr)
        return
    for key in _graft.keys:
        if key.unmet:
            print(f"ttap run: process {os.getpid()}: graft of {key.run}:{key}", file=sys.stderr)
    util.Finalize(None, _say, exitpriority=1)  # after recordings have ended, which is where it is said if there are any


def end_grafts() -> list[str]:
    """Ends them: what was put in and what not, a line for each key."""
    global _said
    if _graft is None:
        return []
    _graft.close()
    _said = True
    return [f"graft of {key.run}:{key}" for key in _graft.keys]


def _say() -> None:
    if not _said:
        for line in end_grafts():
            print(f"ttap run: process {os.getpid()}: {line}", file=sys.stderr)
