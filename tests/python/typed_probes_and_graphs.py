"""Snippets of calls, for type checkers, as in typed_calls.py: probes, graphs, quantized tensors."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensortap as tap
import torch
from torch import fx, nn
from typing_extensions import assert_type

model: nn.Module = nn.Linear(4, 4)
x: torch.Tensor = torch.ones(2, 4)


# ---- docs/cuda-graphs.md, docs/coming-from-torch-cudagraph-debug.md ----


def probe_options(recording: tap.Recording, array: npt.NDArray[np.float32]) -> None:
    actions = [
        tap.Print(max_items=8, every=10, file=None, enabled=True),
        tap.RecordAction(capacity=16, level="fingerprint", to="dump/", enabled=True),
        tap.Compare(x, rtol=1e-4, atol=1e-5, equal_nan=True, enabled=True),
    ]
    assert_type(tap.Probe("mid", actions), tap.Probe)
    tap.Probe("mid", [tap.Compare(run="dump/", key="model.mid", pass_number=2, rank=0)], mode="always")
    tap.Probe("mid", [tap.RecordAction(to=recording)], non_contiguous="copy", rows=torch.tensor(2))
    compare = tap.Compare(array)
    assert_type(compare.rtol, float)
    assert_type(compare.expected(0), torch.Tensor)


def use_probe(probe: tap.Probe) -> None:
    assert_type(probe(x + 2), torch.Tensor)
    probe.prepare(x)
    assert_type(probe.attach_grad(x), torch.Tensor)
    tensor, handle = probe.attach_grad(nn.Parameter(x), return_handle=True)
    assert_type(tensor, nn.Parameter)
    handle.remove()
    assert_type(probe.records(), list[tap.Snapshot])
    assert_type(probe.status()["overwritten"], int)
    assert_type(probe.name, str)
    assert_type(probe.mode, tap.literals.ProbeMode)
    probe.clear_records()
    probe.flush()
    with probe as entered:
        assert_type(entered, tap.Probe)
    assert_type(tap.drain_records(probe, print, synchronize=False), int)
    tap.drain_records(probe, lambda snapshot: snapshot.replay_index)
    try:
        probe.assert_ok()
    except tap.CompareFailed as failed:
        assert_type(failed.probe_name, str)
        assert_type(failed.replay_index, int)
        assert_type(failed.invocation, int)
        assert_type(failed.element, tuple[int, ...])
        assert_type(failed.actual, bool | int | float | complex | tuple[float, float])
        assert_type(failed.expected, bool | int | float | complex | tuple[float, float])
        assert_type(failed.differing, int)
        assert_type(failed.elements, int)
        assert_type(failed.largest, float)
        assert_type(failed.failures, int)
        assert_type(failed.comparisons, int)
    probe.close()


def read_snapshot(snapshot: tap.Snapshot) -> None:
    assert_type(snapshot.probe_name, str)
    assert_type(snapshot.replay_index, int)
    assert_type(snapshot.invocation, int)
    assert_type(snapshot.shape, tuple[int, ...])
    assert_type(snapshot.dtype, torch.dtype)
    assert_type(snapshot.device, torch.device)
    assert_type(snapshot.tensor, torch.Tensor | None)
    assert_type(snapshot.hash, str)
    assert_type(snapshot.stats["mean"], float)
    assert_type(snapshot.eager, bool)


# ---- docs/graphs.md, docs/is-it-the-compiler.md, docs/coming-from-torchair.md ----


def hasty(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return module.forward


def graph_options() -> None:
    backend = tap.graph_backend(
        "dump/",
        filter=lambda node: node if node.name in ("add_1", "sub") else None,
        stage="aot",
        inputs=False,
        outputs=True,
        level={".*": "fingerprint"},
        step="manual",
        steps="0-3",
        skip=1,
        ranks="0",
        format="npy",
        stacks=True,
        graphs=False,
        parameters="always",
        decompositions={torch.ops.aten.cos.default: torch.sin},
        inner=hasty,
        tolerance=tap.Tolerance(rtol=0.1, atol=0.5, equal_nan=False),
        limits=tap.SearchLimits(compiles=10, seconds=60),
        strict=True,
        report=False,
        staging="256M",
        device_staging="1G",
        quota=1 << 30,
        when_full="drop",
        write="direct",
        deduplicate=False,
        sync=True,
    )
    assert_type(backend, tap.GraphBackend)
    tap.graph_backend(filter=[r"aten\.mul"], inner="inductor", limits=None)
    tap.graph_backend(filter="filters.py:chosen", inner=functools.partial(hasty))
    torch.compile(model, backend=backend)(x)


def read_backend(backend: tap.GraphBackend) -> None:
    with backend as entered, backend.step() as number:
        assert_type(entered, tap.GraphBackend)
        assert_type(number, int | None)
    backend.flush()
    backend.close()
    for graph in backend.graphs:
        assert_type(graph, tap.GraphSeen)
        assert_type(graph.id, str)
        assert_type(graph.stage, tap.literals.Stage)
        assert_type(graph.part, tap.literals.GraphPart)
        assert_type(graph.nodes, int)
        assert_type(graph.selected, int)
    for mismatch in backend.mismatches:
        assert_type(mismatch, tap.Mismatch)
        assert_type(mismatch.graph_id, str)
        assert_type(mismatch.call, int)
        assert_type(mismatch.largest, float)
        assert_type(mismatch.script, Path | None)
        assert_type(mismatch.note, str)
        assert_type(mismatch.differences[0].place, str)
        if mismatch.reduced is not None:
            assert_type(mismatch.reduced.nodes, list[str])
    try:
        torch.compile(model, backend=backend)(x)
    except tap.GraphMismatch as error:
        assert_type(error.mismatch, tap.Mismatch)


# ---- docs/quantization.md, docs/quant-formats.md, docs/coming-from-dumptensors.md ----


def capture(recording: tap.Recording, codes: torch.Tensor, scales: torch.Tensor) -> None:
    tap.capture_quantized("fc.weight", payload=codes, scale=scales, format="nvfp4")
    tap.capture_quantized(
        "fc.weight",
        payload=codes,
        scale=scales,
        global_scale=scales,
        zero_point=None,
        format="int4",
        shape=(4, 32),
        dtype=torch.bfloat16,
        role="in",
        scale_layout="swizzled",
        block_columns=64,
        stored_transposed=True,
    )
    recording.capture_quantized("fc.weight", role="in", payload=codes, scale=scales, format="nvfp4")


def groups(weight: torch.Tensor, twin: torch.Tensor) -> None:
    assert_type(tap.quant.groups_of(weight), dict[str, tap.quant.Group] | None)
    assert_type(tap.quant.groups_of_module(model), dict[str, tap.quant.Group])
    group = tap.quant.Group(None, (1, 16), torch.float32, {"payload": weight}, note="unknown", members=("a", "b"))
    assert_type(group.shape, tuple[int, ...])
    assert_type(group.dtype, torch.dtype)
    assert_type(group.note, str)
    assert_type(group.members, tuple[str, ...])
    assert_type(group.description, str)
    assert_type(group.parts(), dict[str, torch.Tensor])
    assert_type(group.decoded(torch.float16, rotated=True), torch.Tensor)
    assert_type(group.scales(), torch.Tensor)
    assert_type(group.compact(), tap.quant.Group)
    assert_type(group.statistics(twin, block_amax=True)["sqnr_db"], float)
    if group.format is not None:
        assert_type(group.format.name, str)
        assert_type(group.format.element, tap.literals.QuantElement)
        group.format.scale_layout = "swizzled"
        group.format.stored_transposed = True


def dump() -> None:
    config = {"weights": {"layers": {"layer_types": ["Linear"]}, "DumpTensors": {"tensors": ["weight"]}}}
    with tap.quant.record(model, "weights", config, append=True, report=False) as dumped:
        assert_type(dumped, tap.quant.Dump)
        assert_type(dumped.step(), int)
        assert_type(dumped.current_step, int)
        assert_type(dumped.microbatch, int)
    dumped.close(aborted=True)
    try:
        tap.quant.record({"": model}, None, Path("dump.yaml"), format="pt", first_step=3, ranks=0, strict=True)
    except tap.quant.ConfigError as error:
        assert_type(error, tap.quant.ConfigError)
