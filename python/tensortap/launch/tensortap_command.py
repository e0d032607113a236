"""The commands that Python does: `ttap` runs this with an interpreter that has PyTorch."""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, _HERE)  # where it is not already, as with python -P

from tensortap_path import import_package  # noqa: E402

# The sitecustomize.py in here is not for us.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]


def _fail(what, hint):
    print(f"ttap {sys.argv[1]}: error: {what}\n  what to do: {hint}", file=sys.stderr)
    sys.exit(2)


def main():
    try:
        import_package()
        command = importlib.import_module(f"tensortap.commands.{sys.argv[1]}")  # imports PyTorch
    except ImportError as error:
        _fail(f"{sys.executable} cannot import it: {error}", "name an interpreter with PyTorch: --python PATH")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(command.main(sys.argv[1:]))


main()
