"""Which layers a section of a config is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tensortap.quant.dump.config_entry import ConfigError, Entry

NAMES = ("layer_name_regex_pattern", "layer_types", "layer_numbers", "exact_layer_names")
_NUMBERS = 'a number, a list of numbers and ranges like "3-5", or "all"'


@dataclass(frozen=True)
class LayerChoice:
    """A layer is meant when all that is given holds for one of its names. None: not given."""

    place: str
    pattern: re.Pattern[str] | None = None
    types: tuple[str, ...] | None = None
    numbers: tuple[tuple[int, int], ...] | None = None  # ranges with both ends; empty: every number there is
    exact: tuple[str, ...] | None = None

    def selects(self, name: str, class_name: str) -> bool:
        if self.exact is not None and name not in self.exact:
            return False
        if self.pattern is not None and self.pattern.search(name) is None:
            return False
        if self.types is not None and not any(part in name or part == class_name for part in self.types):
            return False
        return self.numbers is None or self._has_number(number_of(name))

    def _has_number(self, number: int | None) -> bool:
        if number is None:
            return False
        return not self.numbers or any(first <= number <= last for first, last in self.numbers)


def number_of(name: str) -> int | None:
    """A layer's number: the first step of its name that is a number, else the first number that no `fc` stands before.

    `encoder.layer.3.fc1` is of layer 3, and so is `layer_3.fc1`.
    """
    steps = [step for step in name.split(".") if step.isdecimal()]
    found = steps or re.findall(r"(?<!\d)(?<!fc)\d+", name)
    return int(found[0]) if found else None


def layers_of(entry: Entry) -> LayerChoice:
    """From the member `layers` of a section."""
    entries = {name: member for name, member in entry.members(NAMES).items() if member.value is not None}
    if not entries:
        raise ConfigError(f"{entry.place} says nothing: give one of {', '.join(NAMES)}")
    pattern = types = numbers = exact = None
    if "layer_name_regex_pattern" in entries:
        given = entries["layer_name_regex_pattern"]
        try:
            pattern = re.compile(given.text("a regular expression"))
        except re.error as error:
            raise given.wrong(f"it is no regular expression: {error}") from None
    if "layer_types" in entries:
        types = _texts(entries["layer_types"], "parts of layer names, or names of classes")
    if "exact_layer_names" in entries:
        exact = _texts(entries["exact_layer_names"], "names of layers")
    if "layer_numbers" in entries:
        numbers = _numbers(entries["layer_numbers"])
    if types is not None and "all" in types:
        types = ("",)
    return LayerChoice(entry.place, pattern, types, numbers, exact)


def _texts(entry: Entry, what: str) -> tuple[str, ...]:
    if isinstance(entry.value, str):
        return (entry.value,)
    return tuple(item.text("text") for item in entry.items(what))


def _numbers(entry: Entry) -> tuple[tuple[int, int], ...]:
    items = entry.items(_NUMBERS) if isinstance(entry.value, (list, tuple)) else [entry]
    if any(item.value == "all" for item in items):
        return ()
    return tuple(_range(item) for item in items)


def _range(item: Entry) -> tuple[int, int]:
    if isinstance(item.value, str):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", item.value)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise item.wrong(f"it must be {_NUMBERS}")
        return int(match[1]), int(match[2] or match[1])
    number = item.number(0, _NUMBERS)
    return number, number
