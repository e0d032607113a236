"""`Literal` types of the public API: verdicts, causes, levels, roles, and the values of options.

    def report(verdict: tap.literals.Verdict) -> None: ...

tests/python/test_stubs.py compares them with the C++ code. A C++ program can record roles and event kinds of its own;
they are read back unchanged and are not listed here.
"""

from __future__ import annotations

from typing import Literal

# ---- what is recorded ----

Level = Literal["full", "sketch", "fingerprint", "meta"]
ProbeLevel = Literal["full", "fingerprint"]
Role = Literal["out", "in", "grad_out", "grad_in", "param", "cache"]  # what `roles=` takes
TensorRole = Literal[  # what a record may have
    "out", "in", "after", "grad_out", "grad_in", "param", "cache", "generator",
    "recompute", "recompute_in", "recompute_grad_out", "recompute_grad_in",
    "activation", "weight", "gradient", "output", "wgrad", "dgrad",  # of tap.quant.record
]  # fmt: skip
UseRole = Literal["in", "after", "out", "part"]
EventKind = Literal["module", "recompute", "op", "kernel", "graph", "node", "probe", "capture", "batch", "logprobs"]
Ending = Literal["complete", "aborted", "incomplete"]
DType = Literal[
    "bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128",
    "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0fnu", "f4_e2m1fn_x2",
]  # fmt: skip
Statistic = Literal[
    "count", "nan", "pos_inf", "neg_inf", "zeros", "subnormals",
    "min", "max", "max_abs", "min_abs_nonzero", "mean", "std", "l1", "l2",
]  # fmt: skip

# ---- options ----

Format = Literal["ttap", "pt", "safetensors", "npy"]
Modules = Literal["leaf", "all"]
Step = Literal["auto", "manual"]
WhenFull = Literal["block", "drop"]
Write = Literal["auto", "direct", "buffered"]
View = Literal["dispatch", "all", "leaf"]
ProbeMode = Literal["capture", "always"]
NonContiguous = Literal["error", "copy"]
Stage = Literal["dynamo", "aot"]
GraphPart = Literal["forward", "backward", "inference"]
Parameters = Literal["once", "always"]
ParametersFrom = Literal["recorded", "partly recorded", "of the model", "none"]  # those of a module that was replayed

# ---- what a comparison says ----

Verdict = Literal[
    "identical", "within tolerance", "diverged", "inconclusive", "missing", "extra", "shape mismatch", "flipped"
]
RunVerdict = Literal["identical", "within tolerance", "diverged", "inconclusive"]
Cause = Literal["", "introduced", "inherited", "unknown"]
Evidence = Literal["", "values", "hash", "statistics", "sketch"]
MatchedBy = Literal["", "key", "map", "declared", "structure", "values", "op", "bits", "place"]

# ---- where NaN and Inf come from ----

BlameKind = Literal["error", "nonfinite", "overflow", "rounding"]
WhoIsWrong = Literal["a", "b", "both", "neither", "unknown"]
Origin = Literal["made", "nan_from_inf", "came_in", "unknown", "uninitialised", "on_purpose", "from_rank"]

# ---- where two programs, or two runs of one, differ ----

HuntVerdict = Literal[
    "a is wrong", "b is wrong", "both are wrong", "other arguments", "only in a", "only in b", "rounding", "not known"
]

RepeatKind = Literal["draw", "uninitialised", "race", "rounding", "kernel", "argument", "data", "order", "calls"]

# ---- quantized formats ----

QuantElement = Literal[
    "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2", "e2m1", "int8", "uint8", "int4", "uint4"
]  # fmt: skip
QuantPacking = Literal["none", "low_first", "high_first"]
QuantPart = Literal["payload", "scale", "global_scale", "zero_point"]
ScaleType = Literal["f32", "f16", "bf16", "e8m0", "e4m3"]
ScaleLayout = Literal["compact", "padded", "swizzled"]
GlobalScale = Literal["none", "factor", "divisor", "amax"]
ZeroPoint = Literal["none", "integer", "value", "middle"]
MxScaleRule = Literal["floor", "ceil", "even", "rceil"]
