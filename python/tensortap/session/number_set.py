"""Sets of numbers as people write them: `0,3-5,10-`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(r"\s*(\d+)\s*(?:(-)\s*(\d*))?\s*")


class NumberSet:
    """Numbers and ranges; a range may be open at its end."""

    def __init__(self, ranges: list[tuple[int, int | None]]) -> None:
        self._ranges = ranges

    @classmethod
    def of(cls, given: str | int | Iterable[int]) -> NumberSet:
        """From text, one number, or numbers."""
        if isinstance(given, bool):
            raise TypeError(f"a set of numbers is wanted, not {given!r}")
        if isinstance(given, int):
            given = [given]
        if not isinstance(given, str):
            numbers = list(given)
            if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
                raise TypeError(f"a set of numbers is wanted, not {numbers!r}")
            if not numbers or min(numbers) < 0:
                raise ValueError(f"{numbers!r} is not a set of numbers from 0 on")
            return cls([(number, number) for number in numbers])
        ranges: list[tuple[int, int | None]] = []
        for part in given.split(","):
            match = _PART.fullmatch(part)
            if match is None:
                raise ValueError(f"{given!r} is not a set of numbers: write it like '0,3-5,10-'")
            first, dash, last = match.groups()
            end = int(last) if last else None if dash else int(first)
            if end is not None and end < int(first):
                raise ValueError(f"{part.strip()!r} in {given!r} ends before it begins")
            ranges.append((int(first), end))
        return cls(ranges)

    def __contains__(self, number: int) -> bool:
        return any(first <= number and (last is None or number <= last) for first, last in self._ranges)

    def __str__(self) -> str:
        def text(first: int, last: int | None) -> str:
            return f"{first}-" if last is None else str(first) if first == last else f"{first}-{last}"

        return ",".join(text(*part) for part in self._ranges)
