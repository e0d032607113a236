"""Python imports this at its start when `ttap run` has put its folder on PYTHONPATH.

It waits until the program imports torch.nn, and then starts recording; operators, when all of PyTorch is imported. A
program that never does is left alone. The sitecustomize module that this one hides is imported in its place.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

from tensortap_path import package_path

_HERE = os.path.dirname(os.path.abspath(__file__))
# Modules, and the function of tensortap.launch that is called when one has been imported.
_AWAITED = {"torch.nn.modules.module": "await_first_call"}
if os.environ.get("TTAP_OPS") == "1" or os.environ.get("TTAP_GRAFT"):
    _AWAITED["torch"] = "begin_with_torch"


def _start(function):
    try:
        try:
            from tensortap import launch  # not before PyTorch is imported
        except ImportError:
            # The program's interpreter need not have the package installed.
            sys.path.append(package_path())
            from tensortap import launch  # is there now
        getattr(launch, function)()
    except Exception as error:
        _AWAITED.clear()
        print(f"ttap run: process {os.getpid()} ({sys.executable}) is not recorded: {error}", file=sys.stderr)
        if isinstance(error, ImportError):
            print(
                f"ttap run: install TensorTap for that interpreter: {sys.executable} -m pip install tensortap",
                file=sys.stderr,
            )


class _StartAfter(importlib.abc.Loader):
    """Loads a module as its own loader does, and then starts recording."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):  # who asks for the spec may want what its loader has
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        if module.__name__ in _AWAITED:
            _start(_AWAITED.pop(module.__name__))


class _Finder(importlib.abc.MetaPathFinder):
    # Who only asks whether there is PyTorch does not import it.
    def find_spec(self, name, path=None, target=None):
        if name not in _AWAITED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _StartAfter(spec.loader)
        return spec


def _import_hidden():
    """The sitecustomize that would have been imported without us."""
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("TTAP_RUN") == "1" and os.environ.get("TTAP_DIR"):
    sys.meta_path.insert(0, _Finder())
_import_hidden()
