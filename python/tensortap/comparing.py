"""Comparing two recordings: where they first differ, and which operator is to blame."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.html_table import ROWS_SHOWN, html_table
from tensortap.literals import Cause, Evidence, MatchedBy, RunVerdict, Verdict
from tensortap.session.filters import one_pattern
from tensortap.typed_dicts import (
    AxisError,
    CallOfTensor,
    Comparable,
    DroppedTensor,
    MapRule,
    Measures,
    QuantizedWeights,
    UsedTolerance,
    WorstElement,
)


@dataclass(frozen=True)
class TensorDiff:
    """One tensor of both runs, or of one."""

    order: int
    key: str
    verdict: Verdict
    cause: Cause = ""
    reason: str = ""
    evidence: Evidence = ""
    key_b: str | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    matched: MatchedBy = "key"
    confidence: float = 1.0
    ranks: tuple[int, ...] = ()
    made_a: str | None = None
    made_b: str | None = None
    map_line: int | None = None
    note: str = ""
    trivial: bool = False
    tensor_name: str = ""
    updates: bool = False
    quantized_a: str | None = None
    quantized_b: str | None = None
    call_a: CallOfTensor | None = None
    call_b: CallOfTensor | None = None
    tolerance: UsedTolerance | None = None
    measures: Measures | None = None
    axes: tuple[AxisError, ...] = field(default=(), repr=False)

    if TYPE_CHECKING:  # what __getattr__ finds, so that a wrong name is an error

        @property
        def count(self) -> int: ...
        @property
        def finite(self) -> int: ...
        @property
        def unequal(self) -> int: ...
        @property
        def outside(self) -> int: ...
        @property
        def nan_mismatches(self) -> int: ...
        @property
        def inf_mismatches(self) -> int: ...
        @property
        def max_abs(self) -> float: ...
        @property
        def mean_abs(self) -> float: ...
        @property
        def max_rel(self) -> float: ...
        @property
        def rmse(self) -> float: ...
        @property
        def cosine(self) -> float: ...
        @property
        def sqnr_db(self) -> float: ...
        @property
        def rms_a(self) -> float: ...
        @property
        def rms_b(self) -> float: ...
        @property
        def relative(self) -> float: ...
        @property
        def max_ulp(self) -> int | None: ...
        @property
        def p99_ulp(self) -> int | None: ...
        @property
        def worst(self) -> WorstElement | None: ...

    else:

        def __getattr__(self, name: str) -> Any:
            # diff.first.max_abs is what one types.
            measures = self.__dict__.get("measures")
            if measures is not None and name in measures:
                return measures[name]
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class Diff:
    """What a comparison found. Printing it prints what `ttap diff` prints.

    Attributes
    ----------
    verdict : RunVerdict
        "identical", "within tolerance", "diverged" or "inconclusive".
    sentence : str
        The answer in one sentence.
    same : bool
        Whether the runs agree.
    first : TensorDiff or None
        The first tensor that an operator made different; where none is known to have, the first that differs.
    first_unequal : TensorDiff or None
        The first value of an op that has other bits, whatever the verdict.
    quantized : dict or None
        Which side's weights are quantized, and what that did to each layer, the one that suffers most first.
    introduced : list of TensorDiff
        Every tensor whose operator introduced an error, in execution order.
    tensors : list of TensorDiff
        All of them, pass by pass, in execution order.
    counts : dict
        How many tensors got which verdict.
    dropped : list of dict
        The tensors that a rule of the map leaves out: `side`, `key` and `map_line`.
    warnings : list of str
    """

    def __init__(self, core: _core.Diff, sides: Sequence[os.PathLike[str]] = ()) -> None:
        self._core = core
        self._sides = sides  # a trace lies in a directory that goes with it
        self._json: dict[str, Any] = json.loads(core.json(), object_hook=_numbers)
        passes = [[_tensor(one) for one in each["tensors"]] for each in self._json["passes"]]

        def at(place: dict[str, int]) -> TensorDiff:
            return passes[place["pass"]][place["tensor"]]

        def first(name: str) -> TensorDiff | None:
            return None if self._json[name] is None else at(self._json[name])

        self.verdict: RunVerdict = self._json["verdict"]
        self.sentence: str = self._json["sentence"]
        self.evidence: list[str] = self._json["evidence"]
        self.same: bool = core.is_same([])
        self.first: TensorDiff | None = first("first")
        self.first_unequal: TensorDiff | None = first("first_unequal")
        self.quantized: QuantizedWeights | None = self._json["quantized"]
        self.introduced: list[TensorDiff] = [at(place) for place in self._json["introduced"]]
        self.tensors: list[TensorDiff] = [tensor for each in passes for tensor in each]
        self.counts: dict[Verdict, int] = self._json["counts"]
        self.dropped: list[DroppedTensor] = [each for one in self._json["passes"] for each in one["dropped"]]
        self.warnings: list[str] = self._json["warnings"]

    def __getitem__(self, key: str) -> TensorDiff:
        for tensor in self.tensors:
            if tensor.key == key:
                return tensor
        raise KeyError(key)

    def __repr__(self) -> str:
        return f"<Diff {self.sentence}>"

    def __str__(self) -> str:
        return self._core.text(all=False, rows=20)

    def _repr_html_(self) -> str:
        found = [tensor for tensor in self.tensors if tensor.verdict not in ("identical", "within tolerance")]
        rows = [
            (tensor.order, tensor.key, tensor.verdict, tensor.cause, *_errors(tensor)) for tensor in found[:ROWS_SHOWN]
        ]
        return html_table(self.sentence, ("order", "key", "verdict", "cause", "max abs", "relative"), rows, len(found))

    def fails_on(self, *predicates: str) -> bool:
        """Whether a tensor is so: a verdict, a cause, or a predicate such as "max_abs>1e-3"."""
        return not self._core.is_same(list(predicates)) if predicates else not self.same

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap diff --json` prints it; NaN and infinities as floats."""
        return self._json

    def to_html(self, path: str | os.PathLike[str], *, details: int = 200) -> None:
        """Write one page that needs nothing else, with charts for at most `details` tensors."""
        self._core.write_page(os.fspath(path), details)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write one line per tensor."""
        Path(path).write_bytes(self._core.csv())


def diff(
    a: Comparable,
    b: Comparable,
    *,
    passes: str | None = None,
    ranks: str | None = None,
    filter: str | Sequence[str] | Callable[[str], object] | None = None,
    map: str | os.PathLike[str] | Mapping[str, str] | Sequence[Mapping[str, MapRule]] | None = None,
    shards: str | os.PathLike[str] | Mapping[str, str] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    tol: Mapping[str, str | tuple[float, float]] | None = None,
    noise: Comparable | None = None,
    noise_factor: float = 4.0,
    equal_nan: bool = False,
    structure: bool = True,
    all_ops: bool = False,
    strict: bool = False,
    by_token: bool | None = None,
    threads: int = 0,
) -> Diff:
    """Compare two recordings; `a` is the reference.

    Parameters
    ----------
    a, b : path, Run, Rank, Pass, Trace, or a mapping of names to tensors
        A run, a rank, a pass, or one file of any format that can be read.
    passes, ranks : str, optional
        Which to compare: "3"; "3:0" for a's 3 with b's 0.
    filter : str, sequence of str or function, optional
        Only tensors in whose key this pattern, or one of them, is found; or for whose key the function says so.
    map : path, mapping or sequence of mappings, optional
        Regexes and replacements that turn b's keys into a's; in a sequence also operations, as in a file:
        `{"slice": {"a": "(.+)[.]q_proj$", "of": "$1.qkv_proj", "at": "[..., 0:4096]"}}`.
    shards : path or mapping, optional
        Regexes and `"concat DIM"`, `"sum"` or `"replicated"`: how tensors that ranks share are put together.
    rtol, atol : float, optional
        For every tensor; by default they depend on the coarser dtype.
    tol : mapping, optional
        From a regex to `(rtol, atol)` or a predicate such as `"cos>=0.999"`; the first that matches a key counts.
    noise : as `a`, optional
        Another run of the reference: each tensor is given `noise_factor` times the error between it and `a`.
    equal_nan : bool
        NaN agrees with NaN.
    structure : bool
        Whether to match by structure what keys and `map` leave over.
    all_ops : bool
        Also compare the ops that ran before the first call of a module, where weights are made, loaded and cast.
    strict : bool
        No guesses: nothing is matched by values or structure, no match is undone, and only the same bits, rounding
        bounds and tolerances decide.
    by_token : bool, optional
        Whether to compare token by token, whatever pass computed each. By default where both say which tokens their
        passes computed (models of Transformers, vLLM, `tensortap.batch`), and these differ from pass to pass.
    threads : int
        0 for one per core.

    Returns
    -------
    Diff
    """
    rules = [f"{regex}={_tolerance(value)}" for regex, value in (tol or {}).items()]
    with ExitStack() as stack:
        return Diff(
            _core.diff(
                _path(a, stack),
                _path(b, stack),
                passes=passes or "",
                ranks=ranks or "",
                filter="" if callable(filter) else one_pattern(filter),
                wanted=filter if callable(filter) else None,
                map=_rules_file(map, stack),
                shards=_rules_file(shards, stack),
                noise="" if noise is None else _path(noise, stack),
                noise_factor=noise_factor,
                rtol=rtol,
                atol=atol,
                equal_nan=equal_nan,
                rules=rules,
                structure=structure,
                all_ops=all_ops,
                strict=strict,
                by_token=by_token,
                threads=threads,
            ),
            [side for side in (a, b) if isinstance(side, os.PathLike)],
        )


def _errors(tensor: TensorDiff) -> tuple[object, object]:
    return ("", "") if tensor.measures is None else (tensor.max_abs, tensor.relative)


def _tolerance(value: str | Sequence[float]) -> str:
    if not isinstance(value, str | Sequence) or (not isinstance(value, str) and len(value) != 2):
        raise TypeError(f"a tolerance is (rtol, atol) or a predicate such as 'cos>=0.999', not {value!r}")
    return value if isinstance(value, str) else ",".join(repr(float(number)) for number in value)


def _path(side: Comparable, stack: ExitStack) -> str:
    """Where a side lies; tensors in memory are written to a file that lives as long as `stack`."""
    if isinstance(side, str | os.PathLike):  # a run, a rank, a pass and a trace are paths too
        return os.fspath(side)
    if isinstance(side, Mapping):
        import torch  # for tensors in memory only

        file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttap-diff-"))) / "tensors.pt"
        torch.save(_tensors(side), file)
        return str(file)
    raise TypeError(
        f"cannot compare {type(side).__name__}: give a path, a run, a rank, a pass, a trace, or a mapping of tensors"
    )


def _tensors(side: Mapping[str, Any]) -> dict[str, Any]:
    import torch  # for tensors in memory only

    def plain(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(f"{name}.{key}", part) for key, part in value.items()}
        try:
            return torch.as_tensor(value).detach().cpu()
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"cannot compare {name!r}, a {type(value).__name__}: give tensors or arrays") from error

    return {name: plain(str(name), value) for name, value in side.items()}


def _rules_file(
    rules: str | os.PathLike[str] | Mapping[str, str] | Sequence[Mapping[str, MapRule]] | None, stack: ExitStack
) -> str:
    if rules is None:
        return ""
    if isinstance(rules, str | os.PathLike):
        return os.fspath(rules)
    file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttap-diff-"))) / "rules.yaml"
    # A JSON list of maps is YAML, and keeps its order. A rule a line: errors name it.
    lines = [{key: value} for key, value in rules.items()] if isinstance(rules, Mapping) else rules
    file.write_text("[" + ",\n".join(map(json.dumps, lines)) + "]")
    return str(file)


_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_TEXTS = {
    "key",
    "key_b",
    "name",
    "tensor_name",
    "layer",
    "reason",
    "note",
    "sentence",
    "path",
    "source",
    "made_a",
    "made_b",
}


def _numbers(mapping: dict[str, Any]) -> dict[str, Any]:
    """What JSON has no number for, as the float it stands for."""
    return {
        key: _SPECIAL.get(value, value) if isinstance(value, str) and key not in _TEXTS else value
        for key, value in mapping.items()
    }


def _tensor(one: dict[str, Any]) -> TensorDiff:
    known = {name: one[name] for name in TensorDiff.__dataclass_fields__ if name in one}
    for name in ("shape", "ranks", "axes"):
        known[name] = tuple(known.get(name, ()))
    return TensorDiff(**known)
