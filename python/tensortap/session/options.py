"""The options of a recording: what the program passes, then the TTAP_* variables, then the defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensortap import _core
from tensortap.literals import Level, Modules, Role, Step
from tensortap.session.filters import NameFilter
from tensortap.session.loading import load_function
from tensortap.tensors.live_rows import LiveRows

ROLES: tuple[Role, ...] = ("out", "in", "grad_out", "grad_in", "param", "cache")
LEVELS: dict[Level, int] = {"meta": 0, "fingerprint": 1, "sketch": 2, "full": 3}  # as ttap::Level


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
    def of(cls, given: Level | Mapping[str, Level], default: Level) -> Levels:
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, Mapping):
            return cls(default, given.items())
        raise TypeError(f"level is {given!r}: it must be one of {', '.join(LEVELS)}, or a dict of pattern to level")

    def of_name(self, name: str) -> int:
        for pattern, level in self._rules:
            if pattern.search(name):
                return level
        return self._default

    def has(self, level: int) -> bool:
        """Whether a name can have this level."""
        return level == self._default or any(level == of_rule for _, of_rule in self._rules)


def _level(name: object) -> int:
    if name not in LEVELS:
        raise ValueError(f"level {name!r}: it is one of {', '.join(LEVELS)}")
    return LEVELS[name]  # type: ignore[index]


def size_in_bytes(given: int | str, what: str) -> int:
    """A number of bytes, given as such or as text like `"256M"`."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    size = _core.parse_byte_size(given) if isinstance(given, str) else None
    if size is None:
        raise ValueError(f"{what} is {given!r}: it must be a number of bytes, or one with K, M, G or T")
    return size


def choice(given: str, choices: Iterable[str], what: str) -> str:
    """One of the choices, or a ValueError that lists them."""
    choices = tuple(choices)
    if given not in choices:
        raise ValueError(f"{what} is {given!r}: it is one of {', '.join(choices)}")
    return given


def _flag(given: object, what: str) -> bool:
    if isinstance(given, bool):
        return given
    if not what.startswith("TTAP_"):
        raise TypeError(f"{what} is True or False, not {given!r} (views and hooks are options of tap.trace)")
    return choice(str(given), ("0", "1"), what) == "1"


def _roles(given: str | Iterable[str], what: str) -> frozenset[str]:
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    if not names:
        raise ValueError(f"{what}: choose from {', '.join(ROLES)}")
    return frozenset(choice(name, ROLES, f"a role of {what}") for name in names)


def _number_set(given: str | int | Iterable[int], what: str) -> _core.NumberSet:
    if isinstance(given, str):
        try:
            return _core.NumberSet("".join(given.split()))
        except ValueError:
            raise ValueError(f"{what}: {given!r} is not a set of numbers: write it like '0,3-5,10-'") from None
    numbers = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise TypeError(f"{what}: a set of numbers is wanted, not {given!r}")
    if not numbers or min(numbers) < 0:
        raise ValueError(f"{what}: {numbers!r} is not a set of numbers from 0 on")
    return _core.NumberSet(",".join(map(str, numbers)))


def _one_of(*choices: str) -> Callable[[str, str], str]:
    return lambda given, what: choice(given, choices, what)


