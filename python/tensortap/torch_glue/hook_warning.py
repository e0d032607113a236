"""A warning of PyTorch's that our hooks give no reason for. Imports no PyTorch."""

import warnings


def ignore_warning_of_global_hooks() -> None:
    """PyTorch warns of global hooks under torch.compile; ours are made for that."""
    warnings.filterwarnings("ignore", message="Using `torch.compile\\(module\\)` when there are global hooks")
