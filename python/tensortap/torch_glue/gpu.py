"""Whether there is a GPU."""

from __future__ import annotations

import torch

from tensortap import _core


def has_gpu() -> bool:
    """As PyTorch says it. CUDA may start threads when it is asked; signals stay the program's."""
    return bool(_core.with_signals_blocked(torch.cuda.is_available))
