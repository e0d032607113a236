"""What leaves a GPU: bit for bit what was there, without holding up the program, in bounded memory."""

import os
import random
import subprocess
import sys

import models
import pytest
import tensortap as tap
import torch
from small_models import Returns, passes_of
from tensortap import _core
from tensortap.tensors.dtypes import TORCH_DTYPES
from tensortap.tensors.snapshot import stream_of
from torch import nn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


@pytest.fixture(autouse=True)
def reads_gpus():
    """Everything here would pass, slowly, by copies to the host as well."""
    if not _core.cuda_available():
        pytest.skip(f"skipped: {_core.cuda_reason()}")


def random_tensor(dtype, shape, seed=7):
    size = torch.empty((), dtype=dtype).element_size()
    bits = torch.Generator("cuda").manual_seed(seed)  # the same whatever ran before
    raw = torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8, device="cuda", generator=bits)
    return (raw & 1 if dtype is torch.bool else raw).view(dtype)


def layouts_of(tensor):
    yield "plain", tensor
    yield "transposed", tensor.transpose(0, 1)
    yield "stepped", tensor[1::2, ::3]
    yield "expanded", tensor[:, :1].expand(-1, 5)
    yield "empty", tensor[:0]
    yield "scalar", tensor[1, 2]


def bits(tensor):
    """Comparable whatever the dtype, NaN or not."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.shape


def same_bits(first, second):
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return first.numel() == 0 or torch.equal(bits(first), bits(second))


@pytest.mark.parametrize("name", list(TORCH_DTYPES))
@pytest.mark.parametrize(("level", "seed"), [("full", 7), ("fingerprint", 7), ("fingerprint", 1), ("fingerprint", 2)])
def test_every_dtype_and_layout_is_recorded_as_a_copy_on_the_host_would_be(name, level, seed, tmp_path):
    whole = random_tensor(TORCH_DTYPES[name], (9, 14), seed)
    on_gpu, on_host = dict(layouts_of(whole)), dict(layouts_of(whole.cpu()))
    assert all(stream_of(tensor) is not None for tensor in on_gpu.values())
    for tensors, folder in [(on_gpu, tmp_path / "gpu"), (on_host, tmp_path / "host")]:
        model = nn.Sequential(Returns(tensors))
        with tap.record(model, folder, level=level, report=False):
            model(torch.zeros(1))
    first, second = passes_of(tmp_path / "gpu")[0], passes_of(tmp_path / "host")[0]
    assert list(first) == list(second)
    for key in first:
        ours, theirs = first.record(key), second.record(key)
        assert (ours.dtype, ours.shape, ours.hash) == (theirs.dtype, theirs.shape, theirs.hash), key
        assert ours.device == "cuda:0"
        for measure, value in theirs.stats.items():
            assert ours.stats[measure] == pytest.approx(value, rel=1e-12, nan_ok=True), (key, measure)
        if level == "full":
            assert same_bits(first[key], second[key]), key


def test_conjugates_and_negatives_are_recorded_by_their_values(tmp_path):
    x = torch.randn(3, 4, dtype=torch.complex64, device="cuda")
    model = nn.Sequential(Returns({"conj": x.conj(), "imag": x.conj().imag}))
    with tap.record(model, tmp_path, report=False):
        model(torch.zeros(1))
    recorded = passes_of(tmp_path)[0]
    assert torch.equal(recorded["0/conj"], x.conj().cpu().resolve_conj())
    assert torch.equal(recorded["0/imag"], x.conj().imag.cpu().resolve_neg())


@pytest.mark.parametrize("transposed", [False, True])
def test_a_tensor_larger_than_both_rings_comes_in_pieces(transposed, tmp_path):
    x = torch.randn(3000, 700, device="cuda")
    x = x.t() if transposed else x
    expected = x.cpu()
    for tensor, folder in [(x, tmp_path / "gpu"), (expected, tmp_path / "host")]:
        model = nn.Sequential(Returns(tensor))
        with tap.record(model, folder, staging="1M", device_staging="1M", report=False):
            model(torch.zeros(1))
            x.add_(1)
    recorded = passes_of(tmp_path / "gpu")[0]
    assert torch.equal(recorded["0"], expected)
    assert recorded.record("0").hash == passes_of(tmp_path / "host")[0].record("0").hash


def test_a_full_ring_is_waited_for_where_every_launch_waits_for_its_end(tmp_path):
    """A stream that waited for room would keep the launch, and the launch CUDA, from whoever makes room."""
    program = """
import sys, tensortap as tap, torch
from torch import nn
model = nn.Sequential(nn.Identity()).cuda()
with tap.record(model, sys.argv[1], staging="1M", device_staging="1M", report=False):
    model(torch.arange(2_000_000, device="cuda", dtype=torch.float32))
