"""The segment file as docs/format.md says it, read by a reader that shares nothing with the library."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hash128 import hash128_fast
from segment_reader import NONE, Call, Damaged, Segment, Use, read_segment
from sketch import VALUE_BYTES, sketch, values_of_bytes

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("TTAP_TEST_TOOLS", REPOSITORY / "build/dev")) / "tests/capture"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A pass with every dtype in every layout, and the bytes each tensor must have."""
    run = tmp_path_factory.mktemp("run")
    lines = subprocess.run(
        [TOOLS / "record_samples", run], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    expected = {name: bytes.fromhex(data) for name, data in (line.split(" ") for line in lines)}
    (path,) = run.glob("rank0_pid*/pass00000.ttap")
    return path, expected


@pytest.mark.parametrize("use_index", [True, False])
def test_both_ways_of_reading_give_what_was_recorded(recorded, use_index):
    path, expected = recorded
    segment = read_segment(path, use_index=use_index)
    assert segment.by_index is use_index
    assert segment.problem == ""
    assert segment.ending == "complete"
    assert segment.readable_bytes == path.stat().st_size
    assert segment.begin["program"] == {"model": "samples"}
    assert len(expected) == 21 * 7
    assert [tensor.name.decode() for tensor in segment.tensors] == list(expected)
    for number, tensor in enumerate(segment.tensors):
        name = tensor.name.decode()
        assert tensor.data == expected[name], name
        assert tensor.dtype == name.split(".")[0]
        assert (tensor.role, tensor.path, tensor.device, tensor.call) == (b"in", b"/0/x", b"cpu", 1)
        assert tensor.event == number
        assert segment.events[number].name == tensor.name


def test_the_golden_file_says_the_same(recorded):
    segment = read_segment(REPOSITORY / "tests/golden/samples-1.0.ttap")
    assert {tensor.name.decode(): tensor.data for tensor in segment.tensors} == recorded[1]


def check_sketches(segment: Segment) -> None:
    assert {tensor.dtype for tensor in segment.tensors if tensor.sketch} == set(VALUE_BYTES)
    for tensor in segment.tensors:
        assert (tensor.sketch is not None) == (tensor.dtype in VALUE_BYTES)
        if tensor.sketch and tensor.data:
            expected = sketch(values_of_bytes(tensor.dtype, tensor.data))
            assert np.linalg.norm(expected - tensor.sketch) <= 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("use_index", [True, False])
def test_sketches_are_read_both_ways(recorded, use_index):
    check_sketches(read_segment(recorded[0], use_index=use_index))


def test_the_golden_sketches_say_the_same():
    segment = read_segment(REPOSITORY / "tests/golden/sketches-1.4.ttap")
    assert segment.version == (1, 4)
    check_sketches(segment)


def check_calls(segment: Segment) -> None:
    module, relu, add, backward, raises = segment.events
    assert (relu.name, relu.stack, relu.parent) == (b"mlp:aten::relu", b"model.py:7 in f", 0)
    assert relu.end == Call(
        arguments=b"%0",
        results=b"%1",
        notes=b"",
        forward=NONE,
        duration_ns=relu.end.duration_ns,
        uses=[Use(b"in", b"/0", 0, 1, False), Use(b"out", b"", 1, 2, False)],
    )
    assert add.end.arguments == b"%0, %1, alpha=2"
    assert json.loads(add.end.notes) == {"unread": {"/1": "sparse"}, "hook": {"peak": 7}}
    assert add.end.uses == [
        Use(b"in", b"/0", 1, 2, True),
        Use(b"in", b"/1", 2, 0, False),
        Use(b"after", b"/0", 1, 4, False),
    ]
    assert (backward.end.forward, backward.end.arguments, backward.end.results) == (1, b"'100%%'", b"None")
    assert module.end.duration_ns >= relu.end.duration_ns + add.end.duration_ns
    assert raises.end is None
    assert [(tensor.value, tensor.role, tensor.event) for tensor in segment.tensors] == [
        (1, b"in", 1),
        (2, b"out", 1),
        (4, b"after", 2),
    ]


@pytest.mark.parametrize("use_index", [True, False])
def test_calls_are_read_both_ways(tmp_path, use_index):
    subprocess.run([TOOLS / "record_calls", tmp_path], check=True)
    (path,) = tmp_path.glob("rank0_pid*/pass00000.ttap")
    segment = read_segment(path, use_index=use_index)
    assert segment.version == (1, 4)
    assert segment.problem == ""
    check_calls(segment)


def test_the_golden_calls_say_the_same():
    check_calls(read_segment(REPOSITORY / "tests/golden/calls-1.1.ttap"))


def check_groups(segment: Segment) -> None:
    by_key = {(t.name, t.path): t for t in segment.tensors}
    quantized = {key for key, tensor in by_key.items() if tensor.group}
    assert quantized == {(b"fc", b"/weight"), (b"tied", b"/weight")}
    values = by_key[b"fc", b"/weight"]
    description = json.loads(values.group)
    assert description["parts"] == ["payload", "scale"]
    assert description["format"]["element"] == "e4m3"
    assert (values.shape, values.dtype, values.level, values.data) == ((2, 2), "f32", "fingerprint", None)
    # 1.0, -2.0, 0.5 and 3.0 as E4M3, by a scale of 0.5 for the tensor.
    payload, scale = (by_key[b"fc", b"/weight/" + part.encode()].data for part in description["parts"])
    assert payload == bytes([0x38, 0xC0, 0x30, 0x44])
    assert scale == struct.pack("<f", 0.5)
    assert values.hash == hash128_fast(struct.pack("<4f", 0.5, -1.0, 0.25, 1.5))
    assert by_key[b"tied", b"/weight"].group == values.group


@pytest.mark.parametrize("use_index", [True, False])
def test_groups_are_read_both_ways(tmp_path, use_index):
    subprocess.run([TOOLS / "record_groups", tmp_path], check=True)
    (path,) = tmp_path.glob("rank0_pid*/pass00000.ttap")
    segment = read_segment(path, use_index=use_index)
    assert segment.problem == ""
    check_groups(segment)


def test_the_golden_groups_say_the_same():
    segment = read_segment(REPOSITORY / "tests/golden/groups-1.2.ttap")
    assert segment.version == (1, 2)
    check_groups(segment)


def check_stable(first: Path, *, use_index: bool = True) -> None:
    for number, path in enumerate([first, first.with_name("pass00001.ttap")]):
        segment = read_segment(path, use_index=use_index)
        assert segment.problem == ""
        assert segment.pass_number == number
        by_key = {(t.name, t.path): t for t in segment.tensors}
        for name in (b"fc", b"tied"):
            weight, bias, out = (by_key[name, path] for path in (b"/weight", b"/bias", b""))
            assert weight.data == struct.pack("<4f", 0.5, -1.0, 0.25, 1.5)
            assert bias.data == struct.pack("<4f", 1, 2, 3, 4 + number)
            assert weight.pass_of_bytes == (0 if number == 1 else None)
            assert bias.pass_of_bytes is None
            assert out.pass_of_bytes is None


@pytest.mark.parametrize("use_index", [True, False])
def test_bytes_in_an_earlier_pass_are_read_both_ways(tmp_path, use_index):
    subprocess.run([TOOLS / "record_stable", tmp_path], check=True)
    (first,) = tmp_path.glob("rank0_pid*/pass00000.ttap")
    check_stable(first, use_index=use_index)


def test_the_golden_passes_say_the_same():
    check_stable(REPOSITORY / "tests/golden/stable-1.2/pass00000.ttap")


def test_version_1_0_is_still_read():
    segment = read_segment(REPOSITORY / "tests/golden/samples-1.0.ttap")
    assert segment.version == (1, 0)
    assert all(event.end is None for event in segment.events)


def test_strides_are_those_of_the_program(recorded):
    segment = read_segment(recorded[0])
    by_name = {tensor.name.decode(): tensor for tensor in segment.tensors}
    assert by_name["f32.transposed"].shape == (3, 4)
    assert by_name["f32.transposed"].strides == (1, 3)
    assert by_name["f32.vector"].strides == ()
    assert by_name["f32.scalar"].shape == ()
    assert by_name["f32.empty"].shape == (3, 0, 2)
    assert by_name["f32.empty"].data == b""


def test_same_bytes_are_stored_once(recorded):
    path, expected = recorded
    distinct = {data for data in expected.values() if data}
    assert path.stat().st_size < sum((len(data) + 63) // 64 * 64 for data in distinct) + 147 * (192 + 40 + 128) + 8192


def test_a_torn_file_gives_a_prefix(recorded, tmp_path):
    path, expected = recorded
    data = path.read_bytes()
    torn = tmp_path / "torn.ttap"
    torn.write_bytes(data[: len(data) - 700])
    segment = read_segment(torn)
    assert segment.ending == "incomplete"
    for tensor in segment.tensors:
        assert tensor.data == expected[tensor.name.decode()]


def test_damage_is_noticed(recorded, tmp_path):
    data = bytearray(recorded[0].read_bytes())
    data[20] ^= 1
    damaged = tmp_path / "damaged.ttap"
    damaged.write_bytes(data)
    with pytest.raises(Damaged):
        read_segment(damaged)
