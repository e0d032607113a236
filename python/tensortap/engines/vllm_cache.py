"""The keys and values of a step's tokens as they stand in vLLM's cache, read back by the slots of the step."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_BACKEND = "CPU_ATTN"  # whose cache is one tensor of blocks, [blocks, heads, rows, 2 * size]


def cached_rows(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Of an attention module that has been called: [tokens, heads, size] each; padding has the rows of slot 0."""
    context = sys.modules.get("vllm.forward_context")
    backend = getattr(module, "attn_backend", None)
    if context is None or backend is None or backend.get_name() != _BACKEND:
        return
    slots = context.get_forward_context().slot_mapping
    slots = slots.get(module.layer_name) if isinstance(slots, dict) else None
    cache: torch.Tensor = module.kv_cache  # type: ignore[assignment]
    if slots is None or cache.dim() != 4 or not cache.is_floating_point():
        return
    places = _places(module, cache)
    if places is None:
        return
    slots = slots.clamp(min=0).long()
    size = cache.shape[2]
    blocks = cache.view(cache.shape[0], -1)
    for name, place in zip(("key", "value"), places, strict=True):
        yield name, blocks[(slots // size).view(-1, 1, 1), place[slots % size]]


def _places(module: nn.Module, cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    block = tuple(cache.shape[1:])
    try:
        return _places_in(block, cache.dtype, type(module.impl), _Layer(module))
    except (AttributeError, RuntimeError, TypeError, ValueError):  # another version of vLLM
        return None


class _Layer:
    """What the write to the cache asks of a layer; two are the same if they write alike."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.impl = module.impl
        self.sizes = (self.impl.num_kv_heads, self.impl.head_size, self.impl.kv_cache_dtype, module.isa)

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Layer) and self.sizes == other.sizes


@functools.lru_cache(maxsize=64)
def _places_in(
    block: tuple[int, ...], dtype: torch.dtype, impl: type, layer: _Layer
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Where in a block each number of keys and values lies, [rows, heads, size]; None where that does not show.

    Kernels pack keys in orders of their own. So the engine's own write puts numbered entries into a block of ours.
    """
    heads, rows, width = block
    shape = (rows, heads, width // 2)
    count = rows * heads * (width // 2)
    numbers = torch.arange(1, 2 * count + 1)  # 0 is what nothing was written to
    found = torch.zeros(2 * count, dtype=torch.long)
    base, power = 256, 1  # which bf16 has exactly
    while power <= 2 * count:
        digits = (numbers // power % base).to(dtype).view(2, *shape)
        scratch = torch.zeros((1, *block), dtype=dtype)
        write = impl.do_kv_cache_update  # type: ignore[attr-defined]
        write(layer.impl, layer.module, digits[0], digits[1], scratch, torch.arange(rows))
        found += scratch.flatten().long() * power
        power *= base
    found, order = found.sort()
    if not torch.equal(found, numbers):
        return None
    return order[:count].view(shape), order[count:].view(shape)
