"""Models that do unusual things are neither changed nor broken, and what is said of them is true."""

import copy
import dataclasses
import gc
import io
import os
import sys
import threading

import pytest
import tensortap as tap
import torch
from small_models import Block, Model, Returns, passes_of
from torch import nn
from torch.utils.checkpoint import checkpoint

ALL_ROLES = "out,in,grad_out,grad_in,param"


def record(model, folder, *args, **options):
    with tap.record(model, folder, report=False, **options) as recording:
        result = model(*args)
    return result, recording


# ---- the model stays what it is ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_that_looks_at_its_hooks_computes_the_same_bits(dtype, tmp_path):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, dtype=dtype)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, mask = torch.randn(2, 5, 16, dtype=dtype), torch.zeros(2, 5, dtype=torch.bool)
    mask[1, 3:] = True
    with torch.no_grad():
        plain = model(x, src_key_padding_mask=mask)
        with tap.record(model, tmp_path, modules="all", roles="in,out", report=False):
            tapped = model(x, src_key_padding_mask=mask)
    assert torch.equal(plain.view(torch.uint8), tapped.view(torch.uint8))
    recorded = passes_of(tmp_path)[0]
    assert torch.equal(recorded["TransformerEncoder"], tapped)
    assert "layers.0" in recorded and "layers.1" in recorded


def test_a_recorded_layer_that_looks_at_its_hooks_is_recorded_in_training(tmp_path):
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
    record(model, tmp_path, torch.randn(2, 3, 8))
    assert {"linear1", "linear2", "norm1", "norm2", "self_attn/0"} <= set(passes_of(tmp_path)[0])


def test_a_recorded_model_can_be_scripted_and_traced(tmp_path):
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.randn(1, 2)
    expected = model(x)
    with tap.record(model, tmp_path, report=False, modules="all", roles="in,out"):
        twin = copy.deepcopy(model)
        for made in (torch.jit.script(model), torch.jit.script(twin), torch.jit.trace(model, x)):
            assert torch.equal(made(x), expected)
        model(x)
    recorded = list(passes_of(tmp_path).values())[-1]
    assert list(recorded) == ["Sequential@in/0", "0@in/0", "0", "1@in/0", "1", "Sequential"]


