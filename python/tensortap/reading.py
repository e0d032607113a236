"""Reading what was recorded: a run has ranks, a rank has passes, a pass is a mapping of keys to tensors."""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.literals import Ending
from tensortap.records import EventRecord, TensorRecord, Use, notes_of
from tensortap.session.filters import nearest_names
from tensortap.typed_dicts import PassInfo

if TYPE_CHECKING:
    import torch

    from tensortap.quant.group import Group

FormatError = _core.FormatError
_LARGEST_SIDE_FILE = 1 << 30  # JSON beside the passes


class _NoBytes(LookupError):
    """A quantized tensor whose parts were kept without their bytes."""


class Pass(Mapping[str, "torch.Tensor | Group"]):
    """One pass: a mapping from keys to tensors, in the order in which they were recorded.

    A quantized tensor is a `Group`, which has `.decoded()` and `.parts()`; the parts have keys of their own as well.

    Tensors are read when they are asked for, and large ones mapped: nothing is read before it is used. Each is its
    own: what is written to it shows nowhere else.

    Parameters
    ----------
    path
        A pass file of any format, or a folder of .npy files.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._core = _core.Pass.open(os.fspath(path))
        self._info: PassInfo = self._core.info()

    @property
    def path(self) -> Path:
        return Path(self._info["path"])

    def __fspath__(self) -> str:
        return self._info["path"]

    @property
    def number(self) -> int:
        return self._info["number"]

    @property
    def ending(self) -> Ending:
        """`complete`, `aborted` (the step raised) or `incomplete` (the process died, or is still at work)."""
        return self._info["ending"]

    @property
    def info(self) -> PassInfo:
        """All that is known of the pass itself: path, format, ending, size, what was dropped, notes."""
        return self._info.copy()

    @property
    def metadata(self) -> dict[str, Any]:
        """What the recorder wrote about the program."""
        known: dict[str, Any] = json.loads(self._info["metadata_json"])
        return known

    @functools.cached_property
    def records(self) -> list[TensorRecord]:
        """Every tensor, also those of which only a fingerprint or metadata was kept."""
        return [self._record(index) for index in range(self._core.tensor_count)]

    @functools.cached_property
    def events(self) -> list[EventRecord]:
        """Every call, in the order in which they began."""
        return [self._event(index) for index in range(self._core.event_count)]

    def record(self, key: str) -> TensorRecord:
        """What is known of one tensor."""
        return self._record(self._find(key))

    def __getitem__(self, key: str) -> torch.Tensor | Group:
        index = self._find(key)
        record = self._record(index)
        return self._group(record) if record.group else self._tensor(index)

    def get(self, key: str, default: Any = None) -> Any:
        """The tensor of this key; the default where there is none, or no bytes of it were kept."""
        try:
            return self[key]
        except LookupError:
            return default

    def __iter__(self) -> Iterator[str]:
        return (self._core.key(index) for index in range(self._core.tensor_count))

    def __len__(self) -> int:
        return self._core.tensor_count

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._core.find(key) is not None

    def __repr__(self) -> str:
        return f"<Pass {self.number} of {len(self)} tensors, {self.ending}, {self.path}>"

    def _repr_html_(self) -> str:
        rows = []
        for record in map(self._record, range(min(len(self), ROWS_SHOWN))):
            stats = record.stats
            numbers = (stats["mean"], stats["max_abs"], stats["nan"]) if stats is not None else ("", "", "")
            rows.append((record.key, record.dtype, list(record.shape), record.level, *numbers))
        return html_table(repr(self), ("key", "dtype", "shape", "level", "mean", "max abs", "NaN"), rows, len(self))

    def _find(self, key: str) -> int:
        index = self._core.find(key)
        if index is None:
            nearest = nearest_names(key, list(self))
            raise KeyError(f"{key!r} is not in {self.path}" + (f"; near it: {', '.join(nearest)}" if nearest else ""))
        return index

    def _event(self, index: int) -> EventRecord:
        known: dict[str, Any] = {**self._core.event(index)}
        known["notes"] = notes_of(known["notes"])
        known["uses"] = tuple(Use(*use) for use in known["uses"])
        event = EventRecord(**known)
        vars(event)["_pass"] = self  # for pass_of(): no field, since two passes may hold equal events
        return event

    def _record(self, index: int) -> TensorRecord:
        return TensorRecord(**self._core.tensor(index))

    def _tensor(self, index: int) -> torch.Tensor:
        import torch  # everything but the values can be read without it

        from tensortap.tensors.dtypes import TORCH_DTYPES  # imports PyTorch

        record = self._record(index)
        if record.dtype not in TORCH_DTYPES:
            raise TypeError(f"{record.key!r} is {record.dtype}, which PyTorch {torch.__version__} does not have")
        dtype = TORCH_DTYPES[record.dtype]
        data = self._core.bytes(index)
        if record.byte_count == 0:
            return torch.empty(record.shape, dtype=dtype)
        tensor = torch.from_dlpack(data).view(dtype).view(record.shape)
        # .npy has no bf16 and no fp8: they were widened, and come back without loss. Packed f4 stays as it is.
        true_dtype = TORCH_DTYPES.get(record.true_dtype or "")
        if true_dtype is not None and record.true_dtype != "f4_e2m1fn_x2":
            tensor = tensor.to(true_dtype)
        return tensor

    def _group(self, record: TensorRecord) -> Group:
        """The quantized tensor that the record describes. Raises LookupError when the bytes of a part are not here."""
        from tensortap.quant.group import Group  # imports PyTorch
        from tensortap.tensors.dtypes import TORCH_DTYPES  # imports PyTorch

        parts = {}
        for step, key in _part_keys(record).items():
            index = self._core.find(key)
            if index is None:
                raise LookupError(
                    f"{record.key!r} is a quantized tensor of which {key!r} is not here: it is not decoded"
                )
            if not self._core.has_bytes(index):
                raise _NoBytes(
                    f"{record.key!r} is a quantized tensor of which {key!r} has no bytes (level fingerprint or meta, "
                    "or dropped): it cannot be decoded"
                )
            parts[step] = self._tensor(index)
        made = _core.quant_format_from_json(json.dumps(json.loads(record.group)["format"]))
        return Group(made, record.shape, TORCH_DTYPES[record.dtype], parts)

    def _decoded(self) -> tuple[dict[int, torch.Tensor], set[int]]:
        """The values of quantized tensors, by where their record is; and where the parts of these tensors are.

        What cannot be decoded is left out, with a warning unless its parts have no bytes or it was rotated.
        """
        values: dict[int, torch.Tensor] = {}
        parts: set[int | None] = set()
        for index, record in enumerate(self.records):
            if not record.group:
                continue
            try:
                group = self._group(record)
                if group.format is None or group.format.rotated:
                    continue
                values[index] = group.decoded()
                parts.update(self._core.find(key) for key in _part_keys(record).values())
            except _NoBytes:
                continue
            except Exception as error:  # what the file says of it is not so
                warnings.warn(f"{record.key} of {self.path} is not decoded, its parts are there: {error}", stacklevel=3)
        return values, {index for index in parts if index is not None}


def pass_of(event: EventRecord) -> Pass:
    """The pass that the event was read from, whose records its uses refer to."""
    known = vars(event).get("_pass")
    if not isinstance(known, Pass):
        raise ValueError(f"the event {event.name} was not read from a pass: take one of Pass.events")
    return known


def _part_keys(record: TensorRecord) -> dict[str, str]:
    """The keys of the parts of a quantized tensor by what they are."""
    described = json.loads(record.group)
    return {
        str(step): _core.key_text(record.name, record.call, record.role, _core.append_path(record.path, str(step)))
        for step in described.get("parts", [])
    }


class Passes(Mapping[int, Pass]):
    """The passes of a rank by their number; `passes[-1]` is the last. Opened when asked for."""

    def __init__(self, files: list[_core.PassFile]) -> None:
        self._files = {file.number: file.path for file in files}

    def __getitem__(self, number: int) -> Pass:
        numbers = list(self._files)
        if number < 0 and -number <= len(numbers):
            number = numbers[number]
        if number not in self._files:
            there = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
            raise KeyError(f"there is no pass {number}; there are: {there}")
        return Pass(self._files[number])

    def __contains__(self, number: object) -> bool:
        return number in self._files  # opens no file

    @property
    def paths(self) -> list[Path]:
        """Where they lie; none of them is opened."""
        return [Path(path) for path in self._files.values()]

    def __iter__(self) -> Iterator[int]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"<Passes {list(self._files)}>"


class Rank:
    """One process of a run."""

    def __init__(self, core: _core.Rank) -> None:
        self.number: int = core.number
        self.pid: int = core.pid
        self.path: Path = Path(core.path)
        self.passes: Passes = Passes(core.passes)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def metadata(self) -> dict[str, Any]:
        """rank.json: versions, host, command line, options."""
        return self._read("rank.json")

    @property
    def coverage(self) -> dict[str, Any]:
        """coverage.json: what was recorded, and what was not. Empty when the process was killed."""
        return self._read("coverage.json")

    @property
    def model(self) -> dict[str, Any]:
        """model.json: the recorded models' modules and configuration."""
        return self._read("model.json")

    @property
    def placements(self) -> dict[str, Any]:
        """placements.json: how the DTensors of this rank are spread over the ranks. Empty when it has none."""
        return self._read("placements.json")

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.is_file():
            return {}
        if path.stat().st_size > _LARGEST_SIDE_FILE:
            raise FormatError(f"{path} has more than {_LARGEST_SIDE_FILE >> 20} MiB: it is not what a recording writes")
        known: dict[str, Any] = json.loads(path.read_text())
        return known

    def __repr__(self) -> str:
        return f"<Rank {self.number} (pid {self.pid}) with {len(self.passes)} passes>"


