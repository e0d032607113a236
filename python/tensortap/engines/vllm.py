"""The adapter of vLLM: one step of the engine is one pass, and each pass says which tokens its rows are.

vLLM calls `register` itself in every process, by the entry point `vllm.general_plugins`. It costs nothing where nothing
is recorded.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from tensortap.engines.engine_step import DUMMY, EngineStep, patch_steps, record_weights, recordings_under_way
from tensortap.engines.fused_modules import fused
from tensortap.engines.shards import described_shards
from tensortap.engines.vllm_cache import cached_rows
from tensortap.modules.attention_cache import readers
from tensortap.modules.token_batch import batch
from tensortap.session.metadata import describers
from tensortap.torch_glue import compiled_calls
from tensortap.torch_glue.module_names import named_modules
from tensortap.torch_glue.patching import ImportWatch, Patch
from tensortap.torch_glue.program_errors import raise_if_of_program

_RUNNERS = "vllm.v1.worker.gpu_model_runner"
_LOADERS = "vllm.model_executor.model_loader.base_loader"
_ROUTERS = "vllm.model_executor.layers.fused_moe.router.fused_moe_router"
_watch: ImportWatch | None = None


def register() -> None:
    """Adapts the model runner when it is imported. Calling it again does nothing."""
    global _watch
    if _watch is None:
        _watch = ImportWatch({_RUNNERS: _adapt, _LOADERS: _watch_loader, _ROUTERS: _watch_routers})
        describers.extend((_fused, described_shards))
        readers.append(cached_rows)
        if os.environ.get("TTAP_COMPILED") == "1":
            # Code from vLLM's cache was compiled without our operators, and such code is nothing for the next process.
            os.environ["VLLM_DISABLE_COMPILE_CACHE"] = "1"


def _fused(model: nn.Module, name: str, module: nn.Module) -> dict[str, Any]:
    """What a module of vLLM's is in terms of those that Transformers has in its place."""
    if not type(module).__module__.startswith("vllm."):
        return {}
    return fused(model, name, module, getattr(model, "packed_modules_mapping", {}))


def _adapt(module: ModuleType) -> None:
    makers = {
        "execute_model": _as_step,
        "sample_tokens": _to_end_of_step,
        "_model_forward": _with_rows,
        "_dummy_run": _as_dummy_step,
    }
    patch_steps(module.GPUModelRunner, makers, "vLLM")  # that of the CPU is made from it


def _watch_loader(module: ModuleType) -> None:
    """Weights are recorded when they are loaded: then they are packed for kernels, and gone."""
    if hasattr(module, "process_weights_after_loading"):
        Patch(module, "process_weights_after_loading", _after_recording_weights)


def _after_recording_weights(process: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(process)
    def record_and_process(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
        record_weights(model)
        try:
            _know_gates(model)
        except Exception as error:  # somebody's property
            raise_if_of_program(error)
        return process(model, *args, **kwargs)

    return record_and_process


def _know_gates(model: nn.Module) -> None:
    """Each router knows the module that gives it its logits, and its name: compiled code knows no more."""
    names = {id(entry.module): entry.names[0] for entry in named_modules(model)}
    for block in model.modules():
        gate, router = getattr(block, "gate", None), getattr(getattr(block, "experts", None), "router", None)
        if router is not None and isinstance(gate, nn.Module):
            router._tensortap_gate = weakref.ref(gate)
            router._tensortap_gate_name = names[id(gate)]


def _watch_routers(module: ModuleType) -> None:
    if hasattr(getattr(module, "FusedMoERouter", None), "select_experts"):
        Patch(module.FusedMoERouter, "select_experts", _with_choice)


def _with_choice(select_experts: Callable[..., Any]) -> Callable[..., Any]:
    """The gate returns logits; which experts are chosen, and with which weights, Transformers' gate returns too."""

    @functools.wraps(select_experts)
    def select(self: Any, *args: Any, **kwargs: Any) -> Any:
        weights, experts = select_experts(self, *args, **kwargs)
        if not hasattr(self, "_tensortap_gate"):
            return weights, experts
        if torch.compiler.is_compiling():
            if compiled_calls.receiving:
                compiled_calls.report("adds", self._tensortap_gate_name, [weights, experts], ["/1", "/2"])
        elif (gate := self._tensortap_gate()) is not None:
            for recording in recordings_under_way():
                recording.add_results(gate, [("/1", weights), ("/2", experts)])
        return weights, experts

    return select


def _as_step(execute_model: Callable[..., Any]) -> Callable[..., Any]:
    """A step begins; it ends in sample_tokens(), which is called where this returns nothing."""

    @functools.wraps(execute_model)
    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = EngineStep()
        try:
            result = execute_model(self, *args, **kwargs)
        except BaseException:
            step.end(failed=True)
            raise
        if result is None:
            self._tensortap_step = step
        else:
            step.end()
        return result

    return begin


def _to_end_of_step(sample_tokens: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(sample_tokens)
    def end(self: Any, *args: Any, **kwargs: Any) -> Any:
        failed = True
        try:
            result = sample_tokens(self, *args, **kwargs)
            failed = False
            return result
        finally:
            step: EngineStep | None = self.__dict__.pop("_tensortap_step", None)
            if step is not None:
                step.end(failed=failed)

    return end


def _as_dummy_step(dummy_run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(dummy_run)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with EngineStep() as step:
            step.record_batch(DUMMY)
            return dummy_run(self, *args, **kwargs)

    return run


def _with_rows(model_forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(model_forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        input_ids, positions = (*args[:2], kwargs.get("input_ids"), kwargs.get("positions"))[:2]
        if positions is not None:
            requests = self.input_batch.num_reqs
            batch(
                request_ids=self.input_batch.req_ids[:requests],
                positions=positions[0] if positions.dim() > 1 else positions,  # of text all three are the same
                query_start=torch.from_numpy(self.query_start_loc.np[: requests + 1]),
                token_ids=input_ids if input_ids is not None else self.input_ids.gpu[: positions.shape[-1]],
            )
        return model_forward(self, *args, **kwargs)

    return forward
