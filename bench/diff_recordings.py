"""Comparing two recordings: how long it takes, beside `cmp` and a NumPy script, and how much memory."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensortap as tap
import torch
from torch import nn

TENSORS, ELEMENTS = 64, 8 << 20  # 2 GiB of float32
SMALL, CALLS = 1000, 1000


class Layers(nn.Module):
    """Modules whose outputs are handed to them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Identity() for _ in range(count))

    def forward(self, make: Callable[[int], torch.Tensor]) -> None:
        for number, layer in enumerate(self.layers):
            layer(make(number))


@dataclass
class Figures:
    ours_s: float
    ours_rss_mib: float  # beyond what is mapped from files
    cmp_s: float
    numpy_s: float
    msprobe_s: float | None  # None where it is not installed
    records: int
    records_s: float


def make_pair(scratch: Path) -> tuple[Path, Path]:
    """Two recordings of 2 GiB whose tensors all differ a little, and nothing in between is equal."""
    noise = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(1)) * 1e-5
    base = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(0)).reshape(64, 128, -1)
    for name, error in (("a", 0.0), ("b", 1.0)):

        def make(number: int, error: float = error) -> torch.Tensor:
            return base + 0.01 * number + error * noise.reshape(base.shape)

        model = Layers(TENSORS)
        with torch.no_grad(), tap.record(model, scratch / name, report=False):
            model(make)
    return scratch / "a", scratch / "b"


class Often(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Layers(SMALL)

    def forward(self, make: Callable[[int], torch.Tensor]) -> None:
        for _ in range(CALLS):
            self.inner(make)


def make_many(scratch: Path) -> tuple[Path, Path]:
    """Two recordings of a million tensors each, fingerprints only."""
    tensors = [torch.full((4,), float(number)) for number in range(97)]
    for name in ("many_a", "many_b"):
        model = Often()
        with torch.no_grad(), tap.record(model, scratch / name, level="fingerprint", report=False):
            model(lambda number: tensors[number % 97])
    return scratch / "many_a", scratch / "many_b"


def numpy_measures(a: np.ndarray, b: np.ndarray) -> tuple:
    """What `ttap diff` measures, as one would write it."""
    x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    d = np.abs(y - x)
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(x != 0, d / np.abs(x), 0)

    def ordered(v: np.ndarray) -> np.ndarray:
        bits = v.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    steps = np.abs(ordered(a.reshape(-1)) - ordered(b.reshape(-1)))
    worst = int(d.argmax())
    shaped = d.reshape(a.shape)
    axes = []
    for axis in range(a.ndim):
        others = tuple(i for i in range(a.ndim) if i != axis)
        axes.append((shaped.max(axis=others), (shaped**2).mean(axis=others)))
    return (
        d.max(),
        d.mean(),
        relative.max(),
        np.sqrt((d * d).mean()),
        x @ y / np.sqrt((x @ x) * (y @ y)),
        10 * np.log10((x @ x) / (d @ d)),
        steps.max(),
        np.percentile(steps, 99),
        (d > 1e-5 + 1e-5 * np.abs(x)).sum(),
        (~finite).sum(),
        worst,
        axes,
    )


def msprobe_measures() -> Callable[[np.ndarray, np.ndarray], object] | None:
    """What `msprobe compare` computes of a pair, six of the measures; `pip install mindstudio-probe` to have it."""
    try:
        from msprobe.core.compare.npy_compare import compare_ops_apply, npy_data_check
    except ImportError:
        return None

    def measure(a: np.ndarray, b: np.ndarray) -> object:
        return compare_ops_apply(a, b, *npy_data_check(a, b))

    return measure


def timed(work: Callable[[], object], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def rss_of(arguments: list[str]) -> float:
    """MiB of anonymous memory at its most, of a program that maps its files: sampled while it runs."""
    most = 0
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            for line in status.splitlines():
                if line.startswith("RssAnon:"):
                    most = max(most, int(line.split()[1]))
            time.sleep(0.005)
    return most / 1024


def measure(command: Path, scratch: Path) -> Figures:
    scratch = scratch / "diff"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    a, b = make_pair(scratch)
    (file_a,) = a.glob("*/*.ttap")
    diff = [str(command), "diff", str(a), str(b)]

    def run(arguments: list[str]) -> None:
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=False)

    # `cmp` stops at the first difference: it is given the same bytes twice. All lies in the page cache.
    same = scratch / "copy.ttap"
    shutil.copyfile(file_a, same)
    cmp_s = timed(lambda: run(["cmp", str(file_a), str(same)]))
    same.unlink()
    ours_s = timed(lambda: run(diff))
    rss = rss_of(diff)

    pass_a, pass_b = tap.open(a).ranks[0].passes[0], tap.open(b).ranks[0].passes[0]
    keys = list(pass_a)[:4]  # the rest takes as long, a sixteenth at a time
    pairs = [(pass_a[key].numpy(), pass_b[key].numpy()) for key in keys]
    share = TENSORS / len(keys)
    numpy_s = timed(lambda: [numpy_measures(x, y) for x, y in pairs], 1) * share
    peer = msprobe_measures()
    msprobe_s = timed(lambda: [peer(x.copy(), y.copy()) for x, y in pairs], 1) * share if peer else None
    shutil.rmtree(a)
    shutil.rmtree(b)

    many = [str(path) for path in make_many(scratch)]
    records_s = timed(lambda: run([str(command), "diff", *many]))
    rss = max(rss, rss_of([str(command), "diff", *many]))
    shutil.rmtree(scratch)
    return Figures(ours_s, rss, cmp_s, numpy_s, msprobe_s, SMALL * CALLS, records_s)