def began(rank: Rank) -> int:
    """When its first pass began, in nanoseconds: the order of the processes that a program starts within one rank."""
    first = next(iter(rank.passes), None)
    return sys.maxsize if first is None else rank.passes[first].info["started_unix_ns"]


class Run:
    """What one execution recorded."""

    def __init__(self, core: _core.Run) -> None:
        self.path: Path = Path(core.path)
        self.ranks: list[Rank] = [Rank(rank) for rank in core.ranks]
        self.number: int = core.number  # of the runs in its directory,
        self.runs: int = core.runs  # and how many those are

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        which = f", run {self.number} of {self.runs}" if self.runs > 1 else ""
        return f"<Run {self.path} with {len(self.ranks)} ranks{which}>"

    def _repr_html_(self) -> str:
        rows = [(rank.number, rank.pid, len(rank.passes), rank.path) for rank in self.ranks]
        return html_table(repr(self), ("rank", "pid", "passes", "path"), rows[:ROWS_SHOWN], len(rows))

    def __getitem__(self, key: str) -> torch.Tensor | Group:
        """The tensor of this key in the first pass that has it, of the first rank that does."""
        last: KeyError | None = None
        for rank in self.ranks:
            for kept in rank.passes.values():
                try:
                    return kept[key]
                except KeyError as error:
                    last = error
        raise last or KeyError(f"{key!r}: there is no pass in {self.path}")


