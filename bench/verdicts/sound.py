"""Ways to run the same model that are all right: pairs of them must not be called diverged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from unittest import mock

import torch
from architectures import Architecture
from runs import Run
from sorted_otherwise import ties_reversed
from torch import nn


@dataclass(frozen=True)
class Way:
    """Of which model: an architecture, its seed, its precision, and the device."""

    of: Architecture
    seed: int
    precision: str
    device: str

    def plainly(self, batch: int = 2) -> Run:
        """The reference: one thread, the attention that the model chooses."""
        return Run(
            self.of.model(self.seed, self.precision, self.device),
            self.of.sample(self.seed + 1, self.precision, self.device, batch),
        )


@dataclass(frozen=True)
class Variation:
    """Two ways to run a model; `change` gives None where there is no second one."""

    name: str
    change: Callable[[Way, Run], Run | None]
    training: bool = False
    compiled: bool = False

    def reference(self, way: Way) -> Run:
        run = way.plainly()
        run.training = self.training
        run.ops_only = self.compiled or self.training
        if self.training:
            normalize_batches(run.model)
        return run

    def other(self, way: Way) -> Run | None:
        return self.change(way, self.reference(way))


def normalize_batches(model: nn.Module) -> None:
    """Batch norms as in training; dropout stays off, since two runs would draw differently."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.train()


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _again(_: Way, run: Run) -> Run:
    return run


def _with_threads(count: int) -> Callable[[Way, Run], Run]:
    return lambda _, run: replace(run, context=lambda: _threads(count))


def _other_gemm(way: Way, run: Run) -> Run | None:
    if way.device != "cpu":
        return None
    return replace(run, context=lambda: torch.backends.mkldnn.flags(enabled=False))


def _split_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """As a GEMM that splits the sum in two: added up in f32 and rounded once."""
    half = weight.shape[1] // 2
    made = x[..., :half].float() @ weight[:, :half].float().t() + x[..., half:].float() @ weight[:, half:].float().t()
    return (made if bias is None else made + bias.float()).to(x.dtype)


def _split_gemm(_: Way, run: Run) -> Run | None:
    if not any(isinstance(module, nn.Linear) for module in run.model.modules()):
        return None
    return replace(run, context=lambda: mock.patch.object(nn.functional, "linear", _split_linear))


def _eager_attention(_: Way, run: Run) -> Run | None:
    config = run.model.config
    if getattr(config, "_attn_implementation", "") != "sdpa" or getattr(config, "attn_logit_softcapping", None):
        return None  # SDPA leaves out the softcapping of scores: that is another model
    run.model.set_attn_implementation("eager")
    return run


def _channels_last(_: Way, run: Run) -> Run | None:
    if "pixel_values" not in run.inputs:
        return None
    return replace(
        run,
        model=run.model.to(memory_format=torch.channels_last),
        inputs={name: value.contiguous(memory_format=torch.channels_last) for name, value in run.inputs.items()},
    )


def _ties_otherwise(way: Way, run: Run) -> Run | None:
    """What experts sort by: the expert of each token."""
    return replace(run, context=ties_reversed) if "moe" in way.of.name and way.device == "cpu" else None


def _larger_batch(way: Way, run: Run) -> Run | None:
    if "moe" in way.of.name:
        return None  # hands its experts the tokens of all samples as one axis
    others = way.of.sample(way.seed + 2, way.precision, way.device, batch=5)
    return replace(
        run,
        inputs={name: torch.cat([value, others[name]]) for name, value in run.inputs.items()},
        samples=2,
    )


def _in(precision: str) -> Callable[[Way, Run], Run | None]:
    return lambda way, _: replace(way, precision=precision).plainly() if way.precision == "f32" else None


def _on_gpu(way: Way, _: Run) -> Run | None:
    if way.device != "cpu" or not torch.cuda.is_available():
        return None
    return replace(way, device="cuda").plainly()


def _inductor(_: Way, run: Run) -> Run:
    torch._dynamo.reset()
    run.compiled = torch.compile(run.model)
    run()  # which compiles it
    return run


VARIATIONS = [
    Variation("again", _again),
    Variation("two threads", _with_threads(2)),
    Variation("three threads", _with_threads(3)),
    Variation("without oneDNN", _other_gemm),
    Variation("split-K GEMM", _split_gemm),
    Variation("eager attention", _eager_attention),
    Variation("channels last", _channels_last),
    Variation("ties of a sort in another order", _ties_otherwise),
    Variation("in a larger batch", _larger_batch),
    Variation("in bf16", _in("bf16")),
    Variation("in f16", _in("f16")),
    Variation("on the GPU", _on_gpu),
    Variation("training: again", _again, training=True),
    Variation("training: two threads", _with_threads(2), training=True),
    Variation("training: without oneDNN", _other_gemm, training=True),
    Variation("training: eager attention", _eager_attention, training=True),
    Variation("inductor", _inductor, compiled=True),
    Variation("inductor: training", _inductor, training=True, compiled=True),
]
