"""Tensors of one run put into another run of the program, at the same place."""
