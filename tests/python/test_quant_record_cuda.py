"""Quantized tensors on a GPU in a recording: their values are decoded and fingerprinted there, and nobody waits."""

import gc

import pytest
import te_tensors
import tensortap as tap
import torch
from dumped_training import config
from quantized import encode, format_of
from small_models import Returns, passes_of
from tensortap import _core
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")

FORMATS = {
    "fp8": ("fp8_e4m3", {}),
    "fp8 e5m2": ("fp8_e5m2", {}),
    "fp8 rows": ("fp8_row", {}),
    "fp8 1x128": ("fp8_block_1x128", {}),
    "fp8 128x128": ("fp8_block_128x128", {}),
    "mxfp8": ("mxfp8", {}),
    "mxfp8 swizzled": ("mxfp8", {"scale_layout": "swizzled"}),
    "mxfp8 swizzled, transposed": ("mxfp8", {"scale_layout": "swizzled", "stored_transposed": True}),
    "mxfp6": ("mxfp6_e3m2", {}),
    "mxfp4": ("mxfp4", {}),
    "nvfp4": ("nvfp4", {}),
    "nvfp4 swizzled": ("nvfp4", {"scale_layout": "swizzled"}),
    "nvfp4 rows": ("nvfp4_row", {}),
    "int8": ("int8", {}),
    "int8 with zero points": ("int8_asym", {}),
    "int4": ("int4", {}),
    "int4 with zero points": ("int4_group16_asym", {}),
}


@pytest.fixture(autouse=True)
def reads_gpus():
    if not _core.cuda_available():
        pytest.skip(f"skipped: {_core.cuda_reason()}")


class Captures(nn.Module):
    """Shows the recording a quantized tensor that it holds in pieces."""

    def __init__(self, pieces):
        super().__init__()
        self.pieces = pieces

    def forward(self, x):
        tap.capture_quantized("w", **self.pieces)
        return torch.relu(x)


def pieces_of(kind, shape, dtype=torch.bfloat16, seed=1):
    name, changes = FORMATS[kind]
    made = format_of(name, **changes)
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    x.view(-1)[0] = float("nan")
    parts = dict(zip(("payload", "scale", "global_scale", "zero_point"), encode(x, made), strict=True))
    return {**parts, "format": made, "shape": shape, "dtype": dtype}


def on_gpu(pieces):
    return {name: piece.cuda() if isinstance(piece, torch.Tensor) else piece for name, piece in pieces.items()}


def record(folder, pieces, **options):
    model = nn.Sequential(Captures(pieces))
    with tap.record(model, folder, report=False, **options) as recording:
        model(torch.ones(1))
    return passes_of(folder)[0], recording


def same_values(ours, theirs):
    """Of two records: dtype, shape, hash and statistics."""
    assert (ours.level, ours.dtype, ours.shape, ours.hash) == (theirs.level, theirs.dtype, theirs.shape, theirs.hash)
    assert ours.hash is not None and ours.group == theirs.group and not ours.has_bytes
    assert ours.stats.keys() == theirs.stats.keys()
    for measure, value in theirs.stats.items():
        assert ours.stats[measure] == pytest.approx(value, rel=1e-12, nan_ok=True), measure


def recorded_alike(tmp_path, pieces, on_device, **options):
    """Both recordings say the same of the values."""
    ours, recording = record(tmp_path / "gpu", on_device, **options)
    theirs, _ = record(tmp_path / "host", pieces, **options)
    assert recording.coverage["notes"] == [] and recording.coverage["unsupported"] == []
    assert list(ours) == list(theirs)
    same_values(ours.record("w"), theirs.record("w"))
    assert ours.record("w").device == "cuda:0" and theirs.record("w").device == "cpu"
    for step in ("payload", "scale"):
        assert ours.record(f"w/{step}").hash == theirs.record(f"w/{step}").hash


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(100, 80), (2, 3, 64), (129, 4096)], ids=str)
@pytest.mark.parametrize("kind", FORMATS)
def test_the_values_have_the_fingerprint_that_the_host_gives_them(tmp_path, kind, shape, dtype):
    pieces = pieces_of(kind, shape, dtype)
    recorded_alike(tmp_path, pieces, on_gpu(pieces), level="fingerprint", strict=True)


