"""A backend that has every graph checked, without recording any."""

from pathlib import Path

import torch
from tensortap.graph.check.checked import Checked
from tensortap.graph.fx.identity import graph_id


class Checking:
    """For torch.compile: keeps the graphs it was given, and the lines that were reported."""

    def __init__(self, inner, directory=None, *, stage="dynamo", **options):
        self.graphs, self.lines = [], []
        self._inner, self._stage = inner, stage
        self._options = {"directory": None if directory is None else Path(directory), **options}

    def __call__(self, module, inputs):
        if self._stage == "dynamo":
            return self._checked(module, inputs, "forward")
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.aot_autograd import make_boxed_func

        def compiler(part):
            return lambda lowered, given: make_boxed_func(self._checked(lowered, given, part))

        return aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"),
        )(module, inputs)

    def _checked(self, module, inputs, part):
        checked = Checked(
            torch.fx.Interpreter(module).run,
            None,
            module,
            graph_id=graph_id(module, self._stage, part),
            inner=self._inner,
            inputs=inputs,
            stage=self._stage,
            report=self.lines.append,
            **self._options,
        )
        self.graphs.append(checked)
        return checked

    @property
    def mismatches(self):
        return [mismatch for graph in self.graphs for mismatch in graph.mismatches]


def compiled(function, backend, *, dynamic=None):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, dynamic=dynamic)
