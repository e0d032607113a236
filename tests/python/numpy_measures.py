"""The measures of a diff, in float64 NumPy and Python integers: a second opinion, slow and plain."""

import math

import numpy as np

# significand bits without the leading one, smallest exponent, largest finite value
FORMATS = {
    "f64": (52, -1022, np.finfo(np.float64).max),
    "f32": (23, -126, float(np.finfo(np.float32).max)),
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, 3.3895313892515355e38),
    "f8_e4m3fn": (3, -6, 448.0),
    "f8_e5m2": (2, -14, 57344.0),
}


def step(value: float, format: str) -> int:
    """Which representable value of the format this is, counted from zero; one above the largest beyond it."""
    bits, least, most = FORMATS[format]
    if value == 0:
        return 0
    exponent = max(math.frexp(abs(value))[1] - 1, least)
    # Exact: a power of two away from the value.
    steps = (exponent - least) * 2**bits + round_half_even(abs(value), exponent - bits)
    largest = (math.frexp(most)[1] - 1 - least) * 2**bits + round_half_even(most, math.frexp(most)[1] - 1 - bits)
    return int(math.copysign(1, value)) * min(steps, largest + 1)


def round_half_even(value: float, exponent: int) -> int:
    scaled = (
        math.ldexp(value, -exponent)
        if abs(exponent) < 1000
        else math.ldexp(math.ldexp(value, -exponent // 2), -exponent - -exponent // 2)
    )
    return round(scaled)


def measures(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool = False) -> dict:
    """Of two float64 arrays that hold the exact values; `a` is the reference."""
    a, b = a.reshape(-1), b.reshape(-1)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    finite = np.isfinite(a) & np.isfinite(b)
    nan_mismatch = (nan_a != nan_b) | ((nan_a & nan_b) if not equal_nan else np.zeros_like(nan_a))
    inf_mismatch = ~nan_a & ~nan_b & ~finite & (a != b)
    x, y = a[finite], b[finite]
    with np.errstate(over="ignore"):
        d = np.abs(y - x)
    out = {
        "count": a.size,
        "finite": int(finite.sum()),
        "unequal": int((~((a == b) | (nan_a & nan_b))).sum()),
        "nan_mismatches": int(nan_mismatch.sum()),
        "inf_mismatches": int(inf_mismatch.sum()),
        "outside": int(nan_mismatch.sum() + inf_mismatch.sum() + (d > atol + rtol * np.abs(x)).sum()),
    }
    if x.size == 0:
        return out
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        aa, bb, ab, dd = (math.fsum(v) for v in (x * x, y * y, x * y, d * d))
        out["max_abs"] = d.max()
        out["mean_abs"] = math.fsum(d) / x.size
        out["rmse"] = math.sqrt(dd / x.size)
        out["max_rel"] = (d[x != 0] / np.abs(x[x != 0])).max() if (x != 0).any() else math.nan
        out["cosine"] = 1.0 if aa == bb == 0 else 0.0 if aa == 0 or bb == 0 else ab / math.sqrt(aa) / math.sqrt(bb)
        out["sqnr_db"] = math.inf if dd == 0 else 10 * math.log10(aa / dd) if aa > 0 else -math.inf
        out["rms_a"], out["rms_b"] = math.sqrt(aa / x.size), math.sqrt(bb / x.size)
    return out


def ulps(a: np.ndarray, b: np.ndarray, format: str) -> tuple[int, int]:
    """The largest distance, and the smallest that at least 99 % of the finite pairs do not exceed."""
    a, b = a.reshape(-1), b.reshape(-1)
    finite = np.isfinite(a) & np.isfinite(b)
    distances = sorted(
        abs(step(float(x), format) - step(float(y), format)) for x, y in zip(a[finite], b[finite], strict=True)
    )
    return distances[-1], distances[math.ceil(0.99 * len(distances)) - 1]
