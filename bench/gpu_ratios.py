"""What TensorTap costs on a GPU, as ratios against peers measured in the same run: one table, and the same as JSON.

    python bench/gpu_ratios.py [--json] [--scratch build/bench] [--only op,graph,dump,probe,quant]

The model is a Llama of 16 layers, 2048 wide, in bf16, with random weights. Each time is the best of several rounds, the
ways taken by turns; the GPU is waited for before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensortap as tap
import tensortap.tensors.dtypes  # tells _core about the dtypes
import torch
from empty_observer import empty_observer
from tensortap import _core
from torch.utils._debug_mode import DebugMode


@dataclass
class Row:
    """One line of the table. `value` is held against `target` as `sense` says."""

    what: str
    ours_ms: float
    peer: str
    peer_ms: float
    value: float
    unit: str = "x"
    sense: str = ""
    target: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if (self.value <= self.target if self.sense == "<=" else self.value >= self.target) else "MISSED"


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=2048, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=8, intermediate_size=5632,
        vocab_size=32000, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).cuda().bfloat16().eval()


def timed(work: Callable[[], object]) -> float:
    """Milliseconds, with everything done on the GPU."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def best_by_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    found: dict[str, float] = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            found[name] = min(found[name], way())
    return found


def within(make: Callable[[], AbstractContextManager], work: Callable[[], object], times: int = 3) -> float:
    """The best of a few, in one context that has been warmed up: what it costs to leave it on."""
    with make():
        work()
        return min(timed(work) for _ in range(times))


# ---- operators ----


def debug_hashes() -> Iterator[None]:
    with DebugMode(record_output=True), DebugMode.log_tensor_hashes(hash_fn="norm"):
        yield


def of_operators(model: Any) -> list[Row]:
    """One short sequence, where the processor is what takes the time, and a prefill, where the GPU is."""
    rows = []
    for shape, rounds in (((1, 16), 8), ((4, 1024), 4)):
        ids = torch.randint(0, 100, shape, device="cuda")

        def forward(ids: torch.Tensor = ids) -> None:
            with torch.no_grad():
                model(ids)

        for _ in range(3):
            forward()
        ways: dict[str, Callable[[], AbstractContextManager]] = {
            "none": nullcontext,
            "an observer that does nothing": empty_observer,
            "op log": lambda: tap.trace(ids=False, modules=False),
            "op log with ids": lambda: tap.trace(modules=False),
            "op log with ids and modules": lambda: tap.trace(model),
            "fingerprint of every distinct op output": lambda: tap.trace(hashes=True, inputs=False, modules=False),
            "the same with modules": lambda: tap.trace(model, hashes=True, inputs=False),
        }
        found = best_by_turns(
            {name: lambda make=make, forward=forward: within(make, forward) for name, make in ways.items()}, rounds
        )
        targets = {"op log": 1.05, "fingerprint of every distinct op output": 1.3}
        base = found.pop("none")
        size = " x ".join(map(str, shape))
        for name, took in found.items():
            target = targets.get(name)
            rows.append(Row(f"{name}, {size}", took, "no tap", base, took / base, "x", "<=" if target else "", target))
        if shape == (1, 16):
            log = within(lambda: DebugMode(record_output=True), forward, 2)
            hashes = within(contextlib.contextmanager(debug_hashes), forward, 1)
            rows.append(Row("DebugMode, outputs", log, "no tap", base, log / base))
            rows.append(Row("DebugMode, hashes (norm) of outputs", hashes, "no tap", base, hashes / base))
    return rows


# ---- graphs ----


def of_graphs(model: Any) -> list[Row]:
    ids = torch.randint(0, 100, (1, 1), device="cuda")

    def capture() -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            model(ids)
            with torch.cuda.graph(graph):
                model(ids)
        return graph

    plain = capture()
    with tap.trace(model, hashes=True, inputs=False) as trace:
        tapped = capture()
        many = 20

        def replays(graph: torch.cuda.CUDAGraph) -> Callable[[], float]:
            return lambda: timed(lambda: [graph.replay() for _ in range(many)]) / many

        found = best_by_turns({"plain": replays(plain), "tapped": replays(tapped)}, 10)
    outputs = sum(record.hash is not None for record in trace.replays[-1].records)
    return [
        Row(f"replay of a decode with {outputs} outputs fingerprinted", found["tapped"], "replay without taps",
            found["plain"], found["tapped"] / found["plain"], "x", "<=", 1.3),
    ]  # fmt: skip


# ---- dumps ----


