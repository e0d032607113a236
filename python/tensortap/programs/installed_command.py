"""Where the command `ttap` lies that belongs to this package."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# The folder that `ttap run` puts on PYTHONPATH, so that it records with this package wherever the command lies.
LAUNCH_FOLDER = Path(__file__).parent.parent / "launch"


def find_command() -> Path | None:
    """The command that was installed with this package, else the one that is found on the PATH."""
    return next((path for path in _candidates() if path.is_file() and os.access(path, os.X_OK)), None)


def _candidates() -> Iterator[Path]:
    try:
        files = importlib.metadata.files("tensortap") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "ttap":
            yield Path(str(file.locate())).resolve()
    yield Path(sysconfig.get_path("scripts")) / "ttap"
    found = shutil.which("ttap")
    if found is not None:
        yield Path(found)
