"""The dicts of the public API, key by key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from tensortap.literals import (
    Ending,
    Format,
    QuantElement,
    QuantPacking,
    ScaleLayout,
    ScaleType,
    WhenFull,
    Write,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from tensortap import _core

# What can be compared: a run, a rank, a pass, a trace, or where one lies; tensors by name.
Tensors: TypeAlias = Mapping[str, "torch.Tensor | npt.NDArray[Any] | Tensors"]
Comparable: TypeAlias = "str | os.PathLike[str] | Tensors"
# What a regex of a map is replaced by, or the fields of an operation.
MapRule: TypeAlias = "str | Mapping[str, str | int | Sequence[str] | Sequence[int]]"

# ---- what was recorded ----


class Stats(TypedDict):
    """The statistics of a fingerprint; docs/fingerprint.md defines them."""

    count: int
    nan: int
    pos_inf: int
    neg_inf: int
    zeros: int
    subnormals: int
    min: float
    max: float
    max_abs: float
    min_abs_nonzero: float
    mean: float
    std: float
    l1: float
    l2: float


class Drops(TypedDict):
    """How many tensors were seen and not kept, by cause."""

    staging_full: int
    quota: int
    disk_full: int
    io_error: int
    unsupported: int
    events: int
    late: int


class PassInfo(TypedDict):
    """What is known of a pass itself."""

    path: str
    format: Format
    number: int
    ending: Ending
    being_written: bool
    file_bytes: int
    problem: str
    started_unix_ns: int
    drops: Drops
    metadata_json: str
    notes: list[str]


class TraceCounts(TypedDict):
    """How many calls a trace recorded, and how many it did not, by cause."""

    calls: int
    rejected: int
    no_room: int
    compilation: int
    failed: int
    first_failure: str
    lost: int
    replays: int
    lost_replays: int
    outside_passes: int
    bytes: int
    tensors: int


class ProbeStatus(TypedDict):
    """The counts of a probe; `Probe.status` says what they are."""

    sites: int
    published: int
    read: int
    overwritten: int
    skipped: int
    not_printed: int
    comparisons: int
    failures: int
    problems: int


# ---- what a comparison says ----


class WorstElement(TypedDict):
    """The element that differs most. `part` is 1 for an imaginary part, or for the second value of a packed pair."""

    index: list[int]
    part: int
    a: float
    b: float


class QuantizedLayer(TypedDict):
    """What quantizing its weight did to a layer; docs/measures.md defines the numbers."""

    layer: str
    weight: int
    format: str
    outlier: bool
    harm: Literal["overflow", "underflow", "error"] | None
    own_error: float
    added: float
    weight_error: float
    sqnr_db: float
    usual_sqnr_db: float
    underflow_percent: float
    usual_underflow_percent: float
    overflow_percent: float
    usual_overflow_percent: float


QuantizedWeights = TypedDict(
    "QuantizedWeights", {"side": Literal["a", "b"], "inferred": bool, "pass": int, "layers": list[QuantizedLayer]}
)


class Measures(TypedDict):
    """How far two tensors are apart; docs/measures.md defines the numbers."""

    count: int
    finite: int
    unequal: int
    outside: int
    nan_mismatches: int
    inf_mismatches: int
    max_abs: float
    mean_abs: float
    max_rel: float
    rmse: float
    cosine: float
    sqnr_db: float
    rms_a: float
    rms_b: float
    relative: float
    max_ulp: int | None
    p99_ulp: int | None
    worst: WorstElement | None


class UsedTolerance(TypedDict):
    """What a tensor was judged by, and where that comes from."""

    rtol: float
    atol: float
    relative: float | None
    equal_nan: bool
    predicate: str | None
    source: str


class CallOfTensor(TypedDict):
    """The call that made a tensor: its name, its text as in the log, and its line in the program."""

    name: str
    text: str
    line: str


class DroppedTensor(TypedDict):
    """A tensor that a rule of the map leaves out of the comparison: whose, and the line of the rule."""

    side: Literal["a", "b"]
    key: str
    map_line: int


class AxisError(TypedDict):
    """Where along an axis the error is: indices `first` to `first + width - 1` hold this share of its square."""

    axis: int
    first: int
    width: int
    max_abs: float
    share: float


# ---- quantized tensors ----


class QuantStatistics(TypedDict):
    """What quantizing did to a tensor."""

    count: int
    not_finite: int
    underflow: int
    overflow: int
    underflow_percent: float
    overflow_percent: float
    mse: float
    sqnr_db: float
    scale_min: float
    scale_max: float
    scales_nan: int
    zero_blocks: int
    amax: float
    dynamic_range: float
    block_dynamic_range: float
    max_error: float
    codes: list[int]
    block_amax: list[float]
    block_grid: tuple[int, int]


# ---- options that are passed on ----


class DiffOptions(TypedDict, total=False):
    """The options of `tap.diff`."""

    passes: str | None
    ranks: str | None
    filter: str | Sequence[str] | None
    map: str | os.PathLike[str] | Mapping[str, str] | Sequence[Mapping[str, MapRule]] | None
    shards: str | os.PathLike[str] | Mapping[str, str] | None
    rtol: float | None
    atol: float | None
    tol: Mapping[str, str | tuple[float, float]] | None
    noise: Comparable | None
    noise_factor: float
    equal_nan: bool
    structure: bool
    all_ops: bool
    strict: bool
    threads: int


class WritingOptions(TypedDict, total=False):
    """The options of `tap.record` that say how the run is written."""

    append: bool
    staging: int | str | None
    device_staging: int | str | None
    quota: int | str | None
    when_full: WhenFull
    write: Write
    deduplicate: bool
    sync: bool


class FormatFields(TypedDict, total=False):
    """What can differ from a named quantized format."""

    source: str
    element: QuantElement
    packing: QuantPacking
    block_rows: int
    block_columns: int
    shared_rows: int
    scale_type: ScaleType
    scale_layout: ScaleLayout
    scale_transposed: bool
    scale_divides: bool
    global_per_row: bool
    scale_maximum: float
    stored_transposed: bool
    rotated: bool


class _NeededPieces(TypedDict):
    payload: torch.Tensor
    scale: torch.Tensor
    format: str | _core.QuantFormat


class QuantizedPieces(_NeededPieces, FormatFields, total=False):
    """The pieces of a quantized tensor, with its format."""

    global_scale: torch.Tensor | None
    zero_point: torch.Tensor | None
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
