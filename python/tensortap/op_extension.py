"""The extension that observes operators: built for one version of PyTorch, and not there in every build."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType


def load() -> ModuleType:
    """The module `tensortap._ops`.

    Raises
    ------
    ImportError
        When PyTorch is not there.
    RuntimeError
        When this build has none, or it was built for another PyTorch.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"operators cannot be observed without PyTorch: {error}. Install it: pip install torch"
        ) from error

    try:
        from tensortap import _ops
    except ImportError as error:
        raise RuntimeError(
            f"operators cannot be observed: {error}. The extension is built where PyTorch is installed: build "
            "TensorTap again with the Python that runs this program"
        ) from error
    if _release(_ops.built_for) != _release(torch.__version__):
        raise RuntimeError(
            f"operators cannot be observed: TensorTap was built for PyTorch {_ops.built_for}, and this is "
            f"{torch.__version__}. Build TensorTap again with the Python that runs this program"
        )
    return _ops


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Operators of this thread that are not the program's: no trace has them."""
    ops = sys.modules.get("tensortap._ops")
    if ops is not None:
        ops.deafen(1)
    try:
        yield
    finally:
        if ops is not None:
            ops.deafen(-1)


def _release(version: str) -> tuple[str, ...]:
    """Major and minor version: what PyTorch's binary interface depends on."""
    return tuple(version.split("+")[0].split(".")[:2])
