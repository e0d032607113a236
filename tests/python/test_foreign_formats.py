"""What we write, torch, safetensors and NumPy read; what they write, we read: dtype, shape and every bit."""

from __future__ import annotations

import json
import os
import subprocess
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")
safetensors_torch = pytest.importorskip("safetensors.torch")

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("TTAP_TEST_TOOLS", REPOSITORY / "build" / "dev"))

TORCH_NAMES = {
    "bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128",
    "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0fnu": "float8_e8m0fnu", "f4_e2m1fn_x2": "float4_e2m1fn_x2",
}  # fmt: skip
NUMPY_NAMES = {
    "bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
LAYOUTS = ["scalar", "empty", "vector", "transposed", "stepped", "expanded", "five_d"]


def tool(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run foreign_tool, wherever in the build folder it is."""
    found = next((p for p in (TOOLS / "foreign_tool", *TOOLS.rglob("foreign_tool")) if p.is_file()), None)
    if found is None:
        pytest.skip(f"no foreign_tool in {TOOLS}: build the preset `dev`, or set TTAP_TEST_TOOLS")
    return subprocess.run([found, *map(str, arguments)], capture_output=True, text=True, check=False)


def listing(path: Path) -> dict[str, Any]:
    """Read a file with our reader."""
    done = tool("list", path)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def tensors_of(path: Path) -> dict[str, dict[str, Any]]:
    return {tensor["key"]: tensor for tensor in listing(path)["tensors"]}


def error_of(path: Path) -> dict[str, str]:
    done = tool("list", path)
    assert done.returncode == 1, done.stdout + done.stderr
    return json.loads(done.stdout)


def convert(source: Path, target: Path) -> None:
    done = tool("convert", source, target)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every dtype in every layout as our writers write it."""
    folder = tmp_path_factory.mktemp("samples")
    paths = {"pt": folder / "all.pt", "safetensors": folder / "all.safetensors", "npy": folder / "all"}
    for path in paths.values():
        done = tool("samples", path)
        assert done.returncode == 0, done.stdout + done.stderr
    return paths


@pytest.fixture(scope="session")
def expected(samples: dict[str, Path]) -> dict[str, dict[str, Any]]:
    return tensors_of(samples["pt"])


def hex_of(tensor: torch.Tensor) -> str:
    """The logical elements, through the storage's bytes: not every dtype has a kernel to copy with."""
    size = tensor.element_size()
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.detach().untyped_storage())
    strides = (*(stride * size for stride in tensor.stride()), 1)
    logical = raw.as_strided((*tensor.shape, size), strides, tensor.storage_offset() * size)
    return bytes(logical.contiguous().reshape(-1).tolist()).hex()


def make(dtype: str, layout: str) -> torch.Tensor:
    """A tensor of random bits, as a view where the layout is one."""
    torch_dtype = getattr(torch, TORCH_NAMES[dtype])
    size = torch_dtype.itemsize
    generator = torch.Generator().manual_seed(size)
    high = 2 if dtype == "bool" else 256
    raw = torch.randint(0, high, (240 * size,), dtype=torch.uint8, generator=generator).view(torch_dtype)
    strided = {
        "scalar": ((), (), 7),
        "empty": ((3, 0, 2), (2, 2, 1), 0),
        "vector": ((7,), (1,), 5),
        "transposed": ((3, 4), (1, 3), 0),
        "stepped": ((3, 2), (10, 3), 4),
        "expanded": ((4, 3, 2), (2, 0, 1), 9),
        "five_d": ((2, 1, 3, 2, 2), (12, 12, 4, 2, 1), 1),
    }[layout]
    return raw.as_strided(*strided)


def same(ours: dict[str, Any], theirs: torch.Tensor, dtype: str) -> None:
    assert ours["dtype"] == dtype
    assert tuple(ours["shape"]) == tuple(theirs.shape)
    assert ours["hex"] == hex_of(theirs)


@pytest.mark.parametrize("mmap", [False, True])
def test_torch_reads_our_pt(samples, expected, mmap):
    loaded = torch.load(samples["pt"], weights_only=True, mmap=mmap)
    assert list(loaded) == list(expected)
    for key, tensor in loaded.items():
        dtype = key.rsplit(".", 1)[0]
        assert tensor.dtype == getattr(torch, TORCH_NAMES[dtype]), key
        same(expected[key], tensor, dtype)


def test_torch_computes_where_our_storages_lie(samples, expected):
    """The layout is torch.save's own, to the byte: torch may skip reading the headers between storages."""
    from torch.utils.serialization import config

    config.load.calculate_storage_offsets = True
    try:
        loaded = torch.load(samples["pt"], weights_only=True, mmap=True)
    finally:
        config.load.calculate_storage_offsets = False
    for key, tensor in loaded.items():
        same(expected[key], tensor, key.rsplit(".", 1)[0])


def test_python_finds_no_fault_in_our_archive(samples):
    import zipfile

    with zipfile.ZipFile(samples["pt"]) as archive:
        assert archive.testzip() is None


def test_safetensors_reads_our_safetensors(samples, expected):
    loaded = safetensors_torch.load_file(samples["safetensors"])
    assert set(loaded) == set(expected)
    for key, tensor in loaded.items():
        dtype = key.rsplit(".", 1)[0]
        if dtype == "c128":  # the format has none: pairs of F64
            tensor = torch.view_as_complex(tensor)
        if key == "f4_e2m1fn_x2.scalar":  # half bytes cannot be 0-d: U8
            tensor = tensor.view(torch.float4_e2m1fn_x2)
        assert tensor.dtype == getattr(torch, TORCH_NAMES[dtype]), key
        same(expected[key], tensor, dtype)


def test_safe_open_reads_our_safetensors(samples, expected):
    with safetensors.safe_open(samples["safetensors"], framework="pt") as opened:
        assert set(opened.keys()) == set(expected)
        assert opened.metadata()["ttap.dtype.c128.vector"] == "c128"


def test_numpy_reads_our_npy(samples, expected):
    index = json.loads((samples["npy"] / "index.json").read_text())
    assert [entry["key"] for entry in index["tensors"]] == list(expected)
    for entry in index["tensors"]:
        dtype = entry["key"].rsplit(".", 1)[0]
        array = np.load(samples["npy"] / entry["file"], allow_pickle=False)
        ours = expected[entry["key"]]
        if dtype in NUMPY_NAMES:
            assert array.dtype == np.dtype(NUMPY_NAMES[dtype])
            assert list(array.shape) == ours["shape"]
            assert array.tobytes().hex() == ours["hex"]
            assert "true_dtype" not in entry
            continue
        assert array.dtype == np.float32
        assert entry["true_dtype"] == dtype
        if dtype == "f4_e2m1fn_x2":
            continue  # torch cannot widen it; the C++ tests do
        narrow = torch.frombuffer(bytearray.fromhex(ours["hex"] or "0000"), dtype=getattr(torch, TORCH_NAMES[dtype]))
        wide = narrow.float().numpy()[: array.size].reshape(array.shape)
        np.testing.assert_array_equal(array, wide)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TORCH_NAMES)
