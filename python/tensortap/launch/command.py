"""`ttap blame` and `ttap replay` run this with an interpreter that has PyTorch."""

import os
import sys

sys.path.pop(0)  # this folder, whose sitecustomize.py is not for us


def _package_path():
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(here, "package-path")) as file:  # beside an installed command
            return file.read().strip()
    except OSError:
        return os.path.dirname(os.path.dirname(here))


def _fail(what, hint):
    print(f"ttap {sys.argv[1]}: error: {what}\n  what to do: {hint}", file=sys.stderr)
    sys.exit(2)


def main():
    try:
        try:
            import tensortap  # may not be there
        except ModuleNotFoundError:
            sys.path.append(_package_path())  # as `ttap run` does
            import tensortap  # noqa: F401  is there now
        from tensortap.replaying.blame.command import main as run  # imports PyTorch, which may not be there
    except ImportError as error:
        _fail(f"{sys.executable} cannot import it: {error}", "name an interpreter with PyTorch: --python PATH")
    sys.exit(run(sys.argv[1:]))


main()