@pytest.mark.parametrize("kind", ["fp8 rows", "mxfp8 swizzled", "nvfp4", "int4"])
def test_beside_parts_whose_bytes_are_kept(tmp_path, kind):
    pieces = pieces_of(kind, (100, 80))
    recorded_alike(tmp_path, pieces, on_gpu(pieces), level="full", strict=True)
    kept = passes_of(tmp_path / "gpu")[0]
    assert torch.equal(kept["w/payload"], pieces["payload"])
    decoded, expected = kept["w"].decoded(), passes_of(tmp_path / "host")[0]["w"].decoded()
    assert torch.equal(decoded.view(torch.int16), expected.view(torch.int16))


def test_a_tensor_without_elements(tmp_path):
    pieces = {"payload": torch.empty(0, 64, dtype=torch.uint8), "scale": torch.empty(0, 2, dtype=torch.uint8)}
    pieces |= {"format": format_of("mxfp8"), "shape": (0, 64)}
    recorded_alike(tmp_path, pieces, on_gpu(pieces), strict=True)


def test_a_payload_with_strides(tmp_path):
    pieces = pieces_of("mxfp8", (64, 128))
    on_device = on_gpu(pieces)
    apart = torch.zeros(64, 256, dtype=torch.uint8, device="cuda")[:, ::2]
    on_device["payload"] = apart.copy_(pieces["payload"])
    recorded_alike(tmp_path, pieces, on_device, strict=True)


def test_on_another_stream_while_memory_is_given_out_again(tmp_path):
    """What decoded values lay in belongs to others at once: the fingerprints must have come before."""
    many = [pieces_of("nvfp4", (256, 512), seed=seed) for seed in range(4)]
    expected = [record(tmp_path / str(number), pieces)[0].record("w").hash for number, pieces in enumerate(many)]
    models = [nn.Sequential(Captures(on_gpu(pieces))) for pieces in many]
    holder = nn.ModuleList(models)
    torch.cuda.synchronize()
    recording = tap.record(holder, tmp_path / "gpu", step="manual", level="fingerprint", report=False)
    with recording, torch.cuda.stream(torch.cuda.Stream()):
        for model in models * 5:
            with recording.step():
                model(torch.ones(1))
            torch.empty(256, 512, dtype=torch.bfloat16, device="cuda").fill_(7)
        torch.cuda.synchronize()
    assert [each.record("w").hash for each in passes_of(tmp_path / "gpu").values()] == expected * 5


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="skipped: fewer than two GPUs")
def test_on_another_gpu_than_the_current_one(tmp_path):
    pieces = pieces_of("nvfp4", (100, 80))
    there = {name: piece.to("cuda:1") if isinstance(piece, torch.Tensor) else piece for name, piece in pieces.items()}
    ours, theirs = record(tmp_path / "gpu", there, strict=True)[0], record(tmp_path / "host", pieces)[0]
    same_values(ours.record("w"), theirs.record("w"))
    assert ours.record("w").device == "cuda:1"


@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_nothing_is_waited_for(tmp_path, level):
    model, x = nn.Sequential(Captures(on_gpu(pieces_of("nvfp4", (256, 512))))), torch.ones(4, device="cuda")
    with tap.record(model, tmp_path, level=level, report=False):
        model(x)  # what is allocated once
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)  # about a second
        slept = torch.cuda.Event()
        slept.record()
        torch.cuda.set_sync_debug_mode("error")
        try:
            model(x)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        ahead = not slept.query()
    assert ahead
    first, second = passes_of(tmp_path).values()
    assert first.record("w").hash == second.record("w").hash is not None


def test_memory_is_given_back_at_once(tmp_path):
    model, x = nn.Sequential(Captures(on_gpu(pieces_of("nvfp4", (256, 512))))), torch.ones(1)
    gc.collect()  # what other tests have left does not go meanwhile
    with tap.record(model, tmp_path, level="fingerprint", report=False):
        model(x)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        for _ in range(3):
            model(x)
            assert torch.cuda.memory_allocated() == before
        assert torch.cuda.max_memory_allocated() - before == 256 * 512 * 2


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def test_no_operator_of_ours_is_seen(tmp_path):
    model, x = nn.Sequential(Captures(on_gpu(pieces_of("nvfp4", (256, 512))))), torch.ones(4, device="cuda")
    with tap.record(model, tmp_path, report=False), tap.trace() as trace, Seen() as seen:
        model(x)
    assert [event.name for event in trace.events if event.kind == "op"] == ["0:aten::relu"]
    assert seen.operators == ["aten.relu.default"]
    assert passes_of(tmp_path)[0].record("w").hash is not None


