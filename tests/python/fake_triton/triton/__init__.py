"""What TensorTap touches of Triton, for machines that have none: kernels are Python functions, launched at once."""

from .runtime.autotuner import Autotuner, Heuristics
from .runtime.jit import JITFunction as jit

__all__ = ["Autotuner", "Heuristics", "jit"]
