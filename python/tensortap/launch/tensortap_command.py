"""`ttap blame`, `ttap replay` and `ttap diff --replay` run this with an interpreter that has PyTorch."""

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


def _module(words):
    if words[0] == "diff":
        return "tensortap.replaying.right.command"
    if words[1:2] == ["--sensitivity"]:
        return "tensortap.replaying.sensitivity.command"
    return "tensortap.replaying.blame.command"


def main():
    try:
        import_package()
        command = importlib.import_module(_module(sys.argv[1:]))  # imports PyTorch, which may not be there
    except ImportError as error:
        _fail(f"{sys.executable} cannot import it: {error}", "name an interpreter with PyTorch: --python PATH")
    sys.exit(command.main(sys.argv[1:]))


main()
