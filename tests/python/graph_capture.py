"""Graphs as torch.compile makes them."""

import torch


def captured(function, *inputs, dynamic=None):
    """The graphs that Dynamo makes for a call, or for each of several calls given as tuples, in order."""
    modules = []

    def backend(module, _):
        modules.append(module)
        return module.forward

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, dynamic=dynamic)
    for given in inputs if isinstance(inputs[0], tuple) else [inputs]:
        compiled(*given)
    return modules


def captured_aot(function, *inputs, dynamic=None, decompositions=None):
    """The graphs of AOTAutograd by part: inference, or forward and backward where something requires a gradient."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    parts = {}

    def keep(part):
        def compiler(module, _):
            parts[part] = module
            return make_boxed_func(module.forward)

        return compiler

    backend = aot_autograd(
        fw_compiler=keep("forward"),
        bw_compiler=keep("backward"),
        inference_compiler=keep("inference"),
        decompositions=decompositions,
    )
    torch._dynamo.reset()
    result = torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
    if "forward" in parts:
        (result if isinstance(result, torch.Tensor) else result[0]).sum().backward()
    return parts
