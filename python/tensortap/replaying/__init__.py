"""Recorded calls of operators, made again: in the recorded dtype, or in float64 to know the exact result."""
