"""A reader of segment files made from docs/format.md alone: the second opinion on what the C++ one says.

It favours plainness over speed and shares nothing with the library. Data errors raise `Damaged`.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path

from hash128 import hash128_fast

DTYPES = {
    1: ("bool", 1), 2: ("u8", 1), 3: ("u16", 2), 4: ("u32", 4), 5: ("u64", 8), 6: ("i8", 1), 7: ("i16", 2),
    8: ("i32", 4), 9: ("i64", 8), 10: ("f16", 2), 11: ("bf16", 2), 12: ("f32", 4), 13: ("f64", 8), 14: ("c64", 8),
    15: ("c128", 16), 16: ("f8_e4m3fn", 1), 17: ("f8_e5m2", 1), 18: ("f8_e4m3fnuz", 1), 19: ("f8_e5m2fnuz", 1),
    20: ("f8_e8m0fnu", 1), 21: ("f4_e2m1fn_x2", 1),
}  # fmt: skip
LEVELS = ("meta", "fingerprint", "full")
STATS = (
    "count", "nan", "pos_inf", "neg_inf", "zeros", "subnormals",
    "min", "max", "max_abs", "min_abs_nonzero", "mean", "std", "l1", "l2",
)  # fmt: skip
BEGIN, STRINGS, EVENTS, TENSORS, BLOBS, END, INDEX, CALLS, USES, GROUPS = range(1, 11)
SKETCHES = 12
NONE = 0xFFFFFFFF


class Damaged(Exception):
    """What was read does not follow the format."""


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Use:
    role: bytes
    path: bytes
    tensor: int
    value: int
    written: bool


@dataclass
class Call:
    arguments: bytes
    results: bytes
    notes: bytes
    forward: int
    duration_ns: int
    uses: list[Use]


@dataclass
class Event:
    name: bytes
    kind: bytes
    call: int
    parent: int
    stack: bytes
    thread: int
    time_ns: int
    end: Call | None = None


@dataclass
class Tensor:
    name: bytes
    call: int
    role: bytes
    path: bytes
    event: int
    device: bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    level: str
    time_ns: int
    byte_count: int
    hash: str | None
    stats: dict[str, float] | None
    data: bytes | None
    value: int
    pass_of_bytes: int | None = None  # the pass that has its bytes
    group: bytes = b""
    sketch: tuple[float, ...] | None = None


@dataclass
class Segment:
    version: tuple[int, int] = (0, 0)
    pass_number: int = 0
    started_unix_ns: int = 0
    begin: dict = field(default_factory=dict)
    end: dict | None = None
    events: list[Event] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    readable_bytes: int = 0
    problem: str = ""
    by_index: bool = False

    @property
    def ending(self) -> str:
        return self.end["ending"] if self.end else "incomplete"


def _padded(length: int) -> int:
    return (length + 63) // 64 * 64


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.strings: list[bytes] = [b""]
        self.uses: list[Use] = []
        self.uses_taken = 0
        self.groups_taken = 0
        self.sketches_taken = 0
        self.segment = Segment()

    def header(self) -> None:
        head = self.data[:64]
        if len(head) < 64:
            raise Damaged("no file header")
        magic, major, minor, number, started = struct.unpack_from("<8sHHIQ", head)
        if magic != b"TTAPSEG\n" or crc32c(head[:60]) != struct.unpack_from("<I", head, 60)[0]:
            raise Damaged("the file header does not hold")
        if major > 1:
            raise Damaged(f"version {major}")
        self.segment.version = (major, minor)
        self.segment.pass_number, self.segment.started_unix_ns = number, started

    def frame_at(self, offset: int) -> tuple[int, int, int, int]:
        """Type, number of rows, start and length of the payload of the frame at `offset`."""
        head = self.data[offset : offset + 64]
        if len(head) < 64:
            raise Damaged("the file ends inside a frame header")
        magic, kind, _zero, length, crc, rows = struct.unpack_from("<4sHHQII", head)
        if magic != b"TFRM" or crc32c(head[:60]) != struct.unpack_from("<I", head, 60)[0]:
            raise Damaged("no frame header")
        if offset + 64 + _padded(length) > len(self.data):
            raise Damaged("the file ends inside a frame")
        if kind != BLOBS and crc32c(self.data[offset + 64 : offset + 64 + length]) != crc:
            raise Damaged("the checksum of a frame does not hold")
        return kind, rows, offset + 64, length

    def take(self, offset: int) -> int:
        """Reads the frame at `offset`; returns where the next one begins."""
        kind, rows, start, length = self.frame_at(offset)
        payload = self.data[start : start + length]
        if kind == BEGIN:
            self.segment.begin = json.loads(payload)
        elif kind == END:
            self.segment.end = json.loads(payload)
        elif kind == STRINGS:
            self.strings += self.parse_strings(payload, rows)
        elif kind == EVENTS:
            self.segment.events += self.parse_rows(payload, rows, 40, self.event)
        elif kind == TENSORS:
            self.segment.tensors += self.parse_rows(payload, rows, 192, self.tensor)
        elif kind == USES:
            self.uses += self.parse_rows(payload, rows, 24, self.use)
        elif kind == CALLS:
            # All of them hold, or none is used.
            for event, call in self.parse_calls(payload, rows).items():
                self.segment.events[event].end = call
        elif kind == GROUPS:
            for tensor, description in self.parse_groups(payload, rows).items():
                self.segment.tensors[tensor].group = description
        elif kind == SKETCHES:
            for tensor, sketch in self.parse_sketches(payload, rows).items():
                self.segment.tensors[tensor].sketch = sketch
        return start + _padded(length)

    @staticmethod
    def parse_strings(payload: bytes, rows: int) -> list[bytes]:
        strings, at = [], 0
        for _ in range(rows):
            (length,) = struct.unpack_from("<I", payload, at)
            strings.append(payload[at + 8 : at + 8 + length])
            at += 8 + (length + 7) // 8 * 8
        if at != len(payload):
            raise Damaged("a string table of the wrong size")
        return strings

    @staticmethod
    def parse_rows(payload: bytes, rows: int, size: int, parse) -> list:
        if rows * size != len(payload):
            raise Damaged("a table of the wrong size")
        return [parse(payload[i * size : (i + 1) * size]) for i in range(rows)]

    def event(self, row: bytes) -> Event:
        name, kind, call, parent, stack, _zero, thread, time_ns = struct.unpack("<6IQQ", row)
        return Event(self.strings[name], self.strings[kind], call, parent, self.strings[stack], thread, time_ns)

    def string(self, number: int) -> bytes:
        if number >= len(self.strings):
            raise Damaged("a string that is not there")
        return self.strings[number]

    def use(self, row: bytes) -> Use:
        role, path, tensor, value, flags, _zero = struct.unpack("<6I", row)
        return Use(self.string(role), self.string(path), tensor, value, bool(flags & 1))

    def parse_calls(self, payload: bytes, rows: int) -> dict[int, Call]:
        calls: dict[int, Call] = {}
        taken = self.uses_taken
        for row in self.parse_rows(payload, rows, 40, struct.Struct("<8IQ").unpack):
            event, arguments, results, notes, forward, first, count, _zero, duration = row
            if event >= len(self.segment.events):
                raise Damaged("a call of an event that is not there")
            if event in calls or self.segment.events[event].end is not None:
                raise Damaged("a second call of an event")
            if forward != NONE and forward >= event:
                raise Damaged("a forward that did not come before")
            if first < taken or first + count > len(self.uses):
                raise Damaged("uses that are not there, or of another call")
            taken = first + count
            texts = (self.string(arguments), self.string(results), self.string(notes))
            calls[event] = Call(*texts, forward, duration, self.uses[first:taken])
        self.uses_taken = taken
        return calls

    def parse_groups(self, payload: bytes, rows: int) -> dict[int, bytes]:
        groups: dict[int, bytes] = {}
        taken = self.groups_taken
        for tensor, description in self.parse_rows(payload, rows, 8, struct.Struct("<2I").unpack):
            if not taken <= tensor < len(self.segment.tensors):
                raise Damaged("a group of a tensor that is not there, or not in order")
            taken = tensor + 1
            groups[tensor] = self.string(description)
        self.groups_taken = taken
        return groups

    def parse_sketches(self, payload: bytes, rows: int) -> dict[int, tuple[float, ...]]:
        sketches: dict[int, tuple[float, ...]] = {}
        taken = self.sketches_taken
        for tensor, _zero, *buckets in self.parse_rows(payload, rows, 264, struct.Struct("<2I32d").unpack):
            if not taken <= tensor < len(self.segment.tensors):
                raise Damaged("a sketch of a tensor that is not there, or not in order")
            taken = tensor + 1
            sketches[tensor] = tuple(buckets)
        self.sketches_taken = taken
        return sketches

    def numbers(self, string: int) -> tuple[int, ...]:
        text = self.strings[string]
        return struct.unpack(f"<{len(text) // 8}q", text)

    def tensor(self, row: bytes) -> Tensor:
        name, call, role, path, event, device, shape, strides = struct.unpack_from("<8I", row)
        dtype, level, flags, _zero, value = struct.unpack_from("<4BI", row, 32)
        time_ns, byte_count, offset, low, high = struct.unpack_from("<5Q", row, 40)
        stats = struct.unpack_from("<6Q8d", row, 80)
        dtype_name, size = DTYPES[dtype]
        dims = self.numbers(shape)
        if math.prod(dims) * size != byte_count:
            raise Damaged("shape and length do not agree")
        data = None
        if flags & 4 and (flags & 3 != 1 or offset == self.segment.pass_number or offset > NONE):
            raise Damaged("bytes that are here and in another pass")
        if flags & 2:
            if offset % 64 or offset + byte_count > len(self.data):
                raise Damaged("bytes outside the file")
            data = self.data[offset : offset + byte_count]
            if hash128_fast(data) != f"{high:016x}{low:016x}":
                raise Damaged("bytes that do not have their hash")
        return Tensor(
            name=self.strings[name],
            call=call,
            role=self.strings[role],
            path=self.strings[path],
            event=event,
            device=self.strings[device],
            shape=dims,
            strides=self.numbers(strides),
            dtype=dtype_name,
            level=LEVELS[level],
            time_ns=time_ns,
            byte_count=byte_count,
            hash=f"{high:016x}{low:016x}" if flags & 1 else None,
            stats=dict(zip(STATS, stats, strict=True)) if flags & 1 else None,
            data=data,
            value=value,
            pass_of_bytes=offset if flags & 4 else None,
        )

    def index(self) -> list[tuple[int, int]] | None:
        """Offsets and types of the frames, from the end of a finished file."""
        tail = self.data[-64:]
        if len(self.data) < 192 or crc32c(tail[:60]) != struct.unpack_from("<I", tail, 60)[0]:
            return None
        magic, offset, length = struct.unpack_from("<8sQQ", tail)
        if magic != b"TTAPEND\n" or length != len(self.data):
            return None
        kind, rows, start, size = self.frame_at(offset)
        if kind != INDEX or size != rows * 16:
            return None
        return [struct.unpack_from("<QH", self.data, start + 16 * i) for i in range(rows)]

    def walk(self) -> None:
        offset = 64
        while offset < len(self.data):
            if len(self.data) - offset == 64 and self.data[offset : offset + 8] == b"TTAPEND\n":
                offset = len(self.data)
                break
            try:
                offset = self.take(offset)
            except Damaged as damage:
                self.segment.problem = str(damage)
                break
        self.segment.readable_bytes = offset


def read_segment(path: Path | str, *, use_index: bool = True) -> Segment:
    """Everything a segment file holds; `use_index=False` walks the frames instead."""
    segment = _read_alone(path, use_index=use_index)
    siblings: dict[int, dict[str, bytes]] = {}
    for tensor in segment.tensors:
        if (number := tensor.pass_of_bytes) is None:
            continue
        sibling = Path(path).parent / f"pass{number:05}.ttap"
        if number not in siblings:
            others = _read_alone(sibling, use_index=use_index).tensors if sibling.exists() else []
            siblings[number] = {other.hash: other.data for other in others if other.data is not None}
        data = siblings[number].get(tensor.hash)
        tensor.data = data if data is not None and len(data) == tensor.byte_count else None
    return segment


def _read_alone(path: Path | str, *, use_index: bool) -> Segment:
    reader = _Reader(Path(path).read_bytes())
    reader.header()
    index = reader.index() if use_index else None
    if index is None:
        reader.walk()
        return reader.segment
    for offset, kind in index:
        if reader.frame_at(offset)[0] != kind:
            raise Damaged("the index names another type than the frame has")
        reader.take(offset)
    reader.segment.by_index = True
    reader.segment.readable_bytes = len(reader.data)
    return reader.segment