def test_we_read_torch_save(tmp_path, dtype, layout):
    tensor = make(dtype, layout)
    torch.save({"x": tensor, "again": tensor}, tmp_path / "x.pt")
    found = tensors_of(tmp_path / "x.pt")
    assert list(found) == ["x", "again"]
    for ours in found.values():
        same(ours, tensor, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TORCH_NAMES)
def test_we_read_safetensors(tmp_path, dtype, layout):
    if dtype == "c128" or (dtype == "f4_e2m1fn_x2" and layout == "scalar"):
        pytest.skip("safetensors has no such tensor")
    tensor = make(dtype, layout)
    if tensor.element_size() == 1:  # float4 has no kernel to copy with
        tensor = tensor.view(torch.uint8).clone(memory_format=torch.contiguous_format).view(tensor.dtype)
    else:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    safetensors_torch.save_file({"x": tensor}, tmp_path / "x.safetensors")
    same(tensors_of(tmp_path / "x.safetensors")["x"], tensor, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", NUMPY_NAMES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("big_endian", [False, True])
def test_we_read_numpy(tmp_path, samples, expected, dtype, layout, order, version, big_endian):
    ours = expected[f"{dtype}.{layout}"]
    array = np.frombuffer(bytes.fromhex(ours["hex"]), dtype=NUMPY_NAMES[dtype]).reshape(ours["shape"])
    stored = np.array(array, order=order)
    if big_endian:  # bit for bit, where astype() may quiet a NaN
        stored = stored.byteswap().view(stored.dtype.newbyteorder(">"))
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, stored, version=version)
    found = tensors_of(path)["x"]
    assert found["dtype"] == dtype
    assert found["shape"] == ours["shape"]
    assert found["hex"] == ours["hex"]


def test_a_folder_of_plain_npy_files_is_read_by_name(tmp_path):
    for name in ("b", "a"):
        np.save(tmp_path / f"{name}.npy", np.arange(3))
    assert list(tensors_of(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.array([{}, []], dtype=object), "forbidden"),
        (np.array(["text"]), "unsupported"),
        (np.array([b"text"]), "unsupported"),
        (np.zeros(2, dtype=[("a", "f4"), ("b", "i8")]), "unsupported"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "unsupported"),
        (np.zeros(2, dtype=np.longdouble), "unsupported"),
    ],
)
def test_numpy_arrays_that_are_no_numbers_are_refused(tmp_path, array, error):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    assert error_of(tmp_path / "x.npy")["error"] == error


def test_views_of_one_storage(tmp_path):
    base = torch.arange(1000)
    views = {"base": base, "tail": base[990:], "step": base[3::7], "grid": base.view(10, 100).t()}
    torch.save(views, tmp_path / "x.pt")
    found = tensors_of(tmp_path / "x.pt")
    for key, view in views.items():
        same(found[key], view, "i64")
    convert(tmp_path / "x.pt", tmp_path / "y.pt")
    loaded = torch.load(tmp_path / "y.pt", weights_only=True)
    for key, view in views.items():
        assert torch.equal(loaded[key], view)
        assert loaded[key].is_contiguous()


