"""What TensorTap does to PyTorch and asks of it: patches, call stacks, module names, CUDA graphs, the op observer."""
