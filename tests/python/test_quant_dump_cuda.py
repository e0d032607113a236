"""tap.quant.record() of a model on a GPU."""

import pytest
import tensortap as tap
import torch
from dumped_training import Mlp, config
from quantized import decode, encode, format_of, same_bits
from small_models import passes_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


def test_tensors_of_a_gpu_are_dumped_with_what_a_recipe_makes_of_them(tmp_path):
    model, x = Mlp().cuda(), torch.randn(6, 32, device="cuda")
    given = config(recipe="nvfp4")
    for kind in ("ttap", "pt"):
        with tap.quant.record(model, tmp_path / kind, given, format=kind, report=False, strict=True):
            model(x).square().mean().backward()
    recorded, made = passes_of(tmp_path / "ttap")[0], format_of("nvfp4")
    files = tmp_path / "pt/rank_0/iter_000000"
    assert recorded.record("fc1@activation").device == "cuda:0"
    for tensor, twin in (("activation", x.cpu()), ("weight", model.fc1.weight.detach().cpu())):
        payload, scale, factor, _ = encode(twin, made)
        expected = decode(made, twin.shape, payload, scale, factor)
        read = torch.load(files / f"fc1_{tensor}_microbatch0.pt", weights_only=True)
        assert torch.equal(recorded[f"fc1@{tensor}"], twin) and torch.equal(read["high_precision"], twin)
        assert same_bits(recorded[f"fc1@{tensor}/quantized"].decoded(), expected)
        assert same_bits(read["quantized"]["decoded"], expected)
    # Each of the two runs has added its own.
    assert torch.equal(2 * recorded["fc1@wgrad"], model.fc1.weight.grad.cpu())


def test_a_graph_can_be_captured_meanwhile(tmp_path):
    model, x = Mlp().cuda(), torch.randn(6, 32, device="cuda")
    with torch.no_grad(), tap.quant.record(model, tmp_path, config(recipe="nvfp4"), report=False) as dump:
        expected = model(x)
        dump.step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = model(x)
        graph.replay()
    assert torch.equal(output, expected) and list(passes_of(tmp_path)) == [0]
