"""tap.quant.record(): chosen tensors of chosen layers, on a schedule."""
