"""The user's functions of `tap.trace(hooks=…)`, and what they answer as a note: JSON, whatever it is."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tensortap.torch_glue.program_errors import raise_if_of_program
from tensortap.torch_glue.storable_text import storable

Hook = Callable[[str, tuple[Any, ...], dict[str, Any], Any], "Mapping[str, Any] | None"]

DEEPEST = 20  # lists and mappings inside one another


def guarded_hook(hook: Hook | Iterable[Hook]) -> Callable[..., str]:
    """The user's functions as one that returns JSON; what they raise is noted with the call, and printed once."""
    hooks = list(hook) if isinstance(hook, Iterable) else [hook]
    if not all(callable(each) for each in hooks):
        raise TypeError(f"hooks is {hook!r}: it is a function of (name, args, kwargs, result), or a list of them")
    failed: list[str] = []

    def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, scoped_name: str) -> str:
        noted: dict[Any, Any] = {}
        for each in hooks:
            try:
                noted.update(each(name, args, kwargs, result) or {})
            except Exception as error:
                raise_if_of_program(error)
                noted["error"] = _told(error)
                failed.append(name)
                if len(failed) == 1:
                    print(f"tensortap: a hook failed at {name}: {noted['error']}", file=sys.stderr)
        return note_text(noted) if noted else ""

    return call


def note_text(noted: Mapping[Any, Any]) -> str:
    """It as JSON that every reader takes; what JSON has no word for becomes text."""
    try:
        return json.dumps(_plain(noted, ()))
    except Exception as error:  # a mapping of the user's own may raise anything
        return json.dumps({"error": _told(error)})


def _plain(value: Any, around: tuple[int, ...]) -> Any:
    """As dicts, lists, texts and finite numbers; `around` are the ids of what it stands in."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() < 1024 else _text(value)  # readers that know but double take no more
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _word_of(value)
    if isinstance(value, (Mapping, list, tuple)):
        if id(value) in around or len(around) == DEEPEST:
            return "…"
        around = (*around, id(value))
        if isinstance(value, Mapping):
            return {_text(key): _plain(each, around) for key, each in value.items()}
        return [_plain(each, around) for each in value]
    return _text(value)


def _word_of(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _text(value: Any) -> str:
    """How it prints itself."""
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception as error:
        text = f"<{type(value).__name__} that cannot be printed: {type(error).__name__}>"
    return storable(text)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {_text(error)}"