@dataclass(frozen=True)
class Options:
    """A recording's options, checked."""

    directory: Path | None  # None: recording is off
    filter: NameFilter
    levels: Levels
    roles: frozenset[Role]
    modules: Modules
    compiled: bool
    ops: bool
    stacks: bool
    unseen_writes: bool
    step: Step
    steps: _core.NumberSet | None
    ranks: _core.NumberSet | None
    report: bool
    core: _core.RecorderOptions
    override: bool = False  # the environment comes before what the program passes
    live_rows: LiveRows | None = None
    warn_of_growth: bool = False  # on stderr, when the first pass is large
    of_graphs: bool = False  # as .npy their directory is called by rank and world
    described: dict[str, object] = field(default_factory=dict)  # for the run's metadata

    def wants_rank(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks


# What has a variable TTAP_{NAME} beyond those that C++ reads: how a value is checked, and the default.
_CHECKS: dict[str, tuple[Callable[[Any, str], Any], object]] = {
    "roles": (_roles, frozenset(["out"])),
    "modules": (_one_of("leaf", "all"), "leaf"),
    "compiled": (_flag, False),
    "ops": (_flag, False),
    "stacks": (_flag, False),
    "unseen_writes": (_flag, False),
    "step": (_one_of("auto", "manual"), "auto"),
    "steps": (_number_set, None),
    "ranks": (_number_set, None),
    "append": (_flag, False),
    "deduplicate": (_flag, True),
    "sync": (_flag, False),
    "report": (_flag, True),
}
_SIZES = ("staging", "device_staging", "quota")


def _give_to_core(core: _core.RecorderOptions, given: Mapping[str, Any]) -> None:
    for name in _SIZES:
        if name in given:
            setattr(core, f"{name}_bytes", size_in_bytes(given[name], name))
    if "when_full" in given:
        core.drop_when_full = choice(given["when_full"], ("block", "drop"), "when_full") == "drop"
    for name in ("write", "strict", "format"):
        if name in given:
            setattr(core, name, given[name])
    if "directory" in given:
        core.directory = os.fspath(given["directory"])


def options_of(directory: str | os.PathLike[str] | None = None, **passed: Any) -> Options:
    """Checks what the program passes, the options of `record()`, and reads what it does not from the environment.

    None counts as not passed. With TTAP_OVERRIDE=1 the environment comes first.
    """
    given = {name: value for name, value in {"directory": directory, **passed}.items() if value is not None}
    environment = {name: text for name, text in os.environ.items() if name.startswith("TTAP_") and text}
    override = _flag(environment.get("TTAP_OVERRIDE", "0"), "TTAP_OVERRIDE")

    def from_environment(name: str, option: str) -> bool:
        return name in environment and (override or option not in given)

    _give_to_core(core := _core.RecorderOptions(), given)
    if override:
        core = core.overlay_environment()
    else:
        _give_to_core(core := _core.RecorderOptions().overlay_environment(), given)
    chosen: dict[str, Any] = {}
    for name, (check, default) in _CHECKS.items():
        chosen[name] = check(given[name], name) if name in given else default  # also where it is overridden
        if from_environment(variable := f"TTAP_{name.upper()}", name):
            chosen[name] = check(environment[variable], variable)
    core.append, core.deduplicate, core.sync = (chosen.pop(name) for name in ("append", "deduplicate", "sync"))

    # The bytes of every operator's tensors are more than most disks hold.
    default: Level = "sketch" if chosen["ops"] else "full"
    level = given.get("level", default)
    name_filter, levels = NameFilter(given.get("filter")), Levels.of(level, default)
    if from_environment("TTAP_FILTER_FN", "filter"):
        if "TTAP_FILTER" in os.environ:
            raise ValueError("TTAP_FILTER and TTAP_FILTER_FN are both set: unset one of them")
        name_filter = NameFilter(load_function(environment["TTAP_FILTER_FN"]))
    elif "TTAP_FILTER" in os.environ and (override or "filter" not in given):  # a blank one says something
        name_filter = NameFilter(core.filter)
    if from_environment("TTAP_LEVEL", "level"):
        level = environment["TTAP_LEVEL"]
        levels = Levels(default if core.level_rules else core.level, core.level_rules)
    core.filter = None  # names are decided here: Python's patterns, and functions

    described = {
        "filter": str(name_filter),
        "level": level if isinstance(level, str) else dict(level),
        "roles": sorted(chosen["roles"], key=ROLES.index),
        "modules": chosen["modules"],
        **{name: True for name in ("compiled", "ops", "stacks", "unseen_writes") if chosen[name]},
        "step": chosen["step"],
        **{name: str(chosen[name]) for name in ("steps", "ranks") if chosen[name] is not None},
        "format": core.format,
    }
    return Options(
        directory=Path(core.directory).expanduser().absolute() if core.directory else None,
        filter=name_filter,
        levels=levels,
        core=core,
        override=override,
        described=described,
        # `ttap run` reports for all processes, and says itself whether anything is to be said.
        warn_of_growth=(chosen["report"] or environment.get("TTAP_RUN") == "1") and "TTAP_QUIET" not in environment,
        live_rows=LiveRows.of(given.get("rows"), given.get("padded")),
        **chosen,
    )
