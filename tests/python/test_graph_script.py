"""Scripts that show a mismatch: they carry what the graph needs, and nothing that merely happens to be there."""

import subprocess
import sys

import torch
import wrong_backends
from checked_graphs import Checking, compiled


@torch.library.custom_op("ttap_elsewhere::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def decomposed_twice(x):
    return x + x


def test_decompositions_of_operators_that_the_graph_does_not_call_are_left_out(tmp_path, monkeypatch):
    from torch._inductor import decomposition

    operator = torch.ops.ttap_elsewhere.twice.default
    monkeypatch.setitem(decomposition.decompositions, operator, decomposed_twice)
    backend = Checking(wrong_backends.first_activation, tmp_path)
    compiled(lambda x: torch.nn.functional.gelu(x).sin(), backend)(torch.randn(8))
    script = backend.mismatches[0].script
    assert "ttap_elsewhere" not in script.read_text()
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert alone.returncode == 1, alone.stderr


def test_results_that_are_none_are_passed_over(tmp_path):
    backend = Checking(wrong_backends.double_layer_norm_backward, tmp_path, stage="aot")
    x = torch.randn(4, 5, requires_grad=True)
    weighted = compiled(lambda x: torch.nn.functional.layer_norm(x, (5,)) * torch.arange(5.0), backend)(x)
    weighted.sum().backward()
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["native_layer_norm_backward"]
    alone = subprocess.run([sys.executable, mismatch.script], capture_output=True, text=True)
    assert alone.returncode == 1 and "output 0: DIFFERENT" in alone.stdout, alone.stderr
