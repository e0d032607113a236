"""Code of the user's that is given by its name: a function, a module, a file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def load_function(spec: str) -> Callable:
    """The function that `pkg.module:func` or `/path/file.py:func` names."""
    left, colon, name = spec.rpartition(":")
    if not colon or not left or not name:
        raise ValueError(f"{spec!r} does not name a function: write 'pkg.module:func' or '/path/file.py:func'")
    try:
        found = load_module(left)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{spec!r}: {error}") from error
    except ImportError as error:
        raise ImportError(f"{spec!r}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise AttributeError(f"{spec!r}: {left} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{spec!r}: {name} is a {type(found).__name__}, not a function")
    return found


def load_module(name: str) -> ModuleType:
    """What `pkg.module` or `/path/file.py` names."""
    if not name.endswith(".py"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ImportError(f"cannot import {name}: {error}") from error
    path = Path(name).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"_ttap_file_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for the module of their class
    spec.loader.exec_module(module)
    return module


def look_beside(name: str) -> None:
    """Lets a file import its neighbours, and a module those of the current folder, as a program that runs there can."""
    file = Path(name).expanduser()
    sys.path.insert(0, str(file.absolute().parent) if file.suffix == ".py" else os.getcwd())
