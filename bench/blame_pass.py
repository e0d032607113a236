"""How long it takes to blame a pass of MiniLM beside its forward, and the memory that it takes."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tensortap as tap
import torch
from model_recording import load_model


@dataclass
class Figures:
    """Seconds; and in MiB what the process holds more at its peak than before, and its largest tensor in float64."""

    forward_s: float
    blame_s: float
    calls: int
    memory_mib: float
    largest_mib: float


def measure(scratch: Path) -> Figures:
    """In a process of its own, whose peak of memory is that of the blame."""
    text = subprocess.run(
        [sys.executable, __file__, str(scratch / "blamed")], check=True, capture_output=True, text=True
    ).stdout
    return Figures(*map(float, text.split()))


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    model, inputs = load_model()
    folder = Path(sys.argv[1])
    with torch.no_grad():
        model(**inputs)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            model(**inputs)
            times.append(time.perf_counter() - began)
        with tap.record(model, folder, ops=True, level="full"):
            model(**inputs)
    before = _peak_kib()
    began = time.perf_counter()
    found = tap.blame(folder)
    seconds = time.perf_counter() - began
    if not found.ok:
        raise SystemExit(f"MiniLM is blamed: {found}")
    kept = tap.open(folder).ranks[0].passes[0]
    largest = max(torch.Size(record.shape).numel() for record in kept.records) * 8
    print(statistics.median(times), seconds, found.judged, (_peak_kib() - before) / 1024, largest / 2**20)


if __name__ == "__main__":
    main()
