# Types of the extension that records, reads, compares and quantizes. Its sources are in src/python.

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict

from tensortap.literals import (
    DType,
    EventKind,
    Format,
    GlobalScale,
    Level,
    MxScaleRule,
    QuantElement,
    QuantPacking,
    ScaleLayout,
    ScaleType,
    TensorRole,
    UseRole,
    Write,
    ZeroPoint,
)
from tensortap.typed_dicts import Drops, PassInfo, QuantStatistics, Stats

version: str

class FormatError(ValueError): ...

# ---- tensors ----

# All that the extension asks of a tensor; it does not depend on PyTorch.
class _Tensor(Protocol):
    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def stride(self) -> tuple[int, ...]: ...
    def data_ptr(self) -> int: ...

# An array that owns its bytes, for `torch.from_dlpack`.
class _Bytes(Protocol):
    def __dlpack__(self, *, stream: int | None = ...) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

_Element: TypeAlias = bool | int | float | complex | tuple[float, float]

def register_dtype(dtype: object, name: DType) -> None: ...
def append_path(path: str, step: str) -> str: ...
def key_text(name: str, call: int, role: str, path: str) -> str: ...

# ---- recording ----

class RecorderOptions:
    directory: str
    append: bool
    run: int | None
    rank: int | None
    rank_count: int | None
    world_size: int | None
    filter: list[str] | None
    level: Level
    staging_bytes: int
    device_staging_bytes: int
    quota_bytes: int
    drop_when_full: bool
    write: Write
    deduplicate: bool
    sync: bool
    strict: bool
    format: Format
    metadata_json: str
    def __init__(self) -> None: ...
    @property
    def level_rules(self) -> list[tuple[str, Level]]: ...
    def overlay_environment(self) -> RecorderOptions: ...

def with_signals_blocked(function: Callable[[], Any]) -> Any: ...

class Guard:
    open: bool
    def __init__(
        self,
        is_to_be_raised: Callable[[Exception], bool],
        set_eval_frame: Callable[[Any], Any] | None,
        disable_torch_function: Callable[[], Any] | None,
        suppress_recording: Callable[[int], None] | None,
        is_grad_enabled: Callable[[], bool] | None = None,
        set_grad_enabled: Callable[[bool], None] | None = None,
    ) -> None: ...
    def __call__(self, *work: Any) -> None: ...  # a function and its arguments

class NumberSet:
    def __init__(self, text: str) -> None: ...
    def __contains__(self, number: int) -> bool: ...

def parse_byte_size(text: str) -> int | None: ...

class CallTexts:
    def __init__(
        self, arguments: str = "", results: str = "", notes: str = "", uses: Sequence[tuple[str, str, bool]] = []
    ) -> None: ...

class Event:
    @property
    def number(self) -> int: ...
    @property
    def call(self) -> int: ...
    @property
    def pass_number(self) -> int: ...
    @property
    def level(self) -> int: ...

class _GraphReport(TypedDict):
    graphs: int
    replays: int
    lost: int
    not_copied: int
    failed: int

class _Report(TypedDict):
    passes: int
    tensors: int
    tensor_bytes: int
    deduplicated: int
    file_bytes: int
    lost_passes: int
    first_pass_bytes: int
    drops: Drops
    first_error: str
    staging_peak_bytes: int
    cuda_graphs: _GraphReport

class Recorder:
    @staticmethod
    def create(options: RecorderOptions) -> Recorder: ...
    def open_pass(self) -> int: ...
    def close_pass(self, number: int, aborted: bool = False) -> None: ...
    def skip_pass(self) -> int: ...
    def begin_event(
        self,
        name: str,
        kind: str,
        pass_number: int,
        level: int,
        parent: Event | None = None,
        again: bool = False,
        graph: int = 0,
        stack: str = "",
    ) -> Event: ...
    def captured_graph(self, device: int, stream: int) -> int: ...
    def end_capture(self, stream: int) -> str | None: ...
    def capture(
        self,
        event: Event,
        tensor: _Tensor,
        role: str,
        path: str,
        device: str,
        *,
        value: int = 0,
        group: str = "",
        stable: bool = False,
    ) -> str | None: ...
    def capture_gpu(
        self,
        event: Event,
        tensor: _Tensor,
        role: str,
        path: str,
        device: str,
        device_index: int,
        stream: int,
        *,
        rows: int | _Tensor | None = None,
        value: int = 0,
        group: str = "",
        stable: bool = False,
    ) -> str | None: ...
    def capture_meta(
        self, event: Event, tensor: _Tensor, role: str, path: str, device: str, *, value: int = 0, group: str = ""
    ) -> str | None: ...
    def add_alias(self, name: str, alias: str) -> None: ...
    def count_unsupported(self, name: str, reason: str, pass_number: int) -> None: ...
    def set_source_json(self, json: str) -> None: ...
    def flush(self) -> str | None: ...
    def close(self, aborted: bool = False) -> str | None: ...
    def report(self) -> _Report: ...
    def end_event(self, event: Event, texts: CallTexts | None = None, numbers: list[int] | None = None) -> None: ...
    def end_event_with(
        self,
        event: Event,
        tensor: _Tensor,
        value: int,
        texts: CallTexts,
        numbers: list[int] | None,
        stable: bool = False,
    ) -> str | None: ...
    @property
    def address(self) -> int: ...
    @property
    def rank_directory(self) -> str: ...
    @property
    def run_number(self) -> int: ...