def not_decoded(kept, recording, why):
    """The parts are there and the values' row has a shape, and one line says why that is all."""
    row = kept.record("w")
    assert (row.level, row.hash, row.shape) == ("meta", None, (256, 512)) and row.group
    assert kept.record("w/payload").hash is not None
    assert recording.coverage["unsupported"] == []
    (note,) = recording.coverage["notes"]
    assert note == f"1 tensor recorded as parts, without the values: {why}, first w@out"


def test_values_larger_than_the_bound_are_not_decoded(tmp_path):
    pieces = pieces_of("nvfp4", (256, 512), torch.float32)
    kept, recording = record(tmp_path, on_gpu(pieces), device_staging="256K", strict=True)
    not_decoded(kept, recording, "its values have 524,288 bytes, more than the 262,144 of device_staging")
    assert torch.equal(kept["w/payload"], pieces["payload"])
    assert kept["w"].decoded().shape == (256, 512)  # of what was recorded


def test_parts_in_two_memories_are_not_decoded(tmp_path):
    pieces = pieces_of("nvfp4", (256, 512))
    kept, recording = record(tmp_path, on_gpu(pieces) | {"global_scale": pieces["global_scale"]}, strict=True)
    not_decoded(kept, recording, "its parts are on cuda:0 and cpu, and are decoded only where all of them are")


def test_without_memory_for_the_values_the_program_goes_on(tmp_path):
    gc.collect()
    payload = torch.full((4096, 8192), 0x38, dtype=torch.uint8, device="cuda")
    pieces = {"payload": payload, "scale": torch.ones(1, device="cuda"), "format": format_of("fp8_e4m3")}
    record(tmp_path / "before", pieces, level="fingerprint", strict=True)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction(1e-6)
    try:
        kept, recording = record(tmp_path / "without", pieces, level="fingerprint", strict=True)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.cuda.memory_allocated() == before
    row = kept.record("w")
    assert (row.level, row.hash, row.shape) == ("meta", None, (4096, 8192)) and row.group
    assert kept.record("w/payload").hash == passes_of(tmp_path / "before")[0].record("w/payload").hash
    (note,) = recording.coverage["notes"]
    assert "there was no memory on cuda:0 to decode it, first w@out" in note


def test_pieces_that_make_no_group_say_what_the_host_says(tmp_path):
    pieces = pieces_of("mxfp8", (64, 128))
    pieces["scale"] = pieces["scale"][:, :1].contiguous()
    told = [record(tmp_path / name, each)[1] for name, each in (("gpu", on_gpu(pieces)), ("host", pieces))]
    assert told[0].coverage["notes"] == told[1].coverage["notes"] != []
    with pytest.raises(RuntimeError, match="scales of shape"):
        record(tmp_path / "strict", on_gpu(pieces), strict=True)


@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_in_a_graph_the_parts_are_tapped_and_nothing_is_decoded(tmp_path, level):
    model, x = nn.Sequential(Captures(on_gpu(pieces_of("nvfp4", (256, 512))))), torch.randn(4, 16, device="cuda")
    recording = tap.record(model, tmp_path, level=level, report=False)
    with torch.no_grad(), recording:
        model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(x)
        graph.replay()
        model(x)
        torch.cuda.synchronize()
        assert torch.equal(out, torch.relu(x))
    passes = list(passes_of(tmp_path).values())
    assert len(passes) == 4 and all(each.ending == "complete" for each in passes)
    eager = [each for each in passes if each.record("w").level in ("fingerprint", "sketch")]
    assert len(eager) == 2 and len({each.record("w").hash for each in eager}) == 1
    captured, replayed = (each for each in passes if each.record("w").level == "meta")
    assert list(replayed) == list(captured) == list(eager[0])
    for record_of in (captured.record("w"), replayed.record("w")):
        assert (
            record_of.hash is None and record_of.shape == (256, 512) and record_of.group == eager[0].record("w").group
        )
    assert captured.record("w/payload").hash is None
    for key in ("w/payload", "w/scale", "w/global_scale"):
        assert replayed.record(key).hash == eager[0].record(key).hash is not None
    assert any("a CUDA graph is being captured" in note for note in recording.coverage["notes"])


