"""What stands in a cache of keys and values for the tokens of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tensortap import _core

# Adapters of engines: what of a step's tokens stands in the cache of a module that has been called, by name.
Reader = Callable[[nn.Module], Iterable[tuple[str, torch.Tensor]]]
readers: list[Reader] = []


def cached_rows(module: nn.Module | None) -> Iterator[tuple[str, torch.Tensor]]:
    """What the engines know of, each with its path."""
    for read in readers if module is not None else []:
        for name, rows in read(module):
            yield _core.append_path("", name), rows


@dataclass
class Cache:
    """What one layer has in the cache."""

    states: tuple[Any, Any]  # keys and values, [requests, heads, rows, size]
    # Of a cache whose tensors are as long as it may become: how many rows are in use. A tensor may be on a GPU.
    used: int | torch.Tensor | None

    @classmethod
    def of_call(cls, keywords: Mapping[str, Any], module: nn.Module) -> Cache | None:
        """That which an attention module was given; None where it was given none."""
        cache = keywords.get("past_key_values", keywords.get("past_key_value"))  # the latter before 4.56
        place = getattr(module, "layer_idx", None)
        if cache is None or not isinstance(place, int):
            return None
        if hasattr(cache, "layers"):  # since 4.54
            if not place < len(cache.layers):
                return None
            layer = cache.layers[place]
            states = (getattr(layer, "keys", None), getattr(layer, "values", None))
        else:
            layer = cache
            held = [getattr(cache, name, []) for name in ("key_cache", "value_cache")]
            if not all(place < len(each) for each in held):
                return None
            states = (held[0][place], held[1][place])
        is_static = getattr(layer, "max_cache_len", None) is not None
        return cls(states, cache.get_seq_length(place) if is_static else None)

    def of_step(self, tokens: int) -> Iterator[tuple[str, torch.Tensor]]:
        """Keys and values of the step's tokens, as they stand in it; as [requests, tokens, heads, size]."""
        for name, state in zip(("key", "value"), self.states, strict=True):
            if isinstance(state, torch.Tensor) and state.dim() == 4:
                rows = rows_of_step(state, tokens, self)
                if rows is not None:
                    yield _core.append_path("", name), rows.transpose(1, 2)


def rows_of_step(states: torch.Tensor, tokens: int, cache: Cache | None) -> torch.Tensor | None:
    """Of [requests, heads, rows, size] the rows of this step's tokens, behind those of earlier steps.

    None where they are not there: a cache with a window has only the last ones.
    """
    count = states.shape[2]
    if count == tokens:
        return states
    if count < tokens:
        return None
    used = cache.used if cache is not None else None
    if used is None:
        return states[:, :, count - tokens :]
    if isinstance(used, torch.Tensor):  # nothing here waits for a GPU
        end = used.to(states.device).clamp(tokens, count)
        return states.index_select(2, torch.arange(tokens, device=states.device) + (end - tokens))
    end = max(min(used, count), tokens)
    return states[:, :, end - tokens : end]