def test_a_state_dict_with_parameters(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    torch.save(model.state_dict(), tmp_path / "x.pt")
    found = tensors_of(tmp_path / "x.pt")
    assert list(found) == list(model.state_dict())
    torch.save(dict(model.named_parameters()), tmp_path / "y.pt")
    for key, parameter in model.named_parameters():
        same(tensors_of(tmp_path / "y.pt")[key], parameter, "f32")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_checkpoint_in_every_protocol(tmp_path, protocol):
    with_attribute = torch.ones(2)
    with_attribute.note = "kept by torch, not by us"
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.note = 1
    checkpoint = {
        "model": OrderedDict(weight=torch.ones(2, 2), nested=[torch.zeros(1), (torch.zeros(2), 5)]),
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "lr": 1e-3, "betas": (0.9, 0.999)},
        "parameter": parameter,
        "buffer": torch.nn.Buffer(torch.ones(1)),
        "attribute": with_attribute,
        "epoch": 3,
        "large": 2**70,
        "negative": -(2**40),
        "text": "line\nbreak",
        "bytes": b"\x00\xff",
        "bytearray": bytearray(b"x"),
        "set": {1, 2},
        "complex": 1 - 2j,
        "size": torch.Size([1, 2]),
        "device": torch.device("cuda", 1),
        "dtype": torch.float8_e5m2,
        "none": None,
        "flag": True,
        "empty": {},
    }
    torch.save(checkpoint, tmp_path / "x.pt", pickle_protocol=protocol)
    found = listing(tmp_path / "x.pt")
    assert [tensor["key"] for tensor in found["tensors"]] == [
        "model/weight",
        "model/nested/0",
        "model/nested/1/0",
        "optimizer/state/0/step",
        "parameter",
        "buffer",
        "attribute",
    ]
    notes = dict(note.split(": ", 1) for note in found["notes"])
    assert notes["epoch"] == "3"
    assert notes["negative"] == str(-(2**40))
    assert notes["text"] == '"line%0Abreak"'
    assert notes["complex"] == "(1-2j)"
    assert notes["size"] == "(1, 2)"
    assert notes["device"] == "device cuda:1"
    assert notes["dtype"] == "torch.float8_e5m2"
    assert notes["model/nested/1/1"] == "5"
    assert notes["set"] == "[1, 2]"


def test_a_bare_tensor(tmp_path):
    torch.save(torch.ones(2), tmp_path / "x.pt")
    assert list(tensors_of(tmp_path / "x.pt")) == ["tensor"]


def test_a_file_saved_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"x": torch.ones(2)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    found = listing(tmp_path / "x.pt")
    assert found["tensors"][0]["hex"] == "0000803f" * 2
    assert "no checksums" in found["notes"][0]


def test_the_format_before_torch_1_6_is_named(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    error = error_of(tmp_path / "x.pt")
    assert error["error"] == "unknown version"
    assert "save it again" in error["message"]


class Attack:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_runs_a_command_is_refused(tmp_path, protocol):
    torch.save({"x": torch.ones(2), "y": Attack(tmp_path / "pwned")}, tmp_path / "x.pt", pickle_protocol=protocol)
    error = error_of(tmp_path / "x.pt")
    assert error["error"] == "forbidden"
    assert "posix.system" in error["message"]
    assert not (tmp_path / "pwned").exists()


def test_a_whole_module_is_refused_with_advice(tmp_path):
    torch.save(torch.nn.Linear(1, 1), tmp_path / "x.pt")
    error = error_of(tmp_path / "x.pt")
    assert error["error"] == "forbidden"
    assert "torch.nn.modules.linear.Linear" in error["message"]
    assert "state_dict" in error["message"]


@pytest.mark.parametrize("value", ["sparse", "quantized", "conjugate"])
def test_tensors_without_counterpart_are_named(tmp_path, value):
    tensor = {
        "sparse": lambda: torch.eye(2).to_sparse(),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    }[value]()
    torch.save({"x": tensor}, tmp_path / "x.pt")
    assert error_of(tmp_path / "x.pt")["error"] in ("unsupported", "forbidden")


def test_every_format_converts_to_every_other(samples, expected, tmp_path):
    convert(samples["pt"], tmp_path / "a.safetensors")
    convert(tmp_path / "a.safetensors", tmp_path / "b.pt")
    back = tensors_of(tmp_path / "b.pt")
    assert {key: back[key]["hex"] for key in back} == {key: expected[key]["hex"] for key in expected}
    assert {key: back[key]["dtype"] for key in back} == {key: expected[key]["dtype"] for key in expected}
    convert(tmp_path / "b.pt", tmp_path / "c")
    assert list(tensors_of(tmp_path / "c")) == list(expected)
