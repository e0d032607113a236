"""Recording models on a GPU."""

import pytest
import tensortap as tap
import torch
from small_models import Model, passes_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_on_the_device(dtype, tmp_path):
    model = Model().to("cuda", dtype)
    seen = {}
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda m, a, out, name=name: seen.__setitem__(name, out.detach().clone()))
    with tap.record(model, tmp_path, roles="out,grad_out", report=False):
        model(torch.randn(3, 4, device="cuda", dtype=dtype)).square().sum().backward()
    recorded = passes_of(tmp_path)[0]
    for name, expected in seen.items():
        assert torch.equal(recorded[name], expected.cpu()), name
        assert recorded.record(name).device == "cuda:0"
        assert f"{name}@grad_out" in recorded


def test_an_in_place_op_after_a_module_does_not_change_what_was_recorded(tmp_path):
    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            self.before = y.clone()
            return y.add_(1)

    model = InPlace().cuda()
    with torch.no_grad(), tap.record(model, tmp_path, report=False):
        model(torch.randn(2, 3, device="cuda"))
    assert torch.equal(passes_of(tmp_path)[0]["linear"], model.before.cpu())


def test_the_same_bits_with_the_tap_on(tmp_path):
    torch.manual_seed(0)
    model, x = Model().cuda(), torch.randn(5, 4, device="cuda")

    def gradients():
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

    plain = gradients()
    with tap.record(model, tmp_path, roles="out,in,grad_out,grad_in", modules="all", report=False):
        tapped = gradients()
    assert all(torch.equal(first, second) for first, second in zip(plain, tapped))


def test_a_graph_is_captured_unharmed_and_recorded_when_it_is_replayed(tmp_path):
    model, x = Model().cuda(), torch.randn(5, 4, device="cuda")
    with torch.no_grad():
        expected = model(x)
        torch.cuda.synchronize()
        with tap.record(model, tmp_path, report=False) as recording:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                output = model(x)
            graph.replay()
            torch.cuda.synchronize()
    assert torch.equal(output, expected)
    assert recording.coverage["unsupported"] == []
    capture, replay = passes_of(tmp_path).values()
    assert [record.key for record in capture.records] == [record.key for record in replay.records]
    assert not any(record.has_bytes for record in capture.records)
    assert all(record.has_bytes for record in replay.records)
