"""A value of a config and where in it it stands, so that every error names the place and what is allowed there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class ConfigError(ValueError):
    """A config that cannot be meant; says where, and what is allowed there."""


@dataclass(frozen=True)
class Entry:
    """One value; `place` is how one gets there: `section.transformer_engine.DumpTensors.tensors[0]`."""

    value: Any
    place: str

    def wrong(self, allowed: str) -> ConfigError:
        return ConfigError(f"{self.place} is {self.value!r}: {allowed}")

    def members(self, allowed: Iterable[str] | None = None) -> dict[str, Entry]:
        """Those of a mapping. `allowed` are all the names there are; None: any."""
        names = None if allowed is None else tuple(allowed)
        what = "it must be a mapping" + (f" of {', '.join(names)}" if names else "")
        if not isinstance(self.value, Mapping):
            raise self.wrong(what)
        for name in self.value:
            if not isinstance(name, str):
                raise ConfigError(f"{self.place or 'the config'} has the name {name!r}: names are text")
            if names is not None and name not in names:
                raise ConfigError(f"{self.place} has no {name!r}: it is one of {', '.join(names)}")
        start = f"{self.place}." if self.place else ""
        return {name: Entry(value, start + name) for name, value in self.value.items()}

    def items(self, what: str) -> list[Entry]:
        """Those of a list that is not empty."""
        if not isinstance(self.value, (list, tuple)) or not self.value:
            raise self.wrong(f"it must be a list of {what}")
        return [Entry(value, f"{self.place}[{index}]") for index, value in enumerate(self.value)]

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("it must be True or False")
        return self.value

    def text(self, what: str) -> str:
        if not isinstance(self.value, str):
            raise self.wrong(f"it must be {what}")
        return self.value

    def number(self, least: int, allowed: str) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < least:
            raise self.wrong(f"it must be {allowed}")
        return self.value
