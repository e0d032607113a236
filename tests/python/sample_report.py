"""Reports as `ttap diff --json` writes them, made up: an encoder whose layer 3 has a wrong LayerNorm."""

import base64
import math
import random
import struct

PARTS = (
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "intermediate.act", "output.dense", "output.LayerNorm",
)  # fmt: skip
FAULT = "encoder.layer.3.output.LayerNorm"
VERDICTS = ("identical", "within tolerance", "diverged", "inconclusive", "missing", "extra", "shape mismatch")


def measures(relative, shape, ulp, rng):
    count = math.prod(shape)
    rms = rng.uniform(0.5, 2)
    rmse = relative * rms
    worst = {"index": [n // 2 for n in shape], "part": 0, "a": rms, "b": rms + 6 * rmse}
    return {
        "count": count, "finite": count, "unequal": count // 2, "outside": count // 7 if relative > 1e-5 else 0,
        "nan_mismatches": 0, "inf_mismatches": 0, "max_abs": 6 * rmse, "mean_abs": 0.8 * rmse,
        "max_rel": 900 * relative, "rmse": rmse, "cosine": 1 - relative**2 / 2, "sqnr_db": -20 * math.log10(relative),
        "rms_a": rms,
        "rms_b": rms * (1 + relative), "max_ulp": ulp, "p99_ulp": ulp // 3, "worst": worst,
    }  # fmt: skip


def tensor(order, key, verdict, shape=(32, 128, 384), **more):
    return {
        "order": order, "key": key, "matched": "key", "confidence": 1, "event_kind": "module",
        "parent": key.rpartition(".")[0], "dtype": "f32", "shape": list(shape), "verdict": verdict,
        "evidence": "values", "cause": "", "reason": "", "from": None, "ranks": [], "note": "",
        "measures": None, "axes": [],
        "tolerance": {"rtol": 1e-5, "atol": 1.3e-7, "predicate": None, "source": "f32 default"},
    } | more  # fmt: skip


def names(layers):
    yield from (f"embeddings.{part}" for part in ("word_embeddings", "position_embeddings", "LayerNorm"))
    yield from (f"encoder.layer.{layer}.{part}" for layer in range(layers) for part in PARTS)
    yield "pooler.dense"


def encoder(layers=6, seed=0):
    """The tensors of a pass: equal, then close, then the fault and all that inherits it."""
    rng = random.Random(seed)
    tensors, fault = [], None
    for order, key in enumerate(names(layers)):
        if order < 3:
            tensors.append(tensor(order, key, "identical", evidence="hash"))
        elif fault is None and key != FAULT:
            relative = 10 ** rng.uniform(-7.5, -6.4)
            numbers = measures(relative, (32, 128, 384), rng.randrange(2, 60), rng)
            tensors.append(tensor(order, key, "within tolerance", measures=numbers))
        else:
            relative = 0.021 if fault is None else 10 ** rng.uniform(-2.3, -0.9)
            numbers = measures(relative, (32, 128, 384), rng.randrange(10**5, 10**6), rng)
            axes = [{"axis": 2, "first": 17, "width": 1, "max_abs": numbers["max_abs"], "share": 0.34}]
            blame = {"cause": "inherited", "from": fault, "reason": "an input had already diverged"}
            if fault is None:
                blame = {"cause": "introduced", "reason": "its input encoder.layer.3.output.dense agrees"}
            tensors.append(tensor(order, key, "diverged", measures=numbers, axes=axes, **blame))
            fault = order if fault is None else fault
    return tensors, fault


def packed(numbers):
    """As src/report/text/packed_numbers.h says."""
    found = [number for number in numbers if 0 < number < math.inf]
    low, high = min(found, default=0), max(found, default=0)
    scale = 65533 / math.log(high / low) if low < high else 0

    def code(number):
        if number == 0:
            return 0
        return 1 + round(math.log(number / low) * scale) if number < math.inf else 65535

    codes = struct.pack(f"<{len(numbers)}H", *map(code, numbers))
    return {"low": low, "high": high, "base64": base64.b64encode(codes).decode()}


def detail(pass_number, position, shape=(32, 128, 384), seed=0, side=64):
    rng = random.Random(seed)
    rows, columns = math.prod(shape[:-1]), shape[-1]
    down, right = min(side, rows), min(side, columns)
    stripe = rng.randrange(right)
    cells = [
        0 if rng.random() < 0.02 else float(f"{10 ** rng.gauss(-1 if i % right == stripe else -2.5, 0.5):.3g}")
        for i in range(down * right)
    ]

    def noise(size):
        return [round(abs(rng.gauss(0, 0.1)), 4) for _ in range(size)]

    bell = [int(40000 * math.exp(-(((i - 24) / 7) ** 2))) for i in range(48)]
    return {
        "pass": pass_number, "tensor": position,
        "heat": {
            "rows": rows, "columns": columns, "row_step": -(-rows // down), "column_step": -(-columns // right),
            "cells_down": down, "cells_right": right, "cells": packed(cells) if side > 64 else cells,
        },
        "histogram": {"low": -4.0, "high": 4.0, "a": bell, "b": [*bell[2:], 40, 12]},
        "axes": [
            {"axis": axis, "width": 1, "max_abs": noise(size), "rmse": noise(size), "outside": noise(size)}
            for axis, size in enumerate(shape)
        ],
        "worst": [
            {"index": [rng.randrange(n) for n in shape], "part": 0, "a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
            for _ in range(10)
        ],
    }  # fmt: skip


def run(path, **more):
    versions = {"python": "3.11.2", "torch": "2.13.0", "numpy": "2.2.0"}
    metadata = {"argv": ["encode.py"], "platform": "Linux", "versions": versions, "threads": 8, "cuda": None}
    coverage = {
        "roots": [{"name": "BertModel", "modules": 115, "selected": 78, "passes": 1}],
        "never_called": [{"name": "pooler.activation", "type": "Tanh", "why": "never called"}],
        "outside_steps": 0, "late_gradients": 0, "notes": [],
    }  # fmt: skip
    return {"path": path, "ranks": 1, "metadata": metadata | more, "coverage": coverage}


def report(passes, details=(), **more):
    """A report of these lists of tensors, with its counts."""
    everything = [tensor for tensors in passes for tensor in tensors]
    places = [
        {"pass": p, "tensor": i}
        for p, tensors in enumerate(passes)
        for i, tensor in enumerate(tensors)
        if tensor["cause"] == "introduced"
    ]
    counts = {verdict: sum(tensor["verdict"] == verdict for tensor in everything) for verdict in VERDICTS}
    return {
        "format": "ttap-diff", "version": 1, "verdict": "diverged" if counts["diverged"] else "identical",
        "sentence": "No tensor diverged.", "evidence": [],
        "a": run("runs/reference"), "b": run("runs/changed", threads=4),
        "counts": counts, "options": {"rtol": None, "atol": None, "noise": None, "details": 200},
        "first": places[0] if places else None, "introduced": places,
        "passes": [
            {"a": f"rank 0, pass {p}", "b": f"rank 0, pass {p}", "tensors": tensors} for p, tensors in enumerate(passes)
        ],
        "unmatched_passes": [], "details": list(details), "thinned": [], "warnings": [],
    } | more  # fmt: skip


def sample():
    """One pass with a bit of everything."""
    tensors, fault = encoder()
    end = len(tensors)
    odd = measures(1e-3, (4, 5), 9, random.Random(1)) | {"nan_mismatches": 3, "max_abs": "nan", "outside": 3}
    tensors += [
        tensor(end, "head.dense@in/0", "diverged", (4, 5), measures=odd, cause="unknown", reason="no inputs recorded"),
        tensor(end + 1, "head.dense", "inconclusive", evidence="hash", reason="only hashes were kept"),
        tensor(end + 2, "head.old_norm", "missing"),
        tensor(end + 3, "head.new_norm", "extra"),
        tensor(end + 4, "head.out", "shape mismatch", (4, 5), shape_b=[5, 4], dtype_b="bf16"),
        tensor(end + 5, "head.renamed", "within tolerance", key_b="head.was_called_else", matched="structure",
               confidence=0.81, measures=measures(2e-7, (8,), 3, random.Random(2))),
    ]  # fmt: skip
    return report(
        [tensors],
        [detail(0, fault), detail(0, fault + 1, seed=1), detail(0, end, (4, 5), seed=2)],
        sentence=f"The two runs part at {FAULT}, which introduced the error.",
        evidence=[
            "2.1 % relative error, 14 % of 1,572,864 elements out of tolerance (f32 default)",
            "its input encoder.layer.3.output.dense agrees to 3e-07",
            "20 later tensors inherit it",
        ],
        unmatched_passes=[{"side": "a", "place": "rank 0, pass 4"}],
        thinned=["details of 3 of 27 tensors: the introduced ones, then the largest errors"],
        warnings=["--tol 'decoder' matched no tensor"],
    )


def many(tensors, details):
    """As many tensors and details as asked for."""
    rows, fault = encoder(layers=max(4, -(-tensors // len(PARTS))))
    rows = rows[:tensors]
    found = [detail(0, position, seed=position, side=128) for position in range(fault, min(len(rows), fault + details))]
    kept = f"details of {len(found)} of {len(rows)} tensors: the largest errors"
    return report([rows], found, sentence=f"The two runs part at {FAULT}.", thinned=[kept])


def two_ranks():
    """What a collective returned on the first rank came from the second one."""
    summed = tensor(0, "sum", "diverged", cause="inherited") | {"from": 1, "from_pass": 1}
    made = [tensor(0, "input", "identical"), tensor(1, FAULT, "diverged", cause="introduced")]
    return report([[summed], made])
