"""The adapter of SGLang: one step of the engine is one pass, and each pass says which tokens its rows are.

SGLang calls `register` itself in every process, by the entry point `sglang.srt.plugins`. It costs nothing where nothing
is recorded.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from tensortap.engines.engine_step import DUMMY, EngineStep, patch_steps, record_weights, recordings_under_way
from tensortap.engines.fused_modules import fused, parent_of
from tensortap.engines.shards import described_shards
from tensortap.modules.module_source import gives_a_part
from tensortap.modules.token_batch import batch
from tensortap.session.metadata import describers
from tensortap.tensors.nested import main_fields
from tensortap.torch_glue.patching import ImportWatch, Patch

_WORKERS = "sglang.srt.managers.tp_worker"
_RUNNERS = "sglang.srt.model_executor.model_runner"
_LOADERS = "sglang.srt.model_loader.loader"
# What most models fuse. They say so inside load_weights(), where nobody else can read it; a few also in an attribute.
_PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
_MODES_WITH_TOKENS = {"EXTEND", "DECODE", "MIXED"}
_watch: ImportWatch | None = None


def register() -> None:
    """Adapts worker, model runner and loader when they are imported. Calling it again does nothing."""
    global _watch
    if _watch is None:
        _watch = ImportWatch({_WORKERS: _adapt_worker, _RUNNERS: _adapt_runner, _LOADERS: _adapt_loader})
        describers.extend((_fused, _shards))
        gives_a_part.append(_leaves_its_residual)


# ---- modules ----


def _fused(model: nn.Module, name: str, module: nn.Module) -> dict[str, Any]:
    """What a module of SGLang's is in terms of those that Transformers has in its place."""
    if not type(module).__module__.startswith("sglang."):
        return {}
    # The first Gemma scales its embeddings, and has the factor in no attribute.
    if name.endswith("embed_tokens") and type(parent_of(model, name)).__name__ == "GemmaModel":
        return {"times": module.weight.shape[1] ** 0.5}  # type: ignore[index]
    return fused(model, name, module, _packed_by(model))


def _leaves_its_residual(module: nn.Module) -> bool:
    """A layer of a decoder has its residual in the batch, from one stage to the next."""
    return any(type(value).__name__ == "StageBoundary" for value in vars(module).values())


def _packed_by(model: nn.Module) -> dict[str, list[str]]:
    declared: dict[str, list[str]] = {}
    for into, part, *_ in getattr(model, "stacked_params_mapping", []):
        declared.setdefault(into.strip("."), []).append(part.strip("."))
    return _PACKED | declared | getattr(model, "packed_modules_mapping", {})


def _shards(model: nn.Module, name: str, module: nn.Module) -> dict[str, Any]:
    return described_shards(model, name, module) if type(module).__module__.startswith("sglang.") else {}


# ---- steps ----


class _Here(threading.local):
    """What this thread of the engine's is doing."""

    step: EngineStep | None = None
    in_worker = False  # which prepares the rows before the forward, and samples after it: all of that is the step
    has_forward = False  # of the model runner, in this step
    loads_draft = False


_here = _Here()


def _begin_step() -> EngineStep:
    _end_step()
    _here.step, _here.has_forward = EngineStep(), False
    return _here.step


def _end_step(*, failed: bool = False) -> None:
    step, _here.step = _here.step, None
    if step is not None:
        step.end(failed=failed)


def _adapt_worker(module: ModuleType) -> None:
    patch_steps(module.TpModelWorker, {"forward_batch_generation": _as_step}, "SGLang")


def _adapt_runner(module: ModuleType) -> None:
    makers = {"forward": _in_step, "load_model": _with_model, "init_cuda_graphs": _as_dummy_step}
    patch_steps(module.ModelRunner, makers, "SGLang")
    if (output := getattr(module, "LogitsProcessorOutput", None)) is not None:
        main_fields[output] = "next_token_logits"


def _as_step(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        was, _here.in_worker = _here.in_worker, True
        _begin_step()
        failed = True
        try:
            result = generate(self, *args, **kwargs)
            failed = False
            return result
        finally:
            _here.in_worker = was
            _end_step(failed=failed)

    return run


def _in_step(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward is in its worker's step. The second one of a worker, or one without a worker, is a step of its own."""

    @functools.wraps(forward)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _here.step is None or _here.has_forward:
            _begin_step()
        _here.has_forward = True
        if not self.is_draft_worker:
            _know(self.model)
        failed = True
        try:
            result = forward(self, *args, **kwargs)
            failed = False
            return result
        finally:
            if failed or not _here.in_worker:
                _end_step(failed=failed)

    return run


def _as_dummy_step(capture: Callable[..., Any]) -> Callable[..., Any]:
    """Graphs are captured, after runs that only warm up."""

    @functools.wraps(capture)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        _begin_step().record_batch(DUMMY)
        try:
            return capture(self, *args, **kwargs)
        finally:
            _end_step()

    return run


def _know(model: nn.Module) -> None:
    """The runner calls the model's forward() past its hooks: its parts are known by their names in it all the same."""
    for recording in recordings_under_way():
        recording.adopt(model)
    if "forward" not in vars(model):
        Patch(model, "forward", _with_rows)


def _with_rows(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Every model of SGLang's is called with `input_ids, positions, forward_batch`, which are padded by then."""

    @functools.wraps(forward)
    def run(input_ids: Any, positions: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling() and _here.step is not None:
            for recording in recordings_under_way()[:1]:  # into all of them, guarded by one
                recording.guarded(_record_rows, _here.step, input_ids, positions, forward_batch)
        return forward(input_ids, positions, forward_batch, *args, **kwargs)

    return run


def _record_rows(step: EngineStep, input_ids: Any, positions: Any, forward_batch: Any) -> None:
    requests = getattr(forward_batch, "rids", None)
    mode = forward_batch.forward_mode.name
    if mode == "IDLE":  # a rank without requests keeps the others company
        step.record_batch(DUMMY)
    elif requests and positions is not None and mode in _MODES_WITH_TOKENS:
        batch(
            request_ids=requests,
            positions=positions,
            query_start=_query_start(forward_batch, mode, len(requests)),
            token_ids=input_ids,
        )


def _query_start(forward_batch: Any, mode: str, requests: int) -> torch.Tensor:
    if mode == "DECODE":
        return torch.arange(requests + 1)
    if (lengths := forward_batch.extend_seq_lens_cpu) is not None:
        return torch.tensor([0, *itertools.accumulate(lengths[:requests])])
    ends = forward_batch.extend_seq_lens[:requests].cumsum(0)
    return torch.cat([ends.new_zeros(1), ends])


# ---- weights ----


def _with_model(load_model: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_model)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        _here.loads_draft = self.is_draft_worker
        try:
            result = load_model(self, *args, **kwargs)
        finally:
            _here.loads_draft = False
        if not self.is_draft_worker:
            _know(self.model)
        return result

    return run


def _adapt_loader(module: ModuleType) -> None:
    """Weights are recorded when they are loaded: then they are packed for kernels, and gone."""
    patch_steps(module.DefaultModelLoader, {"postprocess_weights": _after_recording_weights}, "SGLang")


def _after_recording_weights(process: Callable[..., Any]) -> staticmethod[..., Any]:
    @functools.wraps(process)
    def record_and_process(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not _here.loads_draft:
            record_weights(model)
        return process(model, *args, **kwargs)

    return staticmethod(record_and_process)