def cuda_available() -> bool: ...
def cuda_reason() -> str: ...

# ---- reading ----

class PassFile:
    @property
    def path(self) -> str: ...
    @property
    def format(self) -> Format: ...
    @property
    def number(self) -> int: ...

class Rank:
    @property
    def path(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def passes(self) -> list[PassFile]: ...

class Run:
    @staticmethod
    def open(path: str) -> Run: ...
    @property
    def path(self) -> str: ...
    @property
    def ranks(self) -> list[Rank]: ...
    @property
    def number(self) -> int: ...
    @property
    def runs(self) -> int: ...

def runs_in(directory: str) -> list[str]: ...

class _TensorDict(TypedDict):
    key: str
    name: str
    call: int
    role: TensorRole
    path: str
    event: int | None
    dtype: DType
    true_dtype: DType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: str
    level: Level
    group: str
    has_bytes: bool
    byte_count: int
    hash: str | None
    stats: Stats | None

class _EventDict(TypedDict):
    name: str
    kind: EventKind
    call: int
    parent: int | None
    thread: int
    time_ns: int
    stack: str
    arguments: str
    results: str
    notes: str
    forward: int | None
    duration_ns: int
    returned: bool
    uses: list[tuple[UseRole, str, int | None, int | None, bool]]

class Pass:
    @staticmethod
    def open(path: str) -> Pass: ...
    def info(self) -> PassInfo: ...
    @property
    def tensor_count(self) -> int: ...
    @property
    def event_count(self) -> int: ...
    def tensor(self, index: int) -> _TensorDict: ...
    def event(self, index: int) -> _EventDict: ...
    def key(self, index: int) -> str: ...
    def has_bytes(self, index: int) -> bool: ...
    def find(self, key: str) -> int | None: ...
    def decoded(self, index: int, out: _Tensor) -> None: ...
    def bytes(self, index: int) -> _Bytes: ...
    def export_to(
        self, format: str, directory: str, wanted: Callable[[str], bool] | None = None
    ) -> tuple[str, int, int, int]: ...

def recover_pass(path: str, force: bool) -> tuple[str, int, int]: ...
def exported_rank_name(path: str, rank: int, pid: int) -> str: ...

# ---- collectives ----

class _CollectiveDict(TypedDict):
    event: int
    text: str
    group_rank: int
    group_size: int

# Path and record of a tensor.
_Contributed: TypeAlias = tuple[str, int | None]
# group_rank, part, event, tensors, missing
_GivenByRank: TypeAlias = tuple[int, int | None, int | None, list[_Contributed], str]

class PassCollectives:
    @staticmethod
    def open(ranks: Sequence[tuple[int, Pass]]) -> PassCollectives: ...
    def call(self, part: int, event: int) -> _CollectiveDict | None: ...
    def given_to(self, part: int, event: int, path: str) -> tuple[str, list[_GivenByRank]]: ...
    def held_results(self, part: int) -> list[tuple[int, int, str]]: ...

# ---- comparing ----

class Diff:
    def json(self) -> str: ...
    def csv(self) -> bytes: ...
    def text(self, all: bool, rows: int) -> str: ...
    def write_page(self, path: str, details: int) -> None: ...
    def is_same(self, arg: Sequence[str], /) -> bool: ...

def diff(
    a: str,
    b: str,
    *,
    passes: str,
    ranks: str,
    filter: str,
    wanted: Callable[[str], object] | None,
    map: str,
    shards: str,
    noise: str,
    noise_factor: float,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    rules: Sequence[str],
    structure: bool,
    all_ops: bool,
    strict: bool,
    by_token: bool | None,
    threads: int,
) -> Diff: ...

class Check:
    def json(self) -> str: ...
    def text(self) -> str: ...
    @property
    def clean(self) -> bool: ...
    @property
    def complete(self) -> bool: ...
    @property
    def conclusive(self) -> bool: ...

def check(
    path: str,
    passes: str,
    ranks: str,
    filter: str,
    wanted: Callable[[str], object] | None,
    verify: bool,
    all: bool,
) -> Check: ...

class Mismatch:
    def json(self) -> str: ...
    def text(self) -> str: ...
    def write_plot(self, path: str) -> None: ...

def mismatch(
    rollout: str,
    trainer: str,
    rank: str,
    rollout_logits: str,
    trainer_logits: str,
    ratio: float,
    worst: int,
    cause: bool,
    threads: int,
) -> Mismatch: ...

# ---- logs ----

def log_text(
    pass_: Pass,
    *,
    filter: str = "",
    module: str = "",
    around: str | None = None,
    neighbours: int = 10,
    stack: str = "",
    inputs: bool = False,
    strides: bool = False,
    keys: bool = False,
    color: bool = False,
) -> str: ...
def log_json(
    pass_: Pass, *, filter: str = "", module: str = "", around: str | None = None, neighbours: int = 10
) -> str: ...
def write_perfetto(
    pass_: Pass, path: str, *, filter: str = "", module: str = "", rank: int = 0, pid: int = 0
) -> None: ...
def write_model_explorer(
    pass_: Pass, path: str, *, filter: str = "", module: str = "", rank: int = 0, pid: int = 0
) -> None: ...

# ---- probing ----

class Fingerprint:
    @property
    def hash(self) -> str: ...
    @property
    def stats(self) -> Stats: ...

class _Comparison(TypedDict):
    differing: int
    first: int
    largest: float
    actual: _Element
    expected: _Element

class _FirstFailure(_Comparison):
    replay: int
    elements: int

class ProbeExpected:
    def __init__(self, tensor: _Tensor, device: int) -> None: ...

class ProbeSite:
    def __init__(
        self,
        device: int,
        bytes: int,
        element_bytes: int,
        keep_bytes: bool,
        head_elements: int,
        capacity: int,
        wait_when_full: bool,
        compares: bool,
    ) -> None: ...
    def enqueue(
        self,
        tensor: _Tensor,
        stream: int,
        rows: _Tensor | None = None,
        rows_are_64_bit: bool = True,
        expected: ProbeExpected | None = None,
        rtol: float = 0.0,
        atol: float = 0.0,
        equal_nan: bool = False,
    ) -> None: ...
    def next(self) -> tuple[int, Fingerprint, int, _Bytes] | None: ...
    def comparisons(self, dtype: DType) -> tuple[int, int, _FirstFailure | None]: ...
    @property
    def published(self) -> int: ...
    @property
    def overwritten(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    def close(self) -> None: ...

def probe_capture_number(stream: int) -> int: ...
def probe_device_reason() -> str: ...
def free_device_memory() -> None: ...
def capturing(by: int) -> None: ...
def fingerprint(tensor: _Tensor) -> Fingerprint: ...
def compare(actual: _Tensor, expected: _Tensor, rtol: float, atol: float, equal_nan: bool) -> _Comparison: ...
def values(bytes: _Bytes, dtype: DType, most: int) -> list[_Element]: ...
def capture_fingerprint(
    recorder: Recorder, event: Event, fingerprint: Fingerprint, dtype: DType, shape: Sequence[int], device: str
) -> str | None: ...

# ---- quantizing ----

class QuantFormat:
    name: str
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
    global_scale: GlobalScale
    global_per_row: bool
    scale_maximum: float
    zero_point: ZeroPoint
    stored_transposed: bool
    rotated: bool
    @property
    def columnwise(self) -> bool: ...
    def to_json(self) -> str: ...
    def __copy__(self) -> QuantFormat: ...

def quant_format(name: str) -> QuantFormat: ...
def quant_format_names() -> list[str]: ...
def quant_format_from_json(text: str) -> QuantFormat: ...
def quant_encode(
    tensor: _Tensor,
    format: QuantFormat,
    *,
    mx_rule: MxScaleRule = "floor",
    global_scale: float | None = None,
    amax: float | None = None,
    smallest_scale: float = 0.0,
) -> dict[str, tuple[_Bytes, list[int]] | None]: ...
def quant_decode(
    format: QuantFormat,
    shape: Sequence[int],
    payload: _Tensor,
    scale: _Tensor,
    global_scale: _Tensor | None = None,
    zero_point: _Tensor | None = None,
    *,
    out: _Tensor,
) -> None: ...
def quant_decode_gpu(
    format: QuantFormat,
    shape: Sequence[int],
    payload: _Tensor,
    scale: _Tensor,
    global_scale: _Tensor | None = None,
    zero_point: _Tensor | None = None,
    *,
    out: _Tensor,
    device: int,
    stream: int,
) -> None: ...
def quant_decode_scales(
    format: QuantFormat,
    shape: Sequence[int],
    payload: _Tensor,
    scale: _Tensor,
    global_scale: _Tensor | None = None,
    zero_point: _Tensor | None = None,
) -> tuple[_Bytes, tuple[int, int]]: ...
def quant_statistics(
    tensor: _Tensor,
    recipes: Sequence[QuantFormat],
    *,
    mx_rule: MxScaleRule = "floor",
    amax: float | None = None,
    block_amax: bool = False,
) -> list[QuantStatistics]: ...
def quant_group_statistics(
    tensor: _Tensor,
    format: QuantFormat,
    payload: _Tensor,
    scale: _Tensor,
    global_scale: _Tensor | None = None,
    zero_point: _Tensor | None = None,
    block_amax: bool = False,
) -> QuantStatistics: ...
def swizzle_scales(scales: _Tensor, out: _Tensor) -> None: ...
def unswizzle_scales(swizzled: _Tensor, out: _Tensor) -> None: ...