def test_a_model_saved_while_it_is_recorded_loads_without_tensortap(tmp_path):
    import subprocess

    model = nn.Sequential(nn.Linear(2, 2))
    with tap.record(model, tmp_path / "run", report=False):
        torch.save(model, tmp_path / "model.pt")
    program = f"""
import sys
sys.modules["tensortap"] = None
import torch
print(torch.load({str(tmp_path / "model.pt")!r}, weights_only=False)(torch.ones(1, 2)).shape)
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "torch.Size([1, 2])\n"


def test_an_output_with_a_recorded_gradient_is_saved_without_a_warning(tmp_path, recwarn):
    model = nn.Linear(2, 2)
    with tap.record(model, tmp_path, roles=ALL_ROLES, report=False):
        torch.save(model(torch.ones(1, 2)), io.BytesIO())
    assert [str(warning.message) for warning in recwarn] == []


def test_a_module_without_a_hash(tmp_path):
    @dataclasses.dataclass
    class Unhashable(nn.Module):
        size: int

        def __post_init__(self):
            super().__init__()
            self.linear = nn.Linear(self.size, self.size)

        def forward(self, x):
            return self.linear(x)

    model = nn.Sequential(Unhashable(2))
    record(model, tmp_path, torch.ones(1, 2))
    assert list(passes_of(tmp_path)[0]) == ["0.linear"]


def test_the_graphs_of_a_compiled_model_are_those_without_the_tap(tmp_path):
    def graphs(model, x):
        seen = []

        def backend(graph, inputs):
            seen.append([str(node.target) for node in graph.graph.nodes if node.op != "placeholder"])
            return graph.forward

        torch._dynamo.reset()
        torch.compile(model, backend=backend)(x)
        return seen

    model, x = Model(), torch.randn(2, 4)
    plain = graphs(model, x)
    with tap.record(model, tmp_path, roles=ALL_ROLES, modules="all", report=False):
        assert graphs(model, x) == plain


# ---- nothing hangs, nothing leaks ----


def test_an_output_that_holds_itself(tmp_path):
    loop = [torch.ones(2)]
    loop += [loop, loop, {"again": loop}]
    record(nn.Sequential(Returns(loop)), tmp_path, torch.ones(1))
    assert list(passes_of(tmp_path)[0]) == ["0/0"]


def test_an_output_that_raises_when_it_is_looked_at_loses_only_itself(tmp_path):
    class Lazy(dict):
        def items(self):
            raise OSError("not now")

    _, recording = record(nn.Sequential(Returns((torch.ones(1), Lazy(a=1), torch.zeros(1)))), tmp_path, torch.ones(1))
    assert list(passes_of(tmp_path)[0]) == ["0/0", "0/2"]
    assert any("Lazy (OSError: not now)" in note for note in recording.coverage["notes"])


def test_values_that_are_not_looked_into_are_said(tmp_path):
    class Opaque:
        def __init__(self):
            self.tensor = torch.ones(1)

    _, recording = record(nn.Sequential(Returns((Opaque(), torch.ones(1)))), tmp_path, torch.ones(1))
    assert any("not looked into" in note and "Opaque (1 times)" in note for note in recording.coverage["notes"])


def test_the_cache_of_a_transformers_model_is_followed(tmp_path):
    import models

    model, inputs = models.llama()
    with torch.no_grad(), tap.record(model, tmp_path, modules="all", report=False):
        output = model(**inputs, use_cache=True)
    recorded = passes_of(tmp_path)[0]
    key = "LlamaForCausalLM/past_key_values/layers.1/keys"
    assert torch.equal(recorded[key], output.past_key_values.layers[1].keys)


def test_hooks_do_not_pile_up_on_tensors_that_live_on(tmp_path):
    class Prompt(nn.Module):
        def __init__(self):
            super().__init__()
            self.prompt = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.prompt

    model = nn.Sequential(Prompt())
    with tap.record(model, tmp_path, roles=ALL_ROLES, report=False) as recording:
        for _ in range(5):
            model(torch.ones(1)).sum().backward()
        assert len(model[0].prompt._backward_hooks) <= 1
    assert not model[0].prompt._backward_hooks
    assert recording.coverage["late_gradients"] == 0
    assert all("0@grad_out" in recorded for recorded in passes_of(tmp_path).values())


def test_threads_that_are_gone_leave_no_pass_open(tmp_path):
    model = Model()

    def step():
        model(torch.ones(1, 4)).sum().backward()

    with tap.record(model, tmp_path, roles="out,grad_out", report=False):
        for _ in range(12):
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
        assert len(list(tmp_path.glob("*/*.incomplete"))) <= 2
    assert {recorded.ending for recorded in passes_of(tmp_path).values()} == {"complete"}


def test_models_made_for_one_call_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_DIR", str(tmp_path))
    with tap.record(report=False) as recording:
        for _ in range(50):
            nn.CrossEntropyLoss()(torch.ones(1, 2), torch.zeros(1, dtype=torch.long))
        gc.collect()
        nn.ReLU()(torch.ones(1))
        assert len(recording._source._roots) < 20
    (rank,) = tap.open(tmp_path).ranks
    assert len(rank.passes) == 51
    assert len(rank.model["models"]) == 2
    assert sorted(root["passes"] for root in rank.coverage["source"]["roots"]) == [1, 50]


def test_a_recorded_model_can_be_freed(tmp_path):
    import weakref

    model = Model()
    alive = weakref.ref(model)
    with tap.record(model, tmp_path, roles=ALL_ROLES, report=False):
        model(torch.ones(1, 4)).sum().backward()
        del model
        gc.collect()
        assert alive() is None


# ---- gradients and recomputation under the right name ----


def test_the_gradient_of_an_in_place_module_is_that_of_its_input(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))
    reference = copy.deepcopy(model)
    reference[1] = nn.ReLU()
    x = torch.randn(5, 3)
    with tap.record(model, tmp_path / "a", roles=ALL_ROLES, report=False):
        model(x).sum().backward()
    with tap.record(reference, tmp_path / "b", roles=ALL_ROLES, report=False):
        reference(x).sum().backward()
    first, second = passes_of(tmp_path / "a")[0], passes_of(tmp_path / "b")[0]
    assert torch.equal(first["1@grad_in/0"], second["1@grad_in/0"])
    assert not torch.equal(first["1@grad_in/0"], first["1@grad_out"])


def test_a_tensor_passed_twice_has_its_gradient_under_both_paths(tmp_path):
    class Weighs(nn.Module):
        def forward(self, a, b):
            return a * 2 + b * 5

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weighs = Weighs()

        def forward(self, x):
            return self.weighs(x, x)

    with tap.record(model := Outer(), tmp_path, roles="grad_in", report=False):
        model(torch.ones(1, requires_grad=True)).backward()
    recorded = passes_of(tmp_path)[0]
    assert recorded["weighs@grad_in/0"].item() == recorded["weighs@grad_in/1"].item() == 7


class Checkpointed(nn.Module):
    def __init__(self, times, reentrant):
        super().__init__()
        self.block, self.times, self.reentrant = Block(), times, reentrant

    def forward(self, x):
        for _ in range(self.times):
            x = checkpoint(self.block, x, use_reentrant=self.reentrant)
        return x


def test_gradients_of_a_block_recomputed_several_times_do_not_change_places(tmp_path):
    model = Checkpointed(3, reentrant=True)
    with tap.record(model, tmp_path, roles="out,grad_out", report=False):
        model(torch.randn(2, 4, requires_grad=True)).sum().backward()
    keys = set(passes_of(tmp_path)[0])
    assert "block.up@grad_out" not in keys  # it is not known which call is repeated
    assert {"block.up@recompute_grad_out", "block.up::call3@recompute_grad_out"} <= keys


def test_recomputation_for_a_pass_that_has_ended_is_not_recorded_in_the_next(tmp_path):
    model = Checkpointed(1, reentrant=False)
    with tap.record(model, tmp_path, roles="out,grad_out", report=False) as recording:
        first, second = model(torch.randn(2, 4)), model(torch.randn(2, 4))
        (first + second).sum().backward()
    recorded = passes_of(tmp_path)[1]
    assert torch.equal(recorded["block.up@recompute"], recorded["block.up"])
    assert "block.up::call2@recompute" not in recorded
    assert any("recomputed" in note for note in recording.coverage["notes"])


def test_recomputation_on_several_threads_stays_in_its_pass(tmp_path):
    model = Checkpointed(1, reentrant=False)
    barrier = threading.Barrier(2)

    def step():
        x = torch.randn(2, 4)
        for _ in range(4):
            barrier.wait()
            model(x).sum().backward()

    with tap.record(model, tmp_path, roles="out,grad_out", report=False):
        threads = [threading.Thread(target=step) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    passes = passes_of(tmp_path)
    assert len(passes) == 8
    for recorded in passes.values():
        assert [key for key in recorded if "::call" in key] == []
        assert torch.equal(recorded["block.up@recompute"], recorded["block.up"])


def test_a_loss_that_is_a_module_does_not_end_the_models_pass(tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_DIR", str(tmp_path))
    model, loss = Model(), nn.CrossEntropyLoss()
    with tap.record(roles="out,grad_out", report=False) as recording:
        for _ in range(2):
            loss(model(torch.ones(1, 4)), torch.zeros(1, dtype=torch.long)).backward()
    assert recording.coverage["late_gradients"] == 0
    passes = passes_of(tmp_path)
    assert ["head@grad_out" in recorded for recorded in passes.values()] == [True, False] * 2


def test_a_backward_that_fails_is_not_passed_off_as_whole(tmp_path):
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no")

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.second(Breaks.apply(self.first(x)))

    recording = tap.record(model := Outer(), tmp_path, roles="grad_out", report=False)
    with recording, pytest.raises(ValueError, match="no"):
        model(torch.ones(1, 2)).sum().backward()
    assert recording.coverage["notes"] == ["1 gradient awaited, and not there when the pass ended"]


# ---- closing ----


def test_a_hook_that_closes_the_recording(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, report=False) as recording:
        model.head.register_forward_hook(lambda *_: recording.close(), prepend=True)
        model(torch.ones(1, 4))
    (recorded,) = passes_of(tmp_path).values()
    assert recorded.ending == "aborted" and "head" not in recorded
    assert tap.open(tmp_path).ranks[0].coverage["source"]["roots"]


def test_a_closed_stderr_is_no_reason_to_fail(tmp_path, monkeypatch):
    closed = io.StringIO()
    closed.close()
    model = Model()
    for broken in (None, closed):
        monkeypatch.setattr(sys, "stderr", broken)
        with tap.record(model, tmp_path):
            model(torch.ones(1, 4))


def test_a_fork_inside_a_step_harms_neither(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, step="manual", report=False) as recording:
        with recording.step():
            child = os.fork()
            model(torch.ones(1, 4))
        if child == 0:
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert status == 0
    assert len(passes_of(tmp_path)[0]) == 5


def test_modules_put_in_after_the_recording_began_are_said(tmp_path):
    model = Model()
    with tap.record(model, tmp_path, report=False) as recording:
        model.head = nn.Linear(4, 3)
        model(torch.ones(1, 4))
    assert "put into Model after the recording began: head" in recording.coverage["notes"]


def test_strict_raises_what_the_disk_did_not_take(tmp_path):
    model = nn.Sequential(Returns(torch.randn(100_000)))
    with pytest.raises(RuntimeError, match="quota"):
        record(model, tmp_path, torch.ones(1), strict=True, quota="64K")


def test_a_recording_that_is_off_has_an_empty_coverage():
    assert tap.record(Model()).coverage == {}
