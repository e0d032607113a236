"""What TensorTap costs, as ratios against peers measured in the same run: one table, and the same as JSON.

    python bench/ratios.py [--build build/dev] [--scratch build/bench] [--json] [parts]

A ratio is peer's time over ours for work (above 1: we are faster), and ours over the peer's where it says "holds" (how
long the caller waits). Absolute limits are in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import blame_pass
import diff_recordings
import graph_recording
import model_recording
import numpy as np
import op_tracing
import quantized_tensors
import report_page
import safetensors
import safetensors.torch
import serving_steps
import torch

TENSORS, TENSOR_BYTES = 48, 16 << 20  # as in recorder_bench.cpp
KEY = "model.layers.777.mlp.part77"


@dataclass
class Row:
    """One line of the table. `value` is held against `target` as `sense` says."""

    what: str
    peer: str
    ours_ms: float
    peer_ms: float | None
    value: float
    unit: str
    sense: str = ""
    target: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        met = self.value <= self.target if self.sense == "<=" else self.value >= self.target
        return "met" if met else "MISSED"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_of(rounds: int, work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    times = []
    for _ in range(rounds):
        before()
        times.append(timed(work))
    return statistics.median(times)


def native(program: Path, scratch: Path, part: str) -> dict[str, dict[str, float]]:
    """The figures of one part of recorder_bench, by name."""
    out = subprocess.run([program, scratch, part], check=True, capture_output=True, text=True).stdout
    return {row["name"]: row for row in map(json.loads, out.splitlines())}


def speed(what: str, peer: str, ours: float, theirs: float, target: float | None = None) -> Row:
    return Row(what, peer, ours * 1e3, theirs * 1e3, theirs / ours, "×", ">=" if target else "", target)


def capture_rows(program: Path, scratch: Path) -> Iterator[Row]:
    # capture() copies and takes the fingerprint. The first is what a program sees beside a copy of its own, the others
    # are against the same work done plainly, on one thread.
    peers = {"(both)": "memcpy + fingerprint()", "(fingerprint)": "fingerprint()"}
    for name, row in native(program, scratch, "capture").items():
        ours, theirs = row["ours_s"], row["peer_s"]
        kind = name.split()[-1]
        target = 1.3 if kind in peers else None
        sense = "<=" if target else ""
        what = name.removesuffix(f" {kind}") if kind in peers else name
        yield Row(what, peers.get(kind, "memcpy"), ours * 1e3, theirs * 1e3, ours / theirs, "×", sense, target)


def record_rows(program: Path, scratch: Path) -> Iterator[Row]:
    figures = native(program, scratch, "record")
    ours = figures["record a burst"]["ours_s"]
    rows = (
        ("record on and on", "write", 0.9),
        ("record until it is on disk", "write + fdatasync", 0.9),
        ("record a burst", "write", None),  # into the page cache; three threads share what cores there are
    )
    for name, peer, target in rows:
        row = figures[name]
        yield speed(f"{name} ({row['bytes'] / 2**30:.2g} GiB)", peer, row["ours_s"], row["peer_s"], target)

    tensors = {f"x{i}": torch.randn(TENSOR_BYTES // 4) for i in range(TENSORS)}
    folder = scratch / "peer"

    def clean() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        os.sync()

    def save_numpy() -> None:
        for name, tensor in tensors.items():
            np.save(folder / f"{name}.npy", tensor.numpy())

    peers = {
        "torch.save": lambda: torch.save(tensors, folder / "x.pt"),
        "safetensors.save_file": lambda: safetensors.torch.save_file(tensors, folder / "x.safetensors"),
        "numpy.save": save_numpy,
    }
    for peer, work in peers.items():
        yield speed("record a burst (0.75 GiB)", peer, ours, median_of(3, work, clean), None)
    shutil.rmtree(folder)


def numpy_statistics(values: np.ndarray) -> tuple:
    """What a fingerprint tells, but for the hash, as a NumPy user would write it."""
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    magnitude = np.abs(finite)
    nonzero = magnitude[magnitude > 0]
    return (
        np.isnan(wide).sum(), np.isposinf(wide).sum(), np.isneginf(wide).sum(), (wide == 0).sum(),
        (nonzero < np.finfo(values.dtype).tiny).sum(), finite.min(), finite.max(), magnitude.max(), nonzero.min(),
        finite.mean(), finite.std(), magnitude.sum(), np.sqrt((finite * finite).sum()),
    )  # fmt: skip


def fingerprint_rows(program: Path, scratch: Path) -> Iterator[Row]:
    figures = native(program, scratch, "fingerprint")
    for name, row in figures.items():
        yield speed(f"{name} (64 MiB, one thread)", "memcpy", row["ours_s"], row["peer_s"], 0.5)
    rng = np.random.default_rng(0)
    for dtype, ours in ((np.float32, "fingerprint f32"), (np.float64, "fingerprint f64")):
        values = rng.standard_normal((64 << 20) // np.dtype(dtype).itemsize).astype(dtype)
        theirs = median_of(3, lambda values=values: numpy_statistics(values))
        yield speed(f"{ours} (64 MiB, one thread)", "NumPy statistics", figures[ours]["ours_s"], theirs, None)


def open_rows(program: Path, scratch: Path, command: Path) -> Iterator[Row]:
    figures = native(program, scratch, "open")
    run = scratch / "many"
    for form in ("safetensors", "pt"):
        subprocess.run(
            [command, "export", run, "--format", form, "-o", scratch / form], check=True, capture_output=True
        )
    (flat,) = (scratch / "safetensors").glob("**/*.safetensors")
    (pickled,) = (scratch / "pt").glob("**/*.pt")

    def read_one() -> None:
        with safetensors.safe_open(flat, "np") as file:
            file.get_tensor(KEY)

    def check_all() -> None:
        for tensor in torch.load(pickled, weights_only=True).values():
            torch.isfinite(tensor).all()

    opened = figures["open a pass of 100,000 tensors"]["ours_s"]
    both = opened + figures["find and read one of them"]["ours_s"]
    yield Row("open a pass of 100,000 tensors", "limit", opened * 1e3, None, opened * 1e3, "ms", "<=", 100)
    yield speed("open it and read one tensor", "safetensors.safe_open", both, median_of(3, read_one))
    torch_one = median_of(2, lambda: torch.load(pickled, weights_only=True)[KEY])
    yield speed("open it and read one tensor", "torch.load", both, torch_one)

    def run_command(*arguments: str) -> None:
        subprocess.run([command, *arguments], check=True, stdout=subprocess.DEVNULL)

    show = median_of(5, lambda: run_command("show", str(run), KEY))
    check = median_of(5, lambda: run_command("check", str(run)))
    yield speed("ttap show, one of 100,000", "torch.load, one", show, torch_one)
    yield speed("ttap check, 100,000 tensors", "torch.load, isfinite", check, median_of(2, check_all))


def model_rows(scratch: Path) -> Iterator[Row]:
    ways = model_recording.measure(scratch)
    none, full, clone, save = (ways.of(name) for name in ("no tap", "full", "clone", "save"))

    def row(what: str, peer: str, ours: float, theirs: float, target: float | None = None) -> Row:
        return Row(what, peer, ours * 1e3, theirs * 1e3, ours / theirs, "×", "<=" if target else "", target)

    yield row("a pass of MiniLM, recorded in full", "hooks + torch.save", full, save, 1 / 3)
    yield row("a pass of MiniLM, not recorded", "hooks + torch.save", none, save)
    yield row("a pass of MiniLM, recorded in full", "hooks + clone", full, clone)
    yield row("a pass of MiniLM, recorded in full", "no tap", full, none)
    yield row("  how much longer it takes", "hooks + torch.save", full - none, save - none, 1 / 3)
    yield row("a pass, fingerprints only", "no tap", ways.of("fingerprint"), none, 1.3)
    yield row("a pass, all modules rejected", "no tap", ways.best_rejected, ways.best_without, 1.01)


def blame_rows(scratch: Path) -> Iterator[Row]:
    found = blame_pass.measure(scratch)
    ours, theirs = found.blame_s, found.forward_s
    what = f"blame of a pass of MiniLM, {found.calls:.0f} calls judged"
    yield Row(what, "its forward", ours * 1e3, theirs * 1e3, ours / theirs, "×", "<=", 20)
    times = found.memory_mib / found.largest_mib
    yield Row("  its memory", "largest tensor in float64", 0, None, times, "×")


def serving_rows(scratch: Path) -> Iterator[Row]:
    found = serving_steps.measure(scratch)
    if found is None:
        print("serving: not measured, no vLLM (scripts/setup_engine.sh installs it)", file=sys.stderr)
        return
    ways = {"full": "recorded in full", "fingerprint": "fingerprints only", "ops": "operators as fingerprints"}
    for step in ("prefill", "decode"):
        none = found["none"][step]
        for way, what in ways.items():
            ours = found[way][step]
            yield Row(f"a {step} step of vLLM, {what}", "no tap", ours * 1e3, none * 1e3, ours / none, "×")


def diff_rows(command: Path, scratch: Path) -> Iterator[Row]:
    found = diff_recordings.measure(command, scratch)
    ours = found.ours_s
    yield Row("diff of 2 x 2 GiB, all measures", "cmp", ours * 1e3, found.cmp_s * 1e3, ours / found.cmp_s, "×", "<=", 2)
    yield speed("diff of 2 x 2 GiB, all measures", "NumPy, the same", ours, found.numpy_s, 8)
    if found.msprobe_s is not None:
        yield speed("diff of 2 x 2 GiB, all measures", "msprobe, six of them", ours, found.msprobe_s)
    yield Row("  its memory beyond the mapped files", "limit", 0, None, found.ours_rss_mib, "MiB", "<=", 256)
    rate = found.records / found.records_s / 1e6
    yield Row("diff of 1,000,000 hashes", "limit", found.records_s * 1e3, None, rate, "M/s", ">=", 1)


def op_rows(command: Path, scratch: Path) -> Iterator[Row]:
    found = op_tracing.measure(command, scratch)
    for small in found.small:
        what = f"an op more: {small.what}"
        sense = "<=" if small.limit else ""
        yield Row(what, "limit", small.ours / 1e3, None, small.ours, "µs", sense, small.limit)
        if small.theirs:
            yield speed("  the same", "DebugMode", small.ours / 1e6, small.theirs / 1e6)
    none = found.model_ms["no tap"]
    for name, target in (("meta", 1.05), ("hashes", 1.5), ("DebugMode", None), ("DebugMode, hashes", None)):
        ours = found.model_ms[name]
        sense = "<=" if target else ""
        yield Row(f"a forward of MiniLM, ops: {name}", "no tap", ours, none, ours / none, "×", sense, target)
    log = found.log
    yield Row("a log of 1,000,000 ops with hashes, memory", "per op", 0, None, log.memory_per_call, "bytes")
    for what, seconds in (("save it", log.save_s), ("ttap log", log.print_s), ("ttap diff, two of them", log.diff_s)):
        yield Row(f"  {what}", "", seconds * 1e3, None, seconds, "s")


def quant_rows() -> Iterator[Row]:
    for figure in quantized_tensors.measure():
        yield speed(figure.what, figure.peer, figure.ours_s, figure.peer_s, figure.target)


def graph_rows(scratch: Path) -> Iterator[Row]:
    found = graph_recording.measure(scratch)
    what = f"a graph of {found.nodes} nodes, all at meta"
    ours, theirs = found.meta, found.interpreter
    yield Row(what, "fx.Interpreter", ours * 1e3, theirs * 1e3, ours / theirs, "×", "<=", 1.2)
    peer = "fx.Interpreter + numpy.save"
    what = f"{graph_recording.DUMPED} runs of it, every value, parameters once"
    yield speed(what, peer, found.dumped, found.saved, 3)
    yield speed("  with parameters in every pass", peer, found.dumped_always, found.saved)


def page_rows(scratch: Path) -> Iterator[Row]:
    if not report_page.can_measure():
        return
    text, chart, size = report_page.measure(scratch)
    what = f"open a report of {report_page.TENSORS:,} tensors ({size / 1e6:.0f} MB)"
    yield Row(what, "limit", chart * 1e3, None, chart * 1e3, "ms", "<=", 3000)
    yield Row("  until its text is there", "limit", text * 1e3, None, text * 1e3, "ms")


def table(rows: list[Row]) -> str:
    def cell(row: Row) -> list[str]:
        target = f"{row.sense} {row.target:g} {row.unit}" if row.target is not None else ""
        peer_ms = f"{row.peer_ms:.2f}" if row.peer_ms is not None else ""
        return [row.what, row.peer, f"{row.ours_ms:.2f}", peer_ms, f"{row.value:.2f} {row.unit}", target, row.verdict]

    lines = [["", "peer", "ours ms", "peer ms", "ratio", "target", ""]] + [cell(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(7)]
    right = {2, 3, 4}
    return "\n".join(
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/dev"), help="where the programs were built")
    parser.add_argument("--scratch", type=Path, default=Path("build/bench"), help="on the disk to measure; about 7 GB")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument(
        "parts",
        nargs="*",
        help="measure these only: capture, record, fingerprint, open, model, blame, diff, ops, graph, quant, page",
    )
    options = parser.parse_args()
    program, command = options.build / "bench/recorder_bench", options.build / "cli/ttap"
    options.scratch.mkdir(parents=True, exist_ok=True)
    scratch = options.scratch / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)

    rows: list[Row] = []
    parts = {
        "capture": lambda: capture_rows(program, scratch),
        "record": lambda: record_rows(program, scratch),
        "fingerprint": lambda: fingerprint_rows(program, scratch),
        "open": lambda: open_rows(program, scratch, command),
        "model": lambda: model_rows(scratch),
        "blame": lambda: blame_rows(scratch),
        "serving": lambda: serving_rows(scratch),
        "diff": lambda: diff_rows(command, scratch),
        "ops": lambda: op_rows(command, scratch),
        "graph": lambda: graph_rows(scratch),
        "quant": quant_rows,
        "page": lambda: page_rows(scratch),
    }
    unknown = set(options.parts) - set(parts)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    for name, part in parts.items():
        if options.parts and name not in options.parts:
            continue
        if sys.stderr.isatty():
            print(f"\rmeasuring {name:<12}", end="", file=sys.stderr, flush=True)
        rows += part()
    if sys.stderr.isatty():
        print("\r" + " " * 24 + "\r", end="", file=sys.stderr)
    shutil.rmtree(scratch, ignore_errors=True)

    text = json.dumps([asdict(row) | {"verdict": row.verdict} for row in rows], indent=2)
    (options.scratch / "ratios.json").write_text(text + "\n")
    print(text if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