def disk_rate(folder: Path, size: int = 2 << 30) -> float:
    """Bytes per second of direct writes of 8 MiB, the file made before."""
    path = folder / "rate"
    block = 8 << 20
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    memory = torch.empty(block + 4096, dtype=torch.uint8)
    offset = -memory.data_ptr() % 4096
    view = memoryview((ctypes.c_char * block).from_address(memory.data_ptr() + offset))
    start = time.perf_counter()
    for _ in range(size // block):
        os.write(descriptor, view)
    os.fdatasync(descriptor)
    rate = size / (time.perf_counter() - start)
    os.close(descriptor)
    path.unlink()
    return rate


def tensors_of(out: Any) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else list(out)


def of_dumps(model: Any, scratch: Path) -> list[Row]:
    ids = torch.randint(0, 100, (4, 1024), device="cuda")
    leaves = [module for module in model.modules() if not list(module.children())]

    def forward() -> None:
        with torch.no_grad():
            model(ids)

    sizes: list[int] = []
    handles = [
        m.register_forward_hook(lambda m, a, out: sizes.extend(each.nbytes for each in tensors_of(out))) for m in leaves
    ]
    forward()
    for handle in handles:
        handle.remove()
    total = sum(sizes)
    base = min(timed(forward) for _ in range(5))

    # The same bytes over the bus, from one buffer on the device to pinned memory.
    on_device, pinned = torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), torch.empty(
        256 << 20, dtype=torch.uint8, pin_memory=True
    )  # fmt: skip
    once = min(timed(lambda: pinned.copy_(on_device, non_blocking=True)) for _ in range(5))
    copy_ms = once * total / (256 << 20)

    folder = Path(tempfile.mkdtemp(dir=scratch))
    rate = disk_rate(folder)
    staging = total + (512 << 20)
    held, persisted, written = float("inf"), float("inf"), 0
    recording = tap.record(model, folder / "run", staging=staging, device_staging="1G", report=False)
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        forward()
        torch.cuda.synchronize()
        middle = time.perf_counter()
        recording.flush()
        end = time.perf_counter()
        held, persisted = min(held, (middle - start) * 1e3 - base), min(persisted, (end - start) * 1e3)
    recording.close()
    files = sorted((folder / "run").rglob("pass*.ttap"))
    written = files[-1].stat().st_size
    shutil.rmtree(folder / "run")

    def hooks() -> None:
        kept: dict[int, list[torch.Tensor]] = {}
        taken = [
            m.register_forward_hook(
                lambda m, a, out, i=i: kept.__setitem__(i, [each.cpu() for each in tensors_of(out)])
            )
            for i, m in enumerate(leaves)
        ]
        forward()
        for each in taken:
            each.remove()
        torch.save(kept, folder / "kept.pt")

    theirs = timed(hooks)
    shutil.rmtree(folder)
    disk_ms = written / rate * 1e3
    return [
        Row(f"full dump of a 4 x 1024 prefill, {total / 1e9:.1f} GB: model held up", held, "pinned copy of the bytes",
            copy_ms, held / copy_ms, "x", "<=", 1.2),
        Row(f"the same, until {written / 1e9:.1f} GB are on the disk", persisted,
            f"direct writes at {rate / 1e9:.2f} GB/s", disk_ms, disk_ms / persisted, "of the rate", ">=", 0.9),
        Row("hooks, .cpu(), torch.save", theirs, "ours until on the disk", persisted, theirs / persisted),
    ]  # fmt: skip


# ---- probes ----


def of_probes() -> list[Row]:
    x = torch.randn(256 << 10, device="cuda")  # 1 MiB
    pinned = torch.empty_like(x, device="cpu").pin_memory()
    nothing = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    runtime = ctypes.CDLL(next(p for p in ("libcudart.so.13", "libcudart.so.12", "libcudart.so") if _loads(p)))
    many = 50

    bare = torch.cuda.CUDAGraph()
    with torch.cuda.graph(bare):
        for _ in range(many):
            x.add_(1)
            pinned.copy_(x, non_blocking=True)
            runtime.cudaLaunchHostFunc(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), nothing, None)
    probe = tap.Probe("x", [tap.RecordAction(capacity=4)])
    probed = torch.cuda.CUDAGraph()
    with torch.cuda.graph(probed):
        for _ in range(many):
            probe(x.add_(1))
    found = best_by_turns({"bare": lambda: timed(bare.replay) / many, "probe": lambda: timed(probed.replay) / many}, 10)
    probe.close()
    return [
        Row("probe that records 1 MiB in a graph", found["probe"], "copy node and host node", found["bare"],
            found["probe"] / found["bare"]),
    ]  # fmt: skip


