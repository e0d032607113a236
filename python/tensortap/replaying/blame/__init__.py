"""Which operators are farther from the exact result than rounding explains."""