# ---- tensors that say themselves what they are ----


def moved(made):
    """A tensor of TransformerEngine's kind with its parts on the GPU."""
    kept = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in vars(made).items()}
    return type(made)(tuple(made.shape), **kept)


MADE = {
    "fp8": lambda: te_tensors.float8((96, 160))[0],
    "fp8 1x128": lambda: te_tensors.blockwise((96, 160), False)[0],
    "mxfp8 swizzled": lambda: te_tensors.mxfp8((96, 160), True)[0],
    "nvfp4 swizzled": lambda: te_tensors.nvfp4((96, 160), True, quantizer=te_tensors.Quantizer())[0],
}


@pytest.mark.parametrize("kind", MADE)
def test_both_directions_of_an_output(tmp_path, kind):
    kept = {}
    for name, made in (("gpu", moved(MADE[kind]())), ("host", MADE[kind]())):
        model = nn.Sequential(Returns(made))
        with tap.record(model, tmp_path / name, report=False, strict=True):
            model(torch.zeros(1))
        kept[name] = passes_of(tmp_path / name)[0]
    assert list(kept["gpu"]) == list(kept["host"])
    groups = [record.key for record in kept["host"].records if record.group]
    assert groups
    for key in groups:
        same_values(kept["gpu"].record(key), kept["host"].record(key))


class Holds(nn.Module):
    """A weight in several parameters, as compressed-tensors keeps it."""

    def __init__(self, **tensors):
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    def forward(self, x):
        return x


def test_a_weight_in_several_parameters(tmp_path):
    payload, scale, factor, _ = encode(torch.randn(64, 96), format_of("nvfp4"))
    model = nn.Sequential(Holds(weight_packed=payload, weight_scale=scale, weight_global_scale=factor))
    passes = {}
    for name in ("cpu", "cuda"):
        model.to(name)
        with tap.record(model, tmp_path / name, roles="param", report=False, strict=True) as recording:
            model(torch.zeros(1))
        assert recording.coverage["notes"] == []
        passes[name] = passes_of(tmp_path / name)[0]
    same_values(passes["cuda"].record("0@param/weight"), passes["cpu"].record("0@param/weight"))
    assert passes["cuda"].record("0@param/weight").device == "cuda:0"


class Takes(nn.Module):
    """A layer that only looks at what it is given."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))

    def forward(self, x):
        return torch.zeros(1)


def test_a_dump(tmp_path):
    rows = []
    for name, made in (("gpu", moved(MADE["mxfp8 swizzled"]())), ("host", MADE["mxfp8 swizzled"]())):
        model = nn.Sequential(Takes())
        with tap.quant.record(model, tmp_path / name, config(["activation"]), report=False, strict=True):
            model(made)
        rows.append(passes_of(tmp_path / name)[0].record("0@activation/quantized"))
    same_values(*rows)
    assert rows[0].device == "cuda:0"


class Watched(te_tensors.MXFP8Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return torch.zeros(2)


def watched(made):
    return Watched(tuple(made.shape), **vars(made))


@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_an_argument_of_an_operator(tmp_path, level):
    made = MADE["mxfp8 swizzled"]()
    passes = []
    for name, tensor in (("gpu", watched(moved(made))), ("host", watched(made))):
        with tap.trace(level=level) as trace:
            torch.neg(tensor)
        assert [event.name for event in trace.events] == ["aten::neg", "aten::zeros"]
        assert "not read" not in str(trace)
        trace.save(tmp_path / name)
        passes.append(passes_of(tmp_path / name)[0])
    for key in ("aten::neg@in/0", "aten::neg@in/0/columnwise"):
        same_values(passes[0].record(key), passes[1].record(key))
