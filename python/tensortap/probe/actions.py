"""What a probe does with a tensor: print it, record it, compare it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import torch

from tensortap.literals import ProbeLevel
from tensortap.probe.sites import copied
from tensortap.reading import Pass
from tensortap.reading import open as open_run
from tensortap.recording import Recording

if TYPE_CHECKING:
    import numpy.typing as npt


class Action:
    """What a probe does with a tensor: `Print`, `RecordAction` or `Compare`."""

    enabled: bool


@dataclass(frozen=True)
class Print(Action):
    """Prints a line for the tensor: its first elements, and what its statistics say.

    Parameters
    ----------
    max_items
        How many elements are shown.
    every
        Only every so many-th replay, beginning with the first.
    file
        Where to; stderr by default.
    enabled
        False: as if it were not there.
    """

    max_items: int = 8
    every: int = 1
    file: TextIO | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        _number(self.max_items, 0, "Print(max_items=)")
        _number(self.every, 1, "Print(every=)")


@dataclass(frozen=True)
class RecordAction(Action):
    """Keeps the last replays, for `Probe.records()`.

    Parameters
    ----------
    capacity
        How many replays, of each call of the probe in a graph.
    level
        `full`; or `fingerprint`: hash and statistics, and no bytes are copied.
    to
        A run directory, or an open recording: every replay is written there as a pass, in the background. A replay
        then waits when the ones before it were not written yet, so that none is lost.
    enabled
        False: as if it were not there.
    """

    capacity: int = 16
    level: ProbeLevel = "full"
    to: str | os.PathLike[str] | Recording | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        _number(self.capacity, 1, "RecordAction(capacity=)")
        if self.level not in ("full", "fingerprint"):
            raise ValueError(f"RecordAction(level={self.level!r}): it is one of full, fingerprint")


class Compare(Action):
    """Compares every replay with what is expected; the first failure is kept for `Probe.assert_ok()`.

    Two values are close when |actual - expected| <= atol + rtol * |expected|, in double precision. Integers must be
    equal. An infinity agrees with the same infinity only, whatever the tolerance; NaN with nothing, or with NaN when
    `equal_nan`.

    Parameters
    ----------
    expected
        A CPU tensor or a NumPy array of the probed tensor's shape and dtype. It is copied.
    rtol, atol, equal_nan
        What counts as close.
    run, key, pass_number, rank
        In place of `expected`: a tensor that was recorded. Where the probe is called several times in a graph, the
        second call is compared with `KEY::call2`, and so on.
    enabled
        False: as if it were not there; nothing is read or copied.
    """

    def __init__(
        self,
        expected: torch.Tensor | npt.NDArray[Any] | None = None,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        *,
        equal_nan: bool = False,
        run: str | os.PathLike[str] | None = None,
        key: str | None = None,
        pass_number: int = 0,
        rank: int = 0,
        enabled: bool = True,
    ) -> None:
        if rtol < 0 or atol < 0:
            raise ValueError(f"Compare(rtol={rtol}, atol={atol}): tolerances are not negative")
        self.rtol: float = float(rtol)
        self.atol: float = float(atol)
        self.equal_nan: bool = bool(equal_nan)
        self.enabled: bool = enabled
        self._tensors: dict[int, torch.Tensor] = {}
        self._pass: Pass | None = None
        self._key = key
        if not enabled:
            return
        if (expected is None) == (run is None):
            raise ValueError("Compare: give either the expected tensor, or run= and key=")
        if run is None:
            self._tensors[0] = _copied(expected)
            return
        if key is None:
            raise ValueError("Compare(run=): say which tensor with key=")
        ranks = {found.number: found for found in open_run(run).ranks}
        if rank not in ranks:
            raise ValueError(f"Compare: {os.fspath(run)} has no rank {rank}; there are: {sorted(ranks)}")
        self._pass = ranks[rank].passes[pass_number]
        self.expected(0)  # what is missing is said here, not in the capture

    @property
    def differs_by_call(self) -> bool:
        """Whether each call of the probe in a graph has an expected tensor of its own."""
        return self._pass is not None

    def expected(self, invocation: int) -> torch.Tensor:
        """What the so many-th call of the probe in a graph is compared with."""
        if self._pass is None:
            return self._tensors[0]
        if invocation not in self._tensors:
            assert self._key is not None
            key = self._key if invocation == 0 else _call_key(self._key, invocation + 1)
            record = self._pass.record(key)
            if not record.has_bytes and not record.group:
                raise ValueError(f"Compare: {key!r} of {self._pass.path} has no bytes: record it at level full")
            self._tensors[invocation] = self._pass[key].decoded() if record.group else self._pass[key]
        return self._tensors[invocation]

    def __repr__(self) -> str:
        return f"Compare(rtol={self.rtol}, atol={self.atol}, equal_nan={self.equal_nan}, enabled={self.enabled})"


def _number(given: object, least: int, what: str) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise ValueError(f"{what} is {given!r}: it must be a number from {least}")


def _call_key(key: str, call: int) -> str:
    """The key of a later call: the suffix stands between the name and role or path."""
    end = min((key.find(mark) for mark in "@/" if mark in key), default=len(key))
    return f"{key[:end]}::call{call}{key[end:]}"


def _copied(expected: Any) -> torch.Tensor:
    if type(expected).__module__.partition(".")[0] == "numpy":
        expected = torch.from_numpy(expected.copy())
    if not isinstance(expected, torch.Tensor):
        raise TypeError(f"Compare: {type(expected).__name__} is expected; give a CPU tensor or a NumPy array")
    if expected.device.type != "cpu":
        raise ValueError(f"Compare: the expected tensor is on {expected.device}; give expected.cpu()")
    if expected.layout is not torch.strided:
        raise ValueError(f"Compare: the expected tensor has layout {expected.layout}; give a dense one")
    with torch.no_grad():
        return copied(expected.detach().resolve_conj().resolve_neg())
