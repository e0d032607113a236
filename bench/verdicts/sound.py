"""Ways to run the same model that are all right: pairs of them must not be called diverged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from architectures import Architecture, Inputs
from torch import nn


@dataclass
class Prepared:
    """A model, its inputs, and what holds while it runs."""

    model: nn.Module
    inputs: Inputs
    context: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@dataclass(frozen=True)
class Variation:
    """Another way to run a model of a dtype; `prepare` gives None where there is none."""

    name: str
    prepare: Callable[[Architecture, int, torch.dtype], Prepared | None]


def plainly(of: Architecture, seed: int, dtype: torch.dtype) -> Prepared:
    """The reference: one thread, the attention that the model chooses."""
    return Prepared(of.model(seed, dtype), of.sample(seed + 1, dtype=dtype))


@contextlib.contextmanager
def _two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _with_threads(of: Architecture, seed: int, dtype: torch.dtype) -> Prepared:
    prepared = plainly(of, seed, dtype)
    prepared.context = _two_threads
    return prepared


def _other_gemm(of: Architecture, seed: int, dtype: torch.dtype) -> Prepared:
    prepared = plainly(of, seed, dtype)
    prepared.context = lambda: torch.backends.mkldnn.flags(enabled=False)
    return prepared


def _eager_attention(of: Architecture, seed: int, dtype: torch.dtype) -> Prepared | None:
    prepared = plainly(of, seed, dtype)
    if getattr(prepared.model.config, "_attn_implementation", "") != "sdpa":
        return None
    prepared.model.set_attn_implementation("eager")
    return prepared


def _channels_last(of: Architecture, seed: int, dtype: torch.dtype) -> Prepared | None:
    prepared = plainly(of, seed, dtype)
    if "pixel_values" not in prepared.inputs:
        return None
    prepared.model = prepared.model.to(memory_format=torch.channels_last)
    prepared.inputs = {
        name: value.contiguous(memory_format=torch.channels_last) for name, value in prepared.inputs.items()
    }
    return prepared


def _in(other: torch.dtype) -> Callable[[Architecture, int, torch.dtype], Prepared | None]:
    return lambda of, seed, dtype: plainly(of, seed, other) if dtype == torch.float32 else None


VARIATIONS = [
    Variation("again", plainly),
    Variation("two threads", _with_threads),
    Variation("without oneDNN", _other_gemm),
    Variation("eager attention", _eager_attention),
    Variation("channels last", _channels_last),
    Variation("in bf16", _in(torch.bfloat16)),
    Variation("in f16", _in(torch.float16)),
]
