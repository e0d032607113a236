"""`python -m tensortap` is the command `ttap` of this installation."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path


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


def main() -> None:
    """Becomes the command."""
    command = find_command()
    if command is None:
        sys.exit("tensortap: the command ttap is not installed beside this package: install it again")
    # So that `ttap run` records with this package, wherever the command lies.
    os.environ.setdefault("TTAP_LAUNCH_DIR", str(Path(__file__).parent / "launch"))
    os.execv(command, ["ttap", *sys.argv[1:]])


if __name__ == "__main__":
    main()
