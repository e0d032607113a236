"""The options of a recording: what the program passes, with the TTAP_* variables laid over it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tensortap import _core
from tensortap.literals import Format, Level, Modules, Role, Step, WhenFull, Write
from tensortap.session.filters import NameFilter, load_function
from tensortap.session.number_set import NumberSet
from tensortap.tensors.live_rows import LiveRows

ROLES: tuple[Role, ...] = ("out", "in", "grad_out", "grad_in", "param")
LEVELS: dict[Level, int] = {"meta": 0, "fingerprint": 1, "full": 2}  # as ttap::Level


class Levels:
    """The level of each name: that of the first pattern found in it, else the default."""

    def __init__(self, default: str, rules: Iterable[tuple[str, str]] = ()) -> None:
        self._default = _level(default)
        self._rules: list[tuple[re.Pattern[str], int]] = []
        for pattern, level in rules:
            try:
                self._rules.append((re.compile(pattern), _level(level)))
            except re.error as error:
                raise ValueError(f"the level's pattern {pattern!r} is not a regular expression: {error}") from error

    @classmethod
    def of(cls, given: Level | Mapping[str, Level]) -> Levels:
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, Mapping):
            return cls("full", given.items())
        raise TypeError(f"level is {given!r}: it must be one of {', '.join(LEVELS)}, or a dict of pattern to level")

    def of_name(self, name: str) -> int:
        for pattern, level in self._rules:
            if pattern.search(name):
                return level
        return self._default


def _level(name: object) -> int:
    if name not in LEVELS:
        raise ValueError(f"level {name!r}: it is one of {', '.join(LEVELS)}")
    return LEVELS[name]  # type: ignore[index]


def size_in_bytes(given: int | str, what: str) -> int:
    """A number of bytes, given as such or as text like `"256M"`."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    match = re.fullmatch(r"(\d+)([KMGT]?)", given, re.IGNORECASE) if isinstance(given, str) else None
    if match is None:
        raise ValueError(f"{what} is {given!r}: it must be a number of bytes, or one with K, M, G or T")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


def choice(given: str, choices: Iterable[str], what: str) -> str:
    """One of the choices, or a ValueError that lists them."""
    choices = tuple(choices)
    if given not in choices:
        raise ValueError(f"{what} is {given!r}: it is one of {', '.join(choices)}")
    return given


def _flag(environment: Mapping[str, str], name: str, passed: bool) -> bool:
    if not isinstance(passed, bool):
        option = name.removeprefix("TTAP_").lower()
        raise TypeError(f"{option} is True or False, not {passed!r} (views and hooks are options of tap.trace)")
    return choice(environment.get(name, "1" if passed else "0"), ("0", "1"), name) == "1"


def _roles(given: str | Iterable[str]) -> frozenset[str]:
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    for name in names:
        choice(name, ROLES, "a role")
    if not names:
        raise ValueError(f"no roles: choose from {', '.join(ROLES)}")
    return frozenset(names)


@dataclass(frozen=True)
class Options:
    """A recording's options, checked."""

    directory: Path | None  # None: recording is off
    filter: NameFilter
    levels: Levels
    roles: frozenset[Role]
    modules: Modules
    ops: bool
    stacks: bool
    step: Step
    steps: NumberSet | None
    ranks: NumberSet | None
    report: bool
    core: _core.RecorderOptions
    live_rows: LiveRows | None = None
    of_graphs: bool = False  # as .npy their directory is called by rank and world
    described: dict[str, object] = field(default_factory=dict)  # for the run's metadata

    def wants_rank(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks


def _number_set(environment: Mapping[str, str], name: str, given: object) -> NumberSet | None:
    variable = f"TTAP_{name.upper()}"
    if variable not in environment:
        return None if given is None else NumberSet.of(given)  # type: ignore[arg-type]
    try:
        return NumberSet.of(environment[variable])
    except ValueError as error:
        raise ValueError(f"{variable}: {error}") from None


def options_of(
    directory: str | os.PathLike[str] | None = None,
    *,
    filter: object = None,
    level: Level | Mapping[str, Level] = "full",
    roles: str | Iterable[Role] = ("out",),
    modules: Modules = "leaf",
    ops: bool = False,
    stacks: bool = False,
    step: Step = "auto",
    steps: object = None,
    ranks: object = None,
    format: Format = "ttap",
    staging: int | str | None = None,
    device_staging: int | str | None = None,
    quota: int | str | None = None,
    when_full: WhenFull = "block",
    write: Write = "auto",
    strict: bool = False,
    deduplicate: bool = True,
    sync: bool = False,
    rows: int | torch.Tensor | None = None,
    padded: int | None = None,
    report: bool = True,
) -> Options:
    """Checks what the program passes, then lays the environment over it."""
    environment = {name: text for name, text in os.environ.items() if name.startswith("TTAP_") and text}
    core = _core.RecorderOptions()
    if staging is not None:
        core.staging_bytes = size_in_bytes(staging, "staging")
    if device_staging is not None:
        core.device_staging_bytes = size_in_bytes(device_staging, "device_staging")
    if quota is not None:
        core.quota_bytes = size_in_bytes(quota, "quota")
    core.drop_when_full = choice(when_full, ("block", "drop"), "when_full") == "drop"
    core.write = write
    core.deduplicate, core.sync, core.strict, core.format = deduplicate, sync, strict, format
    core.directory = os.fspath(directory) if directory is not None else ""
    name_filter, levels = NameFilter(filter), Levels.of(level)  # checked even where the environment overrides them
    number_sets = {"steps": steps, "ranks": ranks}

    core = core.overlay_environment()
    core.deduplicate = _flag(environment, "TTAP_DEDUPLICATE", core.deduplicate)
    core.sync = _flag(environment, "TTAP_SYNC", core.sync)
    if "TTAP_FILTER_FN" in environment:
        if "TTAP_FILTER" in os.environ:
            raise ValueError("TTAP_FILTER and TTAP_FILTER_FN are both set: unset one of them")
        name_filter = NameFilter(load_function(environment["TTAP_FILTER_FN"]))
    elif "TTAP_FILTER" in os.environ:
        name_filter = NameFilter(core.filter)
    if "TTAP_LEVEL" in environment:
        levels = Levels(core.level, core.level_rules)
    core.filter = None  # names are decided here: Python's patterns, and functions
    sets = {name: _number_set(environment, name, given) for name, given in number_sets.items()}

    chosen = {
        "roles": _roles(environment.get("TTAP_ROLES", roles)),
        "modules": choice(environment.get("TTAP_MODULES", modules), ("leaf", "all"), "modules"),
        "ops": _flag(environment, "TTAP_OPS", ops),
        "stacks": _flag(environment, "TTAP_STACKS", stacks),
        "step": choice(environment.get("TTAP_STEP", step), ("auto", "manual"), "step"),
    }
    described = {
        "filter": str(name_filter),
        "level": environment.get("TTAP_LEVEL", level if isinstance(level, str) else dict(level)),
        "roles": sorted(chosen["roles"], key=ROLES.index),
        "modules": chosen["modules"],
        **{name: True for name in ("ops", "stacks") if chosen[name]},
        "step": chosen["step"],
        **{name: str(given) for name, given in sets.items() if given is not None},
        "format": core.format,
    }
    return Options(
        directory=Path(core.directory).expanduser().absolute() if core.directory else None,
        filter=name_filter,
        levels=levels,
        report=_flag(environment, "TTAP_REPORT", report),
        core=core,
        described=described,
        live_rows=LiveRows.of(rows, padded),
        **chosen,
        **sets,
    )
