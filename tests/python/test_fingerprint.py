"""The fingerprint against NumPy in float64, and its hash against an implementation of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hash128 import hash128, hash128_fast
from sketch import VALUE_BYTES, sketch, values_of_bytes

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("TTAP_TEST_TOOLS", REPOSITORY / "build/dev/tests/fingerprint")) / "fingerprint_tool"
TOLERANCE = 1e-12

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built; set TTAP_TEST_TOOLS")

NUMPY = {
    "bool": np.bool_, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip
TORCH = {
    "bf16": "bfloat16",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0fnu": "float8_e8m0fnu",
}
TINY = {
    "f16": 2.0**-14, "f32": 2.0**-126, "c64": 2.0**-126, "f64": 2.0**-1022, "c128": 2.0**-1022, "bf16": 2.0**-126,
    "f8_e4m3fn": 2.0**-6, "f8_e5m2": 2.0**-14, "f8_e4m3fnuz": 2.0**-7, "f8_e5m2fnuz": 2.0**-15,
}  # fmt: skip


def run_tool(tmp_path: Path, dtype: str, data: bytes, path: str = "best", threads: int = 1) -> dict:
    file = tmp_path / "elements"
    file.write_bytes(data)
    return json.loads(subprocess.check_output([TOOL, dtype, file, path, str(threads)]))


def values_of(dtype: str, data: bytes) -> np.ndarray:
    """The real values of raw bytes as float64."""
    if dtype in NUMPY:
        array = np.frombuffer(data, dtype=NUMPY[dtype])
        if array.dtype.kind == "c":
            array = array.view(array.real.dtype)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return array.astype(np.float64)
    torch = pytest.importorskip("torch")
    if not hasattr(torch, TORCH[dtype]):
        pytest.skip(f"this PyTorch has no {TORCH[dtype]}")
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(getattr(torch, TORCH[dtype]))
    with np.errstate(invalid="ignore"):
        return tensor.to(torch.float32).numpy().astype(np.float64)


def expect_agreement(found: dict, dtype: str, data: bytes) -> None:
    values = values_of(dtype, data)
    finite = values[np.isfinite(values)]
    magnitudes = np.abs(finite)
    assert found["count"] == values.size
    assert found["nan"] == np.isnan(values).sum()
    assert found["pos_inf"] == np.isposinf(values).sum()
    assert found["neg_inf"] == np.isneginf(values).sum()
    assert found["zeros"] == (finite == 0).sum()
    assert found["subnormals"] == ((magnitudes > 0) & (magnitudes < TINY.get(dtype, 0))).sum()
    if finite.size == 0:
        assert np.isnan(found["mean"]) and found["l1"] == 0
        return
    assert found["min"] == finite.min()
    assert found["max"] == finite.max()
    assert found["max_abs"] == magnitudes.max()
    if magnitudes.any():
        assert found["min_abs_nonzero"] == magnitudes[magnitudes > 0].min()
    assert abs(found["mean"] - finite.mean()) <= TOLERANCE * magnitudes.mean()
    assert found["std"] == pytest.approx(finite.std(), rel=TOLERANCE, abs=0)
    assert found["l1"] == pytest.approx(magnitudes.sum(), rel=TOLERANCE, abs=0)
    assert found["l2"] == pytest.approx(np.linalg.norm(finite), rel=TOLERANCE, abs=0)


def moderate(dtype: str, count: int, seed: int) -> bytes:
    """Values as a model has them, with some zeros."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return (random.random(count) < 0.3).tobytes()
    if dtype in NUMPY and np.dtype(NUMPY[dtype]).kind in "ui":
        kind = np.iinfo(NUMPY[dtype])
        return random.integers(kind.min, kind.max, count, dtype=NUMPY[dtype], endpoint=True).tobytes()
    real = random.normal(0.1, 1.0, 2 * count if dtype.startswith("c") else count)
    real[random.random(real.size) < 0.2] = 0
    if dtype in NUMPY:
        return real.astype(np.dtype(NUMPY[dtype]).type(0).real.dtype).tobytes()
    if dtype == "bf16":
        return (real.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return random.integers(0, 256, count, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("path", ["best", "scalar", "avx2"])
@pytest.mark.parametrize("dtype", [*NUMPY, *TORCH])
def test_statistics_agree_with_numpy(tmp_path: Path, dtype: str, path: str) -> None:
    for count in (1, 2, 3, 17, 64, 1000, 4097, 300_001):
        data = moderate(dtype, count, count)
        expect_agreement(run_tool(tmp_path, dtype, data, path), dtype, data)


# Not of f64, where squares of arbitrary values overflow, in NumPy too.
@pytest.mark.parametrize("dtype", [name for name in [*NUMPY, *TORCH] if name not in ("f64", "c128")])
def test_any_bits_are_understood(tmp_path: Path, dtype: str) -> None:
    data = np.random.default_rng(5).integers(0, 256, 16 * 5000, dtype=np.uint8).tobytes()
    if dtype == "bool":
        data = bytes(b & 1 for b in data)
    expect_agreement(run_tool(tmp_path, dtype, data), dtype, data)


@pytest.mark.parametrize("path", ["best", "scalar", "avx2"])
def test_a_small_spread_beside_a_large_mean(tmp_path: Path, path: str) -> None:
    data = np.random.default_rng(6).normal(1e6, 1.0, 1_000_000).tobytes()
    expect_agreement(run_tool(tmp_path, "f64", data, path), "f64", data)


def test_threads_do_not_show(tmp_path: Path) -> None:
    data = np.random.default_rng(7).normal(3, 1, 2_000_000).astype(np.float32).tobytes()
    one = run_tool(tmp_path, "f32", data)
    assert all(run_tool(tmp_path, "f32", data, threads=threads) == one for threads in (0, 2, 3, 4))


@pytest.mark.parametrize("path", ["best", "scalar", "avx2"])
def test_the_hash_is_the_one_in_the_document(tmp_path: Path, path: str) -> None:
    random = np.random.default_rng(8)
    for size in (0, 1, 8, 63, 64, 65, 4095, 4096, 4097, 9999):
        data = random.bytes(size)
        assert hash128(data) == hash128_fast(data)
        assert run_tool(tmp_path, "u8", data, path)["hash"] == hash128(data)
    large = random.bytes(6_000_001)
    assert run_tool(tmp_path, "u8", large, path, threads=2)["hash"] == hash128_fast(large)


@pytest.mark.parametrize("path", ["best", "scalar"])
@pytest.mark.parametrize("dtype", VALUE_BYTES)
def test_the_sketch_is_what_the_document_says(tmp_path, dtype, path):
    size = VALUE_BYTES[dtype]
    for count in (0, 2, 30, 1000, 4096, 100_002):
        values = np.random.default_rng(count).normal(size=count) * 10
        if dtype == "bf16":
            data = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            data = values.astype({2: np.float16, 4: np.float32, 8: np.float64}[size]).tobytes()
        found = np.array(run_tool(tmp_path, dtype, data, path)["sketch"])
        expected = sketch(values_of_bytes(dtype, data))
        assert np.linalg.norm(found - expected) <= 2e-8 * np.linalg.norm(expected)


def test_integers_and_bytes_have_no_sketch(tmp_path):
    for dtype in ("i32", "u8", "bool", "f8_e4m3fn"):
        assert "sketch" not in run_tool(tmp_path, dtype, bytes(64))
