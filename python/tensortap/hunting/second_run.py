"""What of the second run is kept: the calls that are followed up, with all that they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tensortap.hunting.suspects import CallPlace

# What a second run is told anew; each has a value.
_ANEW = ("--steps", "--ranks", "--filter", "--level")


def options_that_keep(places: Iterable[CallPlace], options: Sequence[str]) -> list[str]:
    """The options of `ttap run` with which a run holds the bytes of these calls, and no others.

    The arguments of a call are kept with it where their makers are left out. Of a module, all operators in it are kept:
    it has no arithmetic of its own. `options` are those of the first run.
    """
    places = list(places)
    words = [*_others(options), "--ops", "--stacks", "--level", "full"]
    patterns = {_pattern(place) for place in places}
    patterns |= {_pattern_of(place.view.call) for place in places if place.view is not None}
    for pattern in sorted(patterns):
        words += ["--filter", pattern]
    passes, ranks = ({getattr(place, name) for place in places} for name in ("pass_number", "rank"))
    return [*words, "--steps", ",".join(map(str, sorted(passes))), "--ranks", ",".join(map(str, sorted(ranks)))]


def _pattern(place: CallPlace) -> str:
    if place.kind == "module":
        return rf"^{re.escape(place.call)}(\.|:|$)"
    return _pattern_of(place.call)


def _pattern_of(call: str) -> str:
    return rf"^{re.escape(call)}$"


def _others(options: Sequence[str]) -> Iterator[str]:
    words = iter(options)
    for word in words:
        name, has_value, _ = word.partition("=")
        if name not in _ANEW:
            yield word
        elif not has_value:
            next(words, None)
