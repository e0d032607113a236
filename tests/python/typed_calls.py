"""A snippet of every documented call, for type checkers: test_types.py checks this file and never runs it.

`assert_type` says what a call gives; the documents beside each part show what it does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensortap as tap
import torch
from torch import nn
from typing_extensions import assert_type

model: nn.Module = nn.Linear(4, 4)
x: torch.Tensor = torch.ones(2, 4)


# ---- README.md, docs/recording.md ----


def wide(name: str, module: nn.Module) -> bool:
    return name != "" and module.training


def record_options() -> None:
    assert_type(tap.__version__, str)
    tap.record()
    tap.record(model)
    tap.record({"vision": model, "lm": model}, Path("run"), filter=wide)
    recording = tap.record(
        model,
        "run",
        filter=[r"^head$", r"\.1\.down"],
        level={r"^head": "full", ".*": "fingerprint"},
        roles=("out", "in", "grad_out", "grad_in", "param", "cache"),
        modules="all",
        ops=True,
        stacks=True,
        compiled=True,
        unseen_writes=True,
        step="manual",
        steps="0,2-",
        ranks=[0, 3],
        append=True,
        format="safetensors",
        staging="256M",
        device_staging=1 << 28,
        quota="1G",
        when_full="drop",
        write="buffered",
        strict=True,
        deduplicate=False,
        sync=True,
        rows=torch.tensor(3),
        padded=64,
        report=False,
    )
    assert_type(recording, tap.Recording)
    with tap.record(model, "run", level="meta", roles="out,grad_out", format="pt", steps=3, ranks=0, rows=2, padded=4):
        model(x)


def record_steps(recording: tap.Recording) -> None:
    with recording as entered:
        assert_type(entered, tap.Recording)
        with recording.step() as number:
            assert_type(number, int | None)
    assert_type(recording.recording, bool)
    assert_type(recording.directory, Path | None)
    assert_type(recording.rank_directory, Path | None)
    assert_type(recording.coverage, dict[str, Any])
    recording.flush()
    recording.close()


def read() -> None:
    run = tap.open("run")
    assert_type(tap.runs("run"), list[tap.Run])
    assert_type((run.number, run.runs), tuple[int, int])
    assert_type(run, tap.Run)
    assert_type(run.path, Path)
    assert_type(run.ranks, list[tap.Rank])
    assert_type(run["head"], torch.Tensor | tap.quant.Group)
    rank = run.ranks[0]
    assert_type(rank.number, int)
    assert_type(rank.pid, int)
    assert_type(rank.path, Path)
    assert_type(rank.passes, tap.Passes)
    assert_type(rank.metadata, dict[str, Any])
    assert_type(rank.coverage, dict[str, Any])
    assert_type(rank.model, dict[str, Any])
    assert_type(rank.placements, dict[str, Any])
    assert_type(list(rank.passes), list[int])
    assert_type(list(rank.passes.values()), list[tap.Pass])
    for number, recorded in rank.passes.items():
        assert_type(number, int)
        assert_type(recorded, tap.Pass)
    assert_type(tap.load_pass("run/pass00000.ttap", decode=True), dict[str, torch.Tensor])
    assert_type(rank.passes.paths, list[Path])


def convert(run: tap.Run) -> None:
    checked = tap.check(run, passes="0,2-5", ranks=0, filter=lambda key: "mask" not in key, verify=True, all=True)
    tap.check("run", passes=[0, 1], filter=["head", "norm"])
    assert_type(checked, tap.Check)
    assert_type((checked.ok, checked.clean, checked.complete, checked.judged), tuple[bool, bool, bool, int])
    assert_type(checked.conclusive, bool)
    assert_type(checked.first, tap.FirstNonfinite | None)
    if checked.first is not None:
        assert_type((checked.first.key, checked.first.call, checked.first.stack), tuple[str, str, tuple[str, ...]])
        assert_type(checked.first.origin, tap.literals.Origin | None)
        assert_type(checked.first.spread, tuple[tap.Spread, ...])
        assert_type(checked.first.collectives, tuple[tap.Collective, ...])
        assert_type(checked.first.collectives[0].contributions, tuple[tap.Contribution, ...])
        assert_type((checked.first.from_rank, checked.first.spread[0].to_ranks), tuple[int | None, tuple[int, ...]])
    assert_type(checked.found, list[tap.NonfiniteTensor])
    assert_type((checked.unjudged, checked.damaged), tuple[list[tap.Unjudged], list[tap.Unjudged]])
    assert_type((checked.unreadable, checked.to_json()), tuple[list[str], dict[str, Any]])
    exported = tap.export(run, "out", "npy", filter=["^head", "norm"])
    assert_type(exported, list[tap.ExportedPass])
    assert_type((exported[0].source, exported[0].path, exported[0].tensors), tuple[Path, Path, int])
    assert_type((exported[0].without_bytes, exported[0].missing), tuple[int, int])
    tap.export("run", "out", filter=lambda key: key.startswith("head"))
    recovered = tap.recover("run", force=True)
    assert_type(recovered, list[tap.RecoveredPass])
    assert_type((recovered[0].path, recovered[0].cut_bytes), tuple[Path, int])


def read_pass(recorded: tap.Pass) -> None:
    assert_type(tap.Pass("run/pass00000.ttap"), tap.Pass)
    assert_type(recorded.path, Path)
    assert_type(recorded.number, int)
    assert_type(recorded.ending, tap.literals.Ending)
    assert_type(recorded.info["drops"]["quota"], int)
    assert_type(recorded.info["format"], tap.literals.Format)
    assert_type(recorded.metadata, dict[str, Any])
    assert_type(recorded.records, list[tap.TensorRecord])
    assert_type(recorded.events, list[tap.EventRecord])
    assert_type(recorded.record("head"), tap.TensorRecord)
    assert_type(list(recorded), list[str])
    assert_type(len(recorded), int)
    assert_type("head" in recorded, bool)
    head = recorded["head"]
    assert_type(head, torch.Tensor | tap.quant.Group)
    if isinstance(head, torch.Tensor):
        head.fill_(0)
    else:
        head.decoded()


def read_record(record: tap.TensorRecord) -> None:
    assert_type(record.key, str)
    assert_type(record.name, str)
    assert_type(record.call, int)
    assert_type(record.role, tap.literals.TensorRole)
    assert_type(record.path, str)
    assert_type(record.event, int | None)
    assert_type(record.dtype, tap.literals.DType)
    assert_type(record.true_dtype, tap.literals.DType | None)
    assert_type(record.shape, tuple[int, ...])
    assert_type(record.strides, tuple[int, ...] | None)
    assert_type(record.device, str)
    assert_type(record.level, tap.literals.Level)
    assert_type(record.has_bytes, bool)
    assert_type(record.byte_count, int)
    assert_type(record.hash, str | None)
    assert_type(record.group, str)
    assert record.stats is not None
    assert_type(record.stats["l2"], float)
    assert_type(record.stats["nan"], int)


def read_event(event: tap.EventRecord) -> None:
    assert_type(event.name, str)
    assert_type(event.kind, tap.literals.EventKind)
    assert_type(event.call, int)
    assert_type(event.parent, int | None)
    assert_type(event.thread, int)
    assert_type(event.time_ns, int)
    assert_type(event.stack, str)
    assert_type(event.arguments, str)
    assert_type(event.results, str)
    assert_type(event.notes, dict[str, Any])
    assert_type(event.forward, int | None)
    assert_type(event.duration_ns, int)
    assert_type(event.returned, bool)
    assert_type(event.uses, tuple[tap.Use, ...])
    for use in event.uses:
        assert_type(use.role, tap.literals.UseRole)
        assert_type(use.path, str)
        assert_type(use.tensor, int | None)
        assert_type(use.record, int | None)
        assert_type(use.written, bool)


def read_damaged() -> None:
    try:
        tap.open("damaged.ttap")
    except tap.FormatError as error:
        assert_type(error, tap.FormatError)


# ---- docs/diffing.md, docs/measures.md ----


def diff_options(run: tap.Run, trace: tap.Trace, array: npt.NDArray[np.float32]) -> None:
    found = tap.diff(
        "good",
        Path("bad"),
        passes="3:0",
        ranks="0",
        filter="norm",
        map={r"^layers\.(\d+)\.ln": "blocks.$1.norm"},
        shards="shards.yaml",
        rtol=1e-3,
        atol=1e-5,
        tol={"norm": "cos>=0.9999", ".*": (0.1, 0.1)},
        noise="good2",
        noise_factor=2,
        equal_nan=True,
        structure=False,
        by_token=True,
        all_ops=True,
        strict=True,
        threads=1,
    )
    assert_type(found, tap.Diff)
    tap.diff(run, run.ranks[0])
    tap.diff(run.ranks[0].passes[-1], trace)
    tap.diff({"out": x}, {"out": array, "deeper": {"state": x}})
    tap.diff(model.state_dict(), model.state_dict(), map="names.yaml", noise=run)
    mapped = tap.diff(run, run, map=[{"^a": "b"}, {"concat": {"a": "^qkv$", "of": ["q", "k", "v"], "dim": -1}}])
    print(mapped.dropped[0]["key"], mapped.tensors[0].made_a, mapped.tensors[0].map_line)


def say_rows(recording: tap.Recording, model: nn.Module, positions: torch.Tensor) -> None:
    tap.batch(
        request_ids=["first", "second"],
        positions=positions,
        query_start=[0, 9, 14],
        token_ids=torch.zeros(14, dtype=torch.long),
        logits_rows=positions,
        dummy=False,
    )
    tap.batch(request_ids=("a",), positions=positions, query_start=positions)
    recording.record_weights(model)
    tap.logprobs([[1, 2, 3], torch.tensor([4, 5])], [[-0.5], torch.tensor([-1.0])], request_ids=["a", "b"])
    recording.logprobs([[1, 2, 3]], [[-0.5]])


def read_mismatch(rollout: Path) -> None:
    found = tap.mismatch(
        rollout,
        "trainer",
        rank="0",
        rollout_logits="lm_head",
        trainer_logits="lm_head",
        ratio=1.1,
        worst=3,
        cause=False,
    )
    assert_type(found, tap.RolloutMismatch)
    assert_type(found.causes, list[str])
    assert_type(found.measures["k3"], float)
    assert_type(found.worst, list[tap.ScoredToken])
    assert_type(found.tokens[0].rollout, float)
    found.write_plot(rollout / "plot.svg")


def graft_calls() -> None:
    with tap.graft(model, "good", ["fc1", "fc2@in/0"], names_of=tap.open("bad")) as grafted, grafted.step():
        model(x)
    assert_type(grafted, tap.Graft)
    assert_type(grafted.ok, bool)
    for key in grafted.keys:
        assert_type(key, tap.GraftedKey)
        assert_type((key.key, key.run, key.placed, key.unmet), tuple[str, str, int, str])
    assert_type(tap.removed_error("good", Path("bad"), tap.open("grafted"), key="head"), float)
    tap.removed_error(x, x, x)


def replay_calls(recorded: tap.Pass, model: torch.nn.Module) -> None:
    made = tap.replay(recorded.events[0], dtype=torch.float64, device="cpu")
    assert_type(made, tap.Replayed | tap.NotReplayable)
    if isinstance(made, tap.NotReplayable):
        assert_type((made.call, made.op, made.reason), tuple[tap.EventRecord, str, str])
    else:
        assert_type(made.same_bits, bool | None)
        assert_type(made.tensors, tuple[tap.ReplayedTensor, ...])
        for tensor in made.tensors:
            assert_type((tensor.value, tensor.recorded), tuple[torch.Tensor, torch.Tensor | None])
            assert_type((tensor.role, tensor.path), tuple[tap.literals.UseRole, str])
        assert_type(made.parameters, tap.literals.ParametersFrom | None)
        assert_type(made.from_model, tuple[str, ...])
    tap.replay(recorded.events[0], model=model)
    tap.replay(recorded.events[0], model={"encoder": model, "head": model})


def right_calls(found: tap.Diff) -> None:
    right = tap.who_is_right(found, top=3, device="cpu")
    assert_type(right, tap.WhoIsRight)
    assert_type((right.suspects, right.left_out), tuple[list[tap.Suspect], int])
    if right.first is not None:
        assert_type((right.first.wrong, right.first.sentence), tuple[tap.literals.WhoIsWrong, str])
        assert_type(right.first.a, tap.ReplayedSide)
        assert_type((right.first.b.call, right.first.b.is_wrong), tuple[tap.BlamedCall | None, bool | None])
        if right.first.b.call is not None:
            assert_type(right.first.b.call.error.bounds, float)
        assert_type((right.first.b.reason, right.first.b.record), tuple[str, str])
    assert_type(right.to_json(), list[dict[str, Any]])


def sensitivity_calls(run: tap.Run, trace: tap.Trace) -> None:
    found = tap.sensitivity(
        run, output="head:aten::mm", passes=0, ranks=0, top=3, device="cpu", progress=lambda done, total: None
    )
    assert_type(found, tap.Sensitivity)
    tap.sensitivity(trace)
    assert_type((found.relative, found.explained, found.count), tuple[float, float, int])
    assert_type((found.calls, found.modules), tuple[list[tap.CallShare], dict[str, float]])
    if found.first is not None:
        assert_type((found.first.share, found.first.place), tuple[float, str])
    assert_type((found.cut, found.lost), tuple[list[tap.RefusedCall], int])


def same_bits_calls(run: tap.Run, trace: tap.Trace) -> None:
    found = tap.same_bits(run, trace, passes="0-2", ranks=0, progress=lambda done, total: None)
    assert_type(found, tap.SameBits)
    assert_type((found.ok, found.identical, found.received), tuple[bool, int, int])
    assert_type((found.first, found.firsts), tuple[tap.UnequalCall | None, dict[int, tap.UnequalCall]])
    assert_type((found.received_from, found.notes), tuple[dict[int, int], list[str]])
    for one in found.of_kind("draw", "order"):
        assert_type((one.kind, one.same_inputs), tuple[tap.literals.RepeatKind, bool])
        assert_type((one.place, one.line, one.what, one.hint), tuple[str, str, str, str])
        assert_type((one.event_a, one.relative), tuple[int | None, float | None])
    assert_type(found.to_json(), dict[str, Any])


def batch_calls(run: tap.Run, trace: tap.Trace) -> None:
    found = tap.batch_invariance(trace, 4)
    found = tap.batch_invariance(run, 4, passes="0-2", ranks=0, device="cpu", progress=lambda done, total: None)
    assert_type(found, tap.BatchInvariance)
    assert_type((found.ok, found.requests, found.judged, found.path), tuple[bool, int, int, Path])
    assert_type(found.first, tap.BatchDependentCall | None)
    assert_type(found.refused, list[tap.RefusedCall])
    for one in found.findings:
        assert_type((one.place, one.op, one.module, one.line, one.call), tuple[str, str, str, str, str])
        assert_type((one.request, one.relative, one.unequal, one.count), tuple[int, float, int, int])
    assert_type(found.to_json(), dict[str, Any])


def hunt_calls() -> None:
    found = tap.hunt(["python", "a.py"], ["python", "b.py"], "hunt", options=["--steps", "0"], suspects=2, confirm=True,
                     device="cpu", progress=print)  # fmt: skip
    assert_type(found, tap.Hunt)
    assert_type((found.same, found.sentence, found.path, found.diff), tuple[bool, str, Path, tap.Diff])
    assert_type((found.a.path, found.b.status), tuple[Path, int])
    for one in found.suspects:
        assert_type(one, tap.HuntedSuspect)
        assert_type((one.suspect, one.key, one.verdict), tuple[tap.Suspect, str, tap.literals.HuntVerdict])
        assert_type((one.reason, one.sentence, one.script, one.no_script), tuple[str, str, str, str])
        assert_type((one.arguments, one.apart, one.path), tuple[tuple[str, ...], float | None, str])
        assert_type((one.removed, one.not_confirmed, one.is_cause), tuple[float | None, str, bool])
        assert_type(one.places, tuple[tap.CallPlace | None, tap.CallPlace | None])
        if (place := one.places[1]) is not None:
            assert_type((place.key, place.call, place.kind), tuple[str, str, tap.literals.EventKind])
            assert_type((place.rank, place.pass_number, place.event), tuple[int, int, int])
            if (view := place.view) is not None:
                assert_type((view.key, view.call), tuple[str, str])
    assert_type(found.first, tap.HuntedSuspect | None)
    assert_type(found.to_json(), dict[str, Any])


def blame_calls(run: tap.Run, trace: tap.Trace) -> None:
    found = tap.blame(run, passes="0-2", ranks=0, top=3, device="cpu", all=True, progress=lambda done, total: None)
    assert_type(found, tap.Blame)
    tap.blame(trace)
    assert_type((found.ok, found.judged), tuple[bool, int])
    assert_type((found.findings, found.refused), tuple[list[tap.BlamedCall], list[tap.RefusedCall]])
    if found.first is not None:
        assert_type((found.first.op, found.first.backward, found.first.setting), tuple[str, bool, str])
        assert_type(found.first.error, tap.TensorError)
        assert_type(found.first.error.kind, tap.literals.BlameKind)
        assert_type(found.first.error.worst, tuple[int, ...])
    assert_type(found.to_json(), dict[str, Any])


def read_diff(found: tap.Diff) -> None:
    assert_type(found.verdict, tap.literals.RunVerdict)
    assert_type(found.sentence, str)
    assert_type(found.evidence, list[str])
    assert_type(found.same, bool)
    assert_type(found.first, tap.TensorDiff | None)
    assert_type(found.first_unequal, tap.TensorDiff | None)
    if found.quantized is not None:
        assert_type(found.quantized["layers"][0]["own_error"], float)
    assert_type(found.introduced, list[tap.TensorDiff])
    assert_type(found.tensors, list[tap.TensorDiff])
    assert_type(found.counts, dict[tap.literals.Verdict, int])
    assert_type(found.counts["shape mismatch"], int)
    assert_type(found.warnings, list[str])
    assert_type(found["blocks.0.up"], tap.TensorDiff)
    assert_type(found.fails_on("introduced", "max_abs>1e-3"), bool)
    assert_type(found.to_json(), dict[str, Any])
    found.to_html("report.html", details=10)
    found.to_csv(Path("report.csv"))


def read_tensor_diff(tensor: tap.TensorDiff) -> None:
    assert_type(tensor.order, int)
    assert_type(tensor.key, str)
    assert_type(tensor.key_b, str | None)
    assert_type(tensor.verdict, tap.literals.Verdict)
    assert_type(tensor.cause, tap.literals.Cause)
    assert_type(tensor.evidence, tap.literals.Evidence)
    assert_type(tensor.matched, tap.literals.MatchedBy)
    assert_type(tensor.reason, str)
    assert_type(tensor.dtype, str)
    assert_type(tensor.shape, tuple[int, ...])
    assert_type(tensor.confidence, float)
    assert_type(tensor.ranks, tuple[int, ...])
    assert_type(tensor.note, str)
    assert_type(tensor.trivial, bool)
    assert_type(tensor.tensor_name, str)
    assert_type(tensor.updates, bool)
    assert_type(tensor.quantized_a, str | None)
    assert_type(tensor.quantized_b, str | None)
    assert_type(tensor.max_abs, float)
    assert_type(tensor.cosine, float)
    assert_type(tensor.max_ulp, int | None)
    if tensor.measures is not None and tensor.measures["worst"] is not None:
        assert_type(tensor.measures["worst"]["index"], list[int])
    if tensor.tolerance is not None:
        assert_type(tensor.tolerance["source"], str)
    for call in (tensor.call_a, tensor.call_b):
        if call is not None:
            assert_type(call["line"], str)
    for axis in tensor.axes:
        assert_type(axis["share"], float)
    if tensor.verdict == "diverged" and tensor.cause == "introduced":
        print(tensor.key)


# ---- docs/tracing.md, docs/coming-from-debugmode.md ----


def memory(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> dict[str, str]:
    return {"mem": f"{len(args)}"}


def trace_options() -> None:
    trace = tap.trace(
        {"model": model},
        hashes=True,
        inputs=False,
        outputs=True,
        ids=True,
        stacks=True,
        unseen_writes=True,
        modules=False,
        triton=False,
        level="full",
        filter=[r"^abc\.", "mm"],
        view="leaf",
        hooks=[memory],
        other_threads=False,
        compilation=True,
        memory="1G",
        rows=torch.tensor(3),
        padded=64,
    )
    assert_type(trace, tap.Trace)
    tap.trace(model, filter="mm", hooks=memory, memory=1 << 30, view="all", rows=1, padded=2)
    tap.trace(filter=lambda name: name.endswith("mm"), hooks=lambda name, args, kwargs, result: {"got": result})
    with tap.trace() as entered:
        assert_type(entered, tap.Trace)


def read_trace(trace: tap.Trace) -> None:
    trace.start()
    trace.stop()
    assert_type(trace.counts["calls"], int)
    assert_type(trace.counts["first_failure"], str)
    assert_type(len(trace), int)
    assert_type(trace.recorded, tap.Pass)
    assert_type(trace.replays, list[tap.Pass])
    assert_type(trace.events, list[tap.EventRecord])
    assert_type([event.name for event in trace if event.kind == "op"], list[str])
    assert_type(trace.log(stack=True, inputs=False, filter="mm", module="rotary"), str)
    assert_type(trace.save("eager"), Path)
    assert_type(trace.diff(trace, rtol=1e-3, structure=False), tap.Diff)
    for use in trace.events[-1].uses:
        if use.record is not None:
            assert_type(trace.recorded.records[use.record], tap.TensorRecord)
