"""How much of the output's error the graft of the wrong operator or module removes, and that of an innocent one."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensortap as tap
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/python"))
sys.path.insert(0, str(Path(__file__).parent.parent / "blame"))
sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))
from architectures import architecture
from table import aligned
from wrong_kernels import FAULTS as KERNELS
from wrong_kernels import Fault as Kernel
from wrong_kernels import planted

# bench/verdicts has a file of that name, too.
spec = importlib.util.spec_from_file_location("module_faults", Path(__file__).parents[2] / "tests/python/faults.py")
assert spec is not None
assert spec.loader is not None
module_faults = sys.modules["module_faults"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module_faults)

ENOUGH, NONE = 0.99, 0.05


@dataclass
class Outcome:
    """One fault: the share of the error that two grafts removed."""

    kind: str  # module or op
    fault: str
    culprit: str
    removed: float
    innocent: str
    removed_by_innocent: float

    @property
    def right(self) -> bool:
        return self.removed >= ENOUGH and abs(self.removed_by_innocent) < NONE


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def upstream(recorded: tap.Pass, culprit: str, kind: str) -> str | None:
    """The call half-way to the first result of the culprit that is of this kind and has bytes."""
    before = []
    for record in recorded.records:
        event = recorded.events[record.event] if record.event is not None else None
        if event is not None and event.kind == kind and record.role == "out":
            if record.name == culprit:
                break
            is_view = event.name.rpartition("::")[2].split(".")[0] in VIEWS
            is_inside = record.name.startswith(f"{culprit}.")
            if record.has_bytes and record.dtype in ("f32", "bf16") and not is_view and not is_inside:
                before.append(record.key)
    return before[len(before) // 2] if before else None


VIEWS = {"t", "view", "transpose", "unsqueeze", "expand", "slice", "permute", "select", "detach", "split", "alias",
         "_unsafe_view", "squeeze", "as_strided", "chunk", "unbind"}  # fmt: skip


def of_module(fault: Any) -> Outcome | None:
    """A fault of tests/python/faults.py, in a module."""
    with folder() as out:
        model, passes = module_faults.make(fault.architecture)
        right = module_faults.record(model, passes, out / "right")
        wrong, passes = fault.planted()
        module_faults.record(wrong, passes, out / "wrong")

        def removed(keys: list[str]) -> float:
            again, passes = fault.planted()
            place = out / keys[0].replace("/", "_")
            with tap.graft(again, right, keys) as grafted:
                module_faults.record(again, passes, place)
            assert grafted.placed, str(grafted)
            return tap.removed_error(right, out / "wrong", place)

        recorded, culprit = tap.open(right).ranks[0].passes[fault.in_pass], fault.module
        calls = [record.key for record in recorded.records if record.name == culprit and record.role == "out"]
        innocent = upstream(recorded, culprit, "module")
        by_innocent = removed([innocent]) if innocent else 0.0
        return Outcome("module", str(fault), culprit, removed(calls), innocent or "", by_innocent)


def of_kernel(fault: Kernel, of: Any, dtype: str, seed: int) -> Outcome | None:
    """A fault of bench/blame, in one call of a kernel; None where the model's gradients do not notice."""

    def run(at: int | None, graft: Callable[[torch.nn.Module], Any] | None = None) -> tuple[tap.Trace, Any]:
        model, inputs = of.model(seed, dtype), of.sample(seed + 1, dtype)
        around = graft(model) if graft is not None else contextlib.nullcontext()
        with planted(fault, at) as seen, around, tap.trace(model, level="full") as trace:
            made = model(**inputs)
            first = made.logits if hasattr(made, "logits") else made[0]
            first.float().square().mean().backward()
        return trace, seen

    right, seen = run(None)
    calls = seen.calls
    if not calls:
        return None
    at = calls // 2
    wrong, seen = run(at)
    of_op = [event for event in wrong.events if event.name.endswith(fault.recorded)]
    if not seen.changed or len(of_op) != calls:
        return None
    event = of_op[at]
    culprit = event.name if event.call == 1 else f"{event.name}::call{event.call}"
    try:
        tap.removed_error(right.recorded, wrong.recorded, wrong.recorded)
    except ValueError:
        return None

    def removed(key: str) -> float:
        with folder() as place:
            right.save(place)
            kept: list[Any] = []

            def graft(model: torch.nn.Module) -> Any:
                kept.append(tap.graft(model, place, key))
                return kept[0]

            trace, _ = run(at, graft)
            assert kept[0].placed, str(kept[0])
            return tap.removed_error(right.recorded, wrong.recorded, trace.recorded)

    innocent = upstream(right.recorded, event.name, "op")
    by_innocent = removed(innocent) if innocent else 0.0
    name = f"{of.name} {dtype} {fault.name}"
    return Outcome("op", name, culprit, removed(culprit), innocent or "", by_innocent)


def outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    if options.only != "ops":
        for fault in module_faults.FAULTS[: options.most]:
            if (made := of_module(fault)) is not None:
                yield made
    if options.only != "modules":
        count = 0
        for fault in KERNELS:
            for name in options.architectures:
                for dtype in fault.dtypes:
                    if count == options.most:
                        return
                    if (made := of_kernel(fault, architecture(name), dtype, options.seed)) is not None:
                        count += 1
                        yield made


def main() -> int:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", type=lambda text: text.split(","), default=["bert", "llama"])
    parser.add_argument("--only", choices=["modules", "ops"])
    parser.add_argument("--most", type=int, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = []
    for one in outcomes(options):
        made.append(one)
        if not one.right:
            print(
                f"{one.fault}: {one.culprit} {one.removed:.4f}, {one.innocent} {one.removed_by_innocent:.4f}",
                flush=True,
            )
    rows = []
    for kind in sorted({one.kind for one in made}):
        of = [one for one in made if one.kind == kind]
        rows.append(
            {
                "in": kind,
                "faults": len(of),
                "removed ≥ 99 %": sum(one.removed >= ENOUGH for one in of),
                "least": f"{min(one.removed for one in of):.6f}",
                "innocent < 5 %": sum(abs(one.removed_by_innocent) < NONE for one in of),
                "most by an innocent": f"{max(abs(one.removed_by_innocent) for one in of):.6f}",
            }
        )
    print(aligned(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in made], indent=1))
    return 0 if all(one.right for one in made) else 1


if __name__ == "__main__":
    sys.exit(main())
