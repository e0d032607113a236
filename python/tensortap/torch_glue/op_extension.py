"""The extension `tensortap._ops`, which observes operators.

It is bound to one minor version of PyTorch. An installation holds one for each version that it was built with, in
`observers/torch2.13/`; for another version it is compiled once, from sources that lie beside it (observer_build.py).
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from tensortap.torch_glue import observer_build

_NAME = "tensortap._ops"
_FILE = "_ops" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")
_INSTALLED = Path(__file__).parents[1] / "observers"
_loading = threading.RLock()
os.register_at_fork(after_in_child=_loading._at_fork_reinit)  # type: ignore[attr-defined]


def load() -> ModuleType:
    """The module `tensortap._ops`, compiled first where no installed one fits.

    Raises
    ------
    ImportError
        When PyTorch is not there.
    RuntimeError
        When none fits and it cannot be compiled: the message says what is missing.
    """
    with _loading:  # several threads may want it at once
        return loaded() or _load()


def _load() -> ModuleType:
    try:
        import torch  # may not be there
    except ImportError as error:
        raise ImportError(
            f"operators cannot be observed without PyTorch: {error}. Install it: pip install torch"
        ) from error

    version = torch.__version__
    try:
        path = installed_for(version) or observer_build.built(version, Path(torch.__file__).parent)
    except observer_build.CannotBuild as error:
        fits = " and ".join(installed_versions()) or "no PyTorch"
        raise RuntimeError(
            f"operators of PyTorch {version} cannot be observed: this TensorTap was built for {fits}, and {error}. All "
            "but operators works: tap.record, ttap run, probes"
        ) from error
    try:
        return _import(path)
    except ImportError as error:
        raise RuntimeError(
            f"operators cannot be observed: {path} does not load with PyTorch {version}: {error}. Modules are "
            "recorded without it; build TensorTap again with the Python that runs this program"
        ) from error


def loaded() -> ModuleType | None:
    """The module, where something has loaded it already."""
    return sys.modules.get(_NAME)


def installed_for(version: str) -> Path | None:
    """The installed extension for a version of PyTorch, if there is one for this Python."""
    path = _INSTALLED / f"torch{minor_of(version)}" / _FILE
    return path if path.exists() else None


def installed_versions() -> list[str]:
    """The minor versions of PyTorch that an installed extension fits."""
    return sorted(path.parent.name.removeprefix("torch") for path in _INSTALLED.glob(f"torch*/{_FILE}"))


def minor_of(version: str) -> str:
    """`2.13` of `2.13.0+cpu`: what PyTorch's binary interface depends on."""
    return ".".join(version.split("+")[0].split(".")[:2])


def recording_suppressed() -> contextlib.AbstractContextManager[Any]:
    """Operators of this thread that are not the program's: no trace has them."""
    ops = loaded()
    return ops.Suppressed() if ops is not None else contextlib.nullcontext()


def _import(path: Path) -> ModuleType:
    from tensortap import _core  # noqa: F401  # the library that both use is loaded from beside it

    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module = sys.modules.setdefault(_NAME, module)  # where others find it when it is whole
    sys.modules["tensortap"]._ops = module  # type: ignore[attr-defined]  # as an import would
    return module
