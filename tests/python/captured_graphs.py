"""Small CUDA graphs to probe."""

import gc

import torch


def captured(function, *, warm=True, stream=None):
    """A graph of what the function does; it ran once before, as PyTorch wants it."""
    if warm:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            function()
        torch.cuda.current_stream().wait_stream(side)
    gc.collect()  # a graph of a test before, held by an exception's frames, would end the capture when it is destroyed
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph


def replay(graph, times=1):
    for _ in range(times):
        graph.replay()
    torch.cuda.synchronize()


def values(probe):
    return [each.tensor.tolist() for each in probe.records()]


class Counting:
    """A static input that each replay makes one larger, so that replays can be told apart."""

    def __init__(self, *shape, dtype=torch.float32):
        self.x = torch.zeros(shape, device="cuda", dtype=dtype)

    def __call__(self):
        self.x += 1
        return self.x
