"""Dispatched operators and kernels: what the op observer needs from Python."""