def open(path: str | os.PathLike[str]) -> Run:
    """Opens a run directory, one rank of it, or a single pass; of a directory with several runs, the newest.

    Parameters
    ----------
    path
        What `tap.record` or `ttap run` wrote, or a .pt, .safetensors or .npy file of another tool.
    """
    return Run(_core.Run.open(os.fspath(path)))


def runs(directory: str | os.PathLike[str]) -> list[Run]:
    """Every run of a directory, the oldest first: it has several when it was recorded into several times."""
    return [open(path) for path in _core.runs_in(os.fspath(directory))]


def load_pass(path: str | os.PathLike[str], *, decode: bool = False) -> dict[str, torch.Tensor]:
    """Every tensor of one pass by its key: plain tensors.

    Parameters
    ----------
    path
        A .ttap, .pt or .safetensors file, or a folder of .npy files. A .pt is read without executing anything.
    decode
        Of a quantized tensor, the values in place of payload, scale and the rest. What was rotated before it was
        quantized stays as it is.

    Warns
    -----
    UserWarning
        When tensors are left out because only a fingerprint or metadata of them was kept, and when what the file says
        of a quantized tensor cannot be: then its parts are there.
    """
    read = Pass(path)
    values, parts = read._decoded() if decode else ({}, set())
    with_bytes = {index for index in range(len(read)) if read._core.has_bytes(index)}
    # A quantized tensor has its bytes in its parts: of these it is said whether they are missing.
    missing = sum(index not in with_bytes and not record.group for index, record in enumerate(read.records))
    if missing:
        warnings.warn(
            f"{missing} of {len(read)} tensors of {path} have no bytes (level fingerprint or "
            "meta, or dropped) and are left out; tensortap.Pass(path).records has what is known of them",
            stacklevel=2,
        )
    return {
        read._core.key(index): values[index] if index in values else read._tensor(index)
        for index in sorted((with_bytes | values.keys()) - parts)
    }