# ---- quantized tensors ----


def quantized(name: str, rows: int, columns: int, layout: str) -> tuple[Any, list[torch.Tensor | None]]:
    """A format and a group of random codes, all of them numbers, with scales of about one."""
    made = _core.quant_format(name)
    made.scale_layout = layout
    four_bits = made.element == "e2m1"
    payload = torch.randint(0, 256, (rows, columns // 2 if four_bits else columns), dtype=torch.uint8, device="cuda")
    if not four_bits:
        payload &= 0xEF
    if made.scale_type == "f32":
        return made, [payload, torch.ones(1, device="cuda"), None, None]
    blocks = columns // made.block_columns
    one = 0x7F if made.scale_type == "e8m0" else 0x38
    scale = torch.full((rows, blocks), one, dtype=torch.uint8, device="cuda")
    return made, [payload, scale, torch.ones(1, device="cuda") if name == "nvfp4" else None, None]


def of_decoding() -> list[Row]:
    """To bf16, against copies on the device that move as many bytes."""
    rows = []
    columns, many = 8192, 20
    for mib in (64, 512):
        height = (mib << 20) // 2 // columns
        for what in ("fp8 compact", "mxfp8 compact", "mxfp8 swizzled", "nvfp4 compact", "nvfp4 swizzled"):
            name, layout = what.split()
            # Several of the small ones, so that the cache does not hold what is read next.
            sets = [quantized(name, height, columns, layout) for _ in range(4 if mib == 64 else 1)]
            outs = [torch.empty(height, columns, dtype=torch.bfloat16, device="cuda") for _ in sets]
            moved = outs[0].nbytes + sum(part.nbytes for part in sets[0][1] if part is not None)
            # Up to a multiple of 64 KiB: copies of other sizes take half as long again.
            copied = -(-moved // (128 << 10)) * (64 << 10)
            plain = [torch.empty(copied, dtype=torch.uint8, device="cuda") for _ in range(2 * len(sets))]
            decoding, copying = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(decoding):
                stream = torch.cuda.current_stream().cuda_stream
                for i in range(many):
                    (made, parts), out = sets[i % len(sets)], outs[i % len(sets)]
                    _core.quant_decode_gpu(made, [height, columns], *parts, out=out, device=0, stream=stream)
            with torch.cuda.graph(copying):
                for i in range(many):
                    plain[2 * (i % len(sets))].copy_(plain[2 * (i % len(sets)) + 1])
            found = best_by_turns(
                {"ours": lambda g=decoding: timed(g.replay) / many, "copy": lambda g=copying: timed(g.replay) / many},
                10,
            )
            text = f"decode {name}, {layout} scales, to {mib} MiB of bf16"
            rows.append(Row(text, found["ours"], f"copy that moves {moved / 1e6:.0f} MB", found["copy"],
                            found["copy"] / found["ours"], "of the rate", ">=", 0.7))  # fmt: skip
    return rows


def _loads(name: str) -> bool:
    with contextlib.suppress(OSError):
        ctypes.CDLL(name)
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of a table")
    parser.add_argument("--scratch", type=Path, default=Path("build/bench"), help="where dumps go")
    parser.add_argument("--only", default="op,graph,dump,probe,quant", help="which parts, with commas")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_ratios: no GPU", file=sys.stderr)
        return 0
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    parts = arguments.only.split(",")
    model = llama() if set(parts) & {"op", "graph", "dump"} else None
    rows: list[Row] = []
    if not arguments.json:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    for part, measure in (
        ("op", lambda: of_operators(model)),
        ("graph", lambda: of_graphs(model)),
        ("dump", lambda: of_dumps(model, arguments.scratch)),
        ("probe", of_probes),
        ("quant", of_decoding),
    ):
        if part not in parts:
            continue
        measured = measure()
        rows += measured
        if not arguments.json:
            print("\n".join(map(as_text, measured)), flush=True)
    if arguments.json:
        print(json.dumps([asdict(row) | {"verdict": row.verdict} for row in rows], indent=2))
    return 0


def as_text(row: Row) -> str:
    target = f"{row.sense} {row.target:g}" if row.target is not None else ""
    return (
        f"{row.what:68} {row.ours_ms:10.3f} ms  {row.peer:32} {row.peer_ms:10.3f} ms"
        f"  {row.value:7.2f} {row.unit:12} {target:8} {row.verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
