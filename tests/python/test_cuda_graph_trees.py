"""torch.compile(mode="reduce-overhead"): its CUDA graphs check that nobody else holds their tensors."""

import pytest
import tensortap as tap
import torch
from torch import nn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")
pytest.importorskip("triton")


@pytest.mark.parametrize("tapped", ["trace", "record"])
def test_a_model_with_cuda_graph_trees_goes_on(tapped, tmp_path, nothing_compiled):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).cuda().eval()
    x = torch.randn(16, 64, device="cuda")
    compiled = torch.compile(model, mode="reduce-overhead")

    def run():
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return compiled(x).clone()

    tap_on = (
        tap.trace(model, hashes=True)
        if tapped == "trace"
        else tap.record(model, tmp_path / "run", ops=True, level="fingerprint", report=False)
    )
    with tap_on:
        with_tap = [run() for _ in range(5)]
    torch._dynamo.reset()
    compiled = torch.compile(model, mode="reduce-overhead")
    assert all(torch.equal(one, other) for one, other in zip(with_tap, [run() for _ in range(5)], strict=True))
