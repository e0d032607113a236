"""Module calls: hooks, taps, gradients, parameters."""
