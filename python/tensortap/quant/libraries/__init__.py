"""Which tensors and modules are quantized, one file per library."""
