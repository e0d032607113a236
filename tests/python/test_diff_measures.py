"""What `diff` measures, against a float64 NumPy implementation."""

import math

import pytest
import tensortap as tap
import torch
from numpy_measures import measures, ulps

RTOL, ATOL = 1e-3, 1e-4
NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8_e4m3fn",
    torch.float8_e5m2: "f8_e5m2",
}
COARSENESS = list(NAMES)


def compare(a, b, **options):
    options = {"rtol": RTOL, "atol": ATOL} | options
    return tap.diff({"x": a}, {"x": b}, **options)["x"]


def values(tensor):
    """The exact values, as float64; a complex one is two."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.to(torch.float64).numpy()


def check(a, b, **options):
    found = compare(a, b, **options).measures
    expected = measures(
        values(a), values(b), options.get("rtol", RTOL), options.get("atol", ATOL), options.get("equal_nan", False)
    )
    for name, number in expected.items():
        if isinstance(number, int):
            assert found[name] == number, name
        else:
            assert found[name] == pytest.approx(number, rel=1e-9, abs=0, nan_ok=True), name
    return found


def spread(shape, dtype, seed=0, noise=1e-3):
    """Two tensors of many magnitudes that are nearly, and sometimes exactly, the same."""
    make = torch.Generator().manual_seed(seed)
    a = torch.randn(shape, generator=make, dtype=torch.float64) * 10 ** torch.empty(
        shape, dtype=torch.float64
    ).uniform_(-3, 2, generator=make)
    b = a * (1 + noise * torch.randn(shape, generator=make, dtype=torch.float64))
    b = torch.where(torch.rand(shape, generator=make) < 0.2, a, b)
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("dtype", NAMES, ids=NAMES.values())
@pytest.mark.parametrize("shape", [(1000,), (3, 5, 67), (2, 1, 3, 1, 4, 129)])
def test_one_dtype(dtype, shape):
    a, b = spread(shape, dtype)
    found = check(a, b)
    assert (found["max_ulp"], found["p99_ulp"]) == ulps(values(a), values(b), NAMES[dtype])


@pytest.mark.parametrize("dtype_a", NAMES, ids=NAMES.values())
@pytest.mark.parametrize("dtype_b", NAMES, ids=NAMES.values())
def test_two_dtypes_are_widened(dtype_a, dtype_b):
    a, b = spread((7, 131), torch.float64)
    a, b = a.to(dtype_a), b.to(dtype_b)
    found = check(a, b)
    coarser = max(dtype_a, dtype_b, key=COARSENESS.index)
    assert (found["max_ulp"], found["p99_ulp"]) == ulps(values(a), values(b), NAMES[coarser])


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex(dtype):
    real, imag = spread((40, 9), torch.float64, 1), spread((40, 9), torch.float64, 2)
    check(torch.complex(real[0], imag[0]).to(dtype), torch.complex(real[1], imag[1]).to(dtype))


@pytest.mark.parametrize("far", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=["f32", "f64", "bf16"])
def test_ulps_far_apart_are_exact(dtype, far):
    a, b = spread((900,), dtype, 3, noise=far)
    found = check(a, b)
    assert (found["max_ulp"], found["p99_ulp"]) == ulps(values(a), values(b), NAMES[dtype])


def test_special_values():
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 3.4e38]
    a = torch.tensor([x for x in special for _ in special])
    b = torch.tensor([y for _ in special for y in special])
    check(a, b)
    check(a, b, equal_nan=True)
    check(a.double() * 1e100, b.double() * 1e100, rtol=0.0, atol=0.0)


def test_finite_against_infinite_is_outside_whatever_the_tolerance():
    found = compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, math.inf]), rtol=1e300, atol=1e300)
    assert found.verdict == "diverged" and found.inf_mismatches == 1
    assert found.worst == {"index": [1], "part": 0, "a": 2.0, "b": math.inf}


def test_the_worst_is_the_largest_error_and_its_first():
    a = torch.zeros(3, 4)
    b = a.clone()
    b[1, 2] = -5
    b[2, 3] = 5
    assert compare(a, b).worst == {"index": [1, 2], "part": 0, "a": 0.0, "b": -5.0}


def test_zero_of_the_other_sign_agrees_and_is_not_identical():
    found = compare(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0]), rtol=0.0, atol=0.0)
    assert found.verdict == "within tolerance" and found.max_abs == 0 and found.unequal == 0 and found.max_ulp == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_are_compared_exactly(dtype):
    limits = torch.iinfo(dtype)
    a = torch.tensor([limits.max, limits.max - 1, 0, 3, 7], dtype=dtype)
    b = torch.tensor([limits.max - 1, limits.max - 1, 1, 3, 9], dtype=dtype)
    found = compare(a, b)
    assert found.verdict == "diverged" and found.unequal == found.outside == 3
    assert found.max_abs == 2 and found.mean_abs == pytest.approx(4 / 5, rel=1e-12)
    assert found.worst == {"index": [4], "part": 0, "a": 7, "b": 9}
    assert found.max_ulp is None


def test_int64_beyond_two_to_the_53():
    a = torch.tensor([2**62, -(2**63), 2**53 + 1])
    b = torch.tensor([2**62 + 1, 2**63 - 1, 2**53 + 1])
    found = compare(a, b)
    assert found.unequal == 2 and found.max_abs == float(2**64 - 1)
    assert found.worst["a"] == -(2**63) and found.worst["b"] == 2**63 - 1


def test_an_integer_against_a_float_is_exact():
    found = compare(torch.tensor([2**53 + 1, 5]), torch.tensor([2.0**53, 5.0], dtype=torch.float64), rtol=0.0, atol=0.0)
    assert found.unequal == 1 and found.max_abs == 1


def test_bool():
    found = compare(torch.tensor([True, False, True]), torch.tensor([True, True, True]))
    assert found.verdict == "diverged" and found.unequal == 1 and found.worst["index"] == [1]


def test_no_elements_and_no_dimensions():
    assert compare(torch.zeros(0, 3), torch.zeros(0, 3)).verdict == "identical"
    found = check(torch.tensor(2.0), torch.tensor(3.0))
    assert found["worst"] == {"index": [], "part": 0, "a": 2.0, "b": 3.0}


def test_strided_tensors_are_compared_by_their_elements():
    a = torch.randn(64, 48)
    assert compare(a, a.t().contiguous().t()).verdict in ("identical", "within tolerance")
    b = a.clone()
    b[3, 4] += 1
    assert compare(a, b.t().contiguous().t()).worst["index"] == [3, 4]


def test_the_axis_that_carries_the_error_is_named():
    a = torch.randn(4, 6, 32, generator=torch.Generator().manual_seed(0))
    b = a.clone()
    b[:, 5, :] += 1
    axes = {axis["axis"]: axis for axis in compare(a, b).axes}
    assert axes[1]["first"] == 5 and axes[1]["share"] == pytest.approx(1) and axes[1]["max_abs"] == pytest.approx(1)
    assert axes[0]["share"] == pytest.approx(1 / 4) and axes[2]["share"] == pytest.approx(1 / 32)


def test_the_result_does_not_depend_on_the_threads():
    a, b = spread((3000, 700), torch.float32)
    one, many = (tap.diff({"x": a}, {"x": b}, threads=n)["x"] for n in (1, 5))
    assert one.measures == many.measures and one.axes == many.axes
    assert one.rmse == pytest.approx(float(((b.double() - a.double()) ** 2).mean().sqrt()), rel=1e-9)
