"""`python -m tensortap` is the command `ttap` of this installation."""

from __future__ import annotations

import os
import sys

from tensortap.programs.installed_command import LAUNCH_FOLDER, find_command


def main() -> None:
    """Becomes the command."""
    command = find_command()
    if command is None:
        sys.exit("tensortap: the command ttap is not installed beside this package: install it again")
    os.environ.setdefault("TTAP_LAUNCH_DIR", str(LAUNCH_FOLDER))
    os.execv(command, ["ttap", *sys.argv[1:]])


if __name__ == "__main__":
    main()
