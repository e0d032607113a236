"""tap.Probe: looks at a tensor where it is made, also inside a CUDA graph."""