"""
    environment = {**os.environ, "CUDA_LAUNCH_BLOCKING": "1"}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=600, env=environment)
    assert torch.equal(passes_of(tmp_path)[0]["0"], torch.arange(2_000_000, dtype=torch.float32))


@pytest.mark.parametrize("rings", [{}, {"staging": "256K", "device_staging": "256K"}])
def test_ten_thousand_sequences_of_tap_write_and_free_on_two_streams(rings, tmp_path):
    """Memory that is freed is given out again at once: what was recorded of it must be what it was."""

    class Passes(nn.Module):
        def forward(self, x):
            return x

    model = nn.Sequential(Passes())
    chance = random.Random(0)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    sizes = [10, 1000, 30_000, 400_000]
    expected = []
    recording = tap.record(model, tmp_path, step="manual", deduplicate=False, report=False, **rings)
    with recording, recording.step():
        for number in range(10_000):
            with torch.cuda.stream(chance.choice(streams)):
                size = chance.choices(sizes, weights=[40, 40, 15, 1])[0]
                x = torch.full((size,), number, dtype=torch.int32, device="cuda")
                model(x)
                if chance.random() < 0.7:
                    x.fill_(-1)
                del x
                expected.append(size)
    (recorded,) = passes_of(tmp_path).values()
    assert len(recorded) == 10_000
    for number, size in enumerate(expected):
        key = "0" if number == 0 else f"0::call{number + 1}"
        tensor = recorded[key]
        assert tensor.shape == (size,), key
        assert bool((tensor == number).all()), key


@pytest.mark.parametrize("level", ["full", "fingerprint"])
def test_a_llama_computes_the_same_bits_and_uses_the_same_memory(level, tmp_path):
    def run(folder):
        torch.manual_seed(0)
        model, inputs = models.llama()
        model = model.cuda()
        inputs = {name: tensor.cuda() for name, tensor in inputs.items()}
        model(**inputs).logits.float().square().mean().backward()  # warm: libraries allocate when first used
        model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with tap.record(model, folder, level=level, roles="out,in,grad_out", modules="all", report=False):
            output = model(**inputs).logits
            output.float().square().mean().backward()
            del inputs
        torch.cuda.synchronize()
        memory = (torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before)
        return [output.detach().cpu(), *(p.grad.cpu() for p in model.parameters() if p.grad is not None)], memory

    plain, plain_memory = run(None)
    tapped, tapped_memory = run(tmp_path)
    assert all(torch.equal(first, second) for first, second in zip(plain, tapped, strict=True))
    assert plain_memory == tapped_memory
    assert len(passes_of(tmp_path)[0]) > 20


@pytest.mark.parametrize("level", ["full", "fingerprint", "meta"])
def test_a_recorded_forward_does_not_synchronise(level, tmp_path):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    x = torch.randn(16, 64, device="cuda")
    with torch.no_grad(), tap.record(model, tmp_path, level=level, roles="out,in", report=False):
        model(x)  # what is allocated once
        torch.cuda.set_sync_debug_mode("error")
        try:
            model(x)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert len(passes_of(tmp_path)) == 2


def test_the_host_runs_ahead_of_a_recorded_gpu(tmp_path):
    """With everything still to be done on the GPU, a forward returns: nobody has waited for it."""
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU()).cuda()
    x = torch.randn(256, 512, device="cuda")
    with torch.no_grad(), tap.record(model, tmp_path, report=False):
        model(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)  # about a second
        slept = torch.cuda.Event()
        slept.record()
        model(x)
        ahead = not slept.query()
    assert ahead
    assert len(passes_of(tmp_path)[1]) == 2


def test_what_finds_no_room_is_dropped_and_counted(tmp_path):
    model = nn.Sequential(Returns(torch.ones(40_000, device="cuda")))  # 160 KB
    with tap.record(model, tmp_path, when_full="drop", staging="1M", device_staging="1M", report=False) as recording:
        model(torch.zeros(1))
        recording.flush()
        torch.cuda._sleep(2_000_000_000)
        for _ in range(20):
            model(torch.zeros(1))
    drops = tap.open(tmp_path).ranks[0].coverage["drops"]["staging_full"]
    kept = sum(len(recorded) for recorded in passes_of(tmp_path).values())
    assert drops > 0
    assert kept + drops == 21


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="skipped: fewer than two GPUs")
def test_a_model_on_two_gpus(tmp_path):
    first, second = nn.Linear(4, 5).to("cuda:0"), nn.Linear(5, 6).to("cuda:1")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x):
            return self.second(self.first(x).to("cuda:1"))

    model, x = Model(), torch.randn(3, 4, device="cuda:0")
    with torch.no_grad(), tap.record(model, tmp_path, report=False):
        model(x)
        expected = first(x).cpu()
    recorded = passes_of(tmp_path)[0]
    assert torch.equal(recorded["first"], expected)
    assert [recorded.record(key).device for key in ("first", "second")] == ["cuda:0", "cuda:1"]
