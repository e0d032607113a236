"""tap.quant.record(): steps, microbatches and gradients, whatever the loop does; nothing of it changes the model."""

import copy
import gc
import weakref

import pytest
import tensortap as tap
import torch
from dumped_training import Mlp, by_hand, config, train
from small_models import passes_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

PLAIN = {"high_precision_tensor": True}


def start(model, folder, *tensors, **settings):
    """Dumps these tensors as they are, every step unless told otherwise."""
    given = config(list(tensors) or "all", **{**PLAIN, **settings})
    return tap.quant.record(model, folder, given, report=False, strict=True)


def notes_of(dump):
    return "\n".join(dump.coverage["notes"])


# ---- steps and microbatches ----


def test_a_pass_is_a_step_and_a_call_a_microbatch(tmp_path):
    torch.manual_seed(3)
    model = Mlp()
    with start(model, tmp_path, start_step=1, freq=2) as dump:
        batches, weights = train(model, steps=5, after_step=dump.step)
    passes = passes_of(tmp_path)
    assert list(passes) == [1, 3]
    for step, recorded in passes.items():
        expected = {}
        for microbatch, x in enumerate(batches[step]):
            call = "" if microbatch == 0 else f"::call{microbatch + 1}"
            for layer, had in by_hand(weights[step], x).items():
                for tensor, value in had.items():
                    if tensor != "weight" or microbatch == 0:  # it has not changed
                        expected[f"{layer}{call}@{tensor}"] = value
        assert set(recorded) == set(expected)
        for key, value in expected.items():
            assert torch.equal(recorded[key], value), (step, key)
        told = [(event.name, event.call, event.notes) for event in recorded.events]
        assert told == [
            (layer, microbatch + 1, {"step": step, "microbatch": microbatch})
            for microbatch in range(2)
            for layer in ("fc1", "fc2")
        ]


def test_each_tensor_has_its_own_schedule(tmp_path):
    model = Mlp()
    given = config()
    given["section"]["transformer_engine"]["DumpTensors"] = {
        "tensors_struct": [
            {"tensor": "output", "freq": 2},
            {"tensor": "wgrad", "start_end_list": [[1, 1], [4, 5]]},
            {"tensor": "weight", "start_step": 5},
        ],
        **PLAIN,
    }
    with tap.quant.record(model, tmp_path, given, report=False) as dump:
        train(model, steps=6, after_step=dump.step)
    found = {step: sorted({record.role for record in each.records}) for step, each in passes_of(tmp_path).items()}
    assert found == {0: ["output"], 1: ["wgrad"], 2: ["output"], 4: ["output", "wgrad"], 5: ["weight", "wgrad"]}


def test_a_step_in_which_nothing_ran_leaves_nothing(tmp_path):
    model = Mlp()
    with start(model, tmp_path, "output") as dump:
        dump.step()
        model(torch.randn(1, 32))
        assert dump.step() == 2
        assert dump.current_step == 2
    assert list(passes_of(tmp_path)) == [1]


def test_training_goes_on_from_a_step(tmp_path):
    model, x = Mlp(), torch.randn(1, 32)
    given = config(["output"], freq=2, **PLAIN)
    with tap.quant.record(model, tmp_path, given, first_step=100, report=False) as dump:
        for _ in range(3):
            model(x)
            dump.step()
    assert list(passes_of(tmp_path)) == [100, 102]
    with pytest.raises(ValueError, match="first_step is -1: it is the number of a step, counted from 0"):
        tap.quant.record(model, tmp_path, given, first_step=-1)


def test_a_weight_that_changes_within_a_step_is_there_again(tmp_path):
    model, x = Mlp(), torch.randn(1, 32)
    with start(model, tmp_path, "weight", layers="fc1"):
        model(x)
        before = model.fc1.weight.detach().clone()
        with torch.no_grad():
            model.fc1.weight.mul_(2)
        model(x)
        model(x)
    recorded = passes_of(tmp_path)[0]
    assert list(recorded) == ["fc1@weight", "fc1::call2@weight"]
    assert torch.equal(recorded["fc1@weight"], before) and torch.equal(recorded["fc1::call2@weight"], 2 * before)


def test_the_input_is_taken_before_the_layer_and_the_output_before_what_follows(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    x = torch.randn(3, 4)
    plain = functional.linear(x, model[0].weight, model[0].bias)
    with start(model, tmp_path, "activation", "output", "gradient"):
        model(x).sum().backward()
        x.zero_()
    recorded = passes_of(tmp_path)[0]
    assert not torch.equal(recorded["0@activation"], x)
    assert torch.equal(recorded["0@output"], plain)
    assert torch.equal(recorded["0@gradient"], (plain > 0).float())


# ---- gradients ----


def backward_of(model, x):
    """The gradients of each microbatch, as a twin of the model has them."""
    twin = copy.deepcopy(model)
    twin.zero_grad()
    weights = {name: value.detach() for name, value in twin.named_parameters()}
    return by_hand(weights, x)


ORDERS = ("one after the other", "all forwards first", "in reverse")


def run_backward(model, batches, order):
    if order == "one after the other":
        for x in batches:
            model(x).square().mean().backward()
        return
    losses = [model(x).square().mean() for x in batches]
    for loss in losses if order == "all forwards first" else reversed(losses):
        loss.backward()


@pytest.mark.parametrize("order", ORDERS)
def test_each_microbatch_has_its_own_gradients(tmp_path, order):
    model, batches = Mlp(), [torch.randn(2, 32) for _ in range(3)]
    with start(model, tmp_path, "wgrad", "dgrad", "gradient"):
        run_backward(model, batches, order)
    recorded = passes_of(tmp_path)[0]
    assert len(recorded) == 3 * 5  # no dgrad of fc1: x needs none
    for number, x in enumerate(batches, 1):
        call = "" if number == 1 else f"::call{number}"
        for layer, had in backward_of(model, x).items():
            for tensor in {"wgrad", "dgrad", "gradient"} & set(had):
                assert torch.equal(recorded[f"{layer}{call}@{tensor}"], had[tensor]), (layer, number, tensor)


class Checkpointed(Mlp):
    reentrant = False

    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_checkpoints_change_nothing_of_what_is_dumped(tmp_path, reentrant, order):
    model, batches = Checkpointed(), [torch.randn(2, 32, requires_grad=True) for _ in range(3)]
    model.reentrant = reentrant
    with start(model, tmp_path):
        run_backward(model, batches, order)
    recorded = passes_of(tmp_path)[0]
    assert len(recorded) == 2 + 3 * 2 * 5
    assert {event.kind for event in recorded.events} == {"module"} and len(recorded.events) == 6
    for number, x in enumerate(batches, 1):
        call = "" if number == 1 else f"::call{number}"
        for layer, had in backward_of(model, x.detach()).items():
            for tensor in set(had) - {"weight"}:
                assert torch.equal(recorded[f"{layer}{call}@{tensor}"], had[tensor]), (layer, number, tensor)
    assert torch.equal(recorded["fc1@dgrad"], batches[0].grad)


@pytest.mark.parametrize("together", [False, True])
def test_autocast_keeps_one_cast_for_all_microbatches(tmp_path, together):
    torch.manual_seed(0)
    model, batches = Mlp(), [torch.randn(2, 32) for _ in range(3)]

    def train_on(model, seen):
        def run(x):
            model(x).square().mean().backward()
            seen.append(model.fc2.weight.grad.clone())
            model.zero_grad()

        if together:
            with torch.autocast("cpu", torch.bfloat16):
                for x in batches:
                    run(x)
        else:
            for x in batches:
                with torch.autocast("cpu", torch.bfloat16):
                    run(x)

    expected, got = [], []
    train_on(copy.deepcopy(model), expected)
    with start(model, tmp_path, "wgrad", layers="fc2"):
        train_on(model, got)
    recorded = passes_of(tmp_path)[0]
    assert list(recorded) == ["fc2@wgrad", "fc2::call2@wgrad", "fc2::call3@wgrad"]
    for key, ours, theirs in zip(recorded, got, expected):
        assert torch.equal(ours, theirs)
        assert torch.equal(recorded[key], theirs)


def test_a_second_backward_through_one_graph_brings_more_gradients(tmp_path):
    model = Mlp()
    with start(model, tmp_path, "gradient", "wgrad", layers="fc2"):
        loss = model(torch.randn(2, 32)).square().mean()
        loss.backward(retain_graph=True)
        (2 * loss).backward()
    recorded = passes_of(tmp_path)[0]
    assert set(recorded) == {"fc2@gradient", "fc2@wgrad", "fc2@gradient_2", "fc2@wgrad_2"}
    assert torch.equal(recorded["fc2@wgrad_2"], 2 * recorded["fc2@wgrad"])


def test_gradients_that_come_after_their_step_are_counted(tmp_path):
    model = Mlp()
    with start(model, tmp_path, "output", "gradient") as dump:
        loss = model(torch.randn(2, 32)).sum()
        dump.step()
        loss.backward()
    assert dump.coverage["late_gradients"] == 2
    assert set(passes_of(tmp_path)[0]) == {"fc1@output", "fc2@output"}


@pytest.mark.parametrize("format", ["ttap", "pt"])
def test_what_to_do_about_such_gradients_is_said(tmp_path, capsys, format):
    model = Mlp()
    with tap.quant.record(model, tmp_path, config(["output", "gradient"], **PLAIN), format=format) as dump:
        loss = model(torch.randn(2, 32)).sum()
        dump.step()
        loss.backward()
    report = capsys.readouterr().err
    assert "2 gradients that came after their pass had ended: call `dump.step()` after the backward" in report
    assert "rec.step()" not in report


def test_without_gradients_the_rest_is_there_and_what_is_not_is_told(tmp_path):
    model = Mlp()
    with torch.no_grad(), start(model, tmp_path) as dump:
        model(torch.randn(2, 32))
    assert {record.role for record in passes_of(tmp_path)[0].records} == {"activation", "weight", "output"}
    assert notes_of(dump) == "\n".join(
        f"no {name} of fc1, fc2: it never came" for name in ("gradient", "wgrad", "dgrad")
    )


def test_why_a_gradient_never_came(tmp_path):
    model = Mlp()
    model.fc2.weight.requires_grad_(False)
    with start(model, tmp_path, "dgrad", "wgrad") as dump:
        model(torch.randn(2, 32)).sum().backward()
    assert set(passes_of(tmp_path)[0]) == {"fc1@wgrad", "fc2@dgrad"}
    assert dump.coverage["notes"] == [
        "no dgrad of fc1: its input needs no gradient",
        "no wgrad of fc2: its weight needs no gradient",
    ]
    assert dump.coverage["roots"] == [{"name": "Mlp", "modules": 3, "selected": 2, "passes": 1}]


def test_in_inference_mode(tmp_path):
    model = Mlp()
    with torch.inference_mode(), start(model, tmp_path, "activation", "weight", "output"):
        model(torch.randn(2, 32))
    assert len(passes_of(tmp_path)[0]) == 6


# ---- what goes wrong ----


class Fragile(Mlp):
    def forward(self, x):
        if x.shape[0] == 3:
            self.fc1(x[:, :5])
        if x.shape[0] == 5:
            self.fc1(x)
            raise KeyboardInterrupt
        return super().forward(x)


@pytest.mark.parametrize(("rows", "raised"), [(3, RuntimeError), (5, KeyboardInterrupt)])
def test_a_forward_that_raises_leaves_the_others_right(tmp_path, rows, raised):
    model, x = Fragile(), torch.randn(2, 32)
    with start(model, tmp_path) as dump:
        model(x).square().mean().backward()
        with pytest.raises(raised):
            model(torch.randn(rows, 32))
        model(x).square().mean().backward()
        dump.step()
    recorded = passes_of(tmp_path)[0]
    assert recorded.ending == "complete"
    had = backward_of(model, x)
    for layer, call, microbatch in (("fc1", 3, 2), ("fc2", 2, 2), ("fc1", 1, 0), ("fc2", 1, 0)):
        suffix = f"::call{call}" if call > 1 else ""
        for tensor in set(had[layer]) - {"weight"}:
            assert torch.equal(recorded[f"{layer}{suffix}@{tensor}"], had[layer][tensor])
        (event,) = [each for each in recorded.events if (each.name, each.call) == (layer, call)]
        assert event.notes["microbatch"] == microbatch


def test_a_step_that_is_left_by_an_exception_is_aborted(tmp_path):
    model = Mlp()
    with pytest.raises(ZeroDivisionError), start(model, tmp_path, "output") as dump:
        model(torch.randn(2, 32))
        dump.step()
        model(torch.randn(2, 32))
        1 / 0  # noqa: B018
    assert [recorded.ending for recorded in passes_of(tmp_path).values()] == ["complete", "aborted"]
    assert not model.fc1._forward_hooks and not model.fc1._forward_pre_hooks


def test_a_failure_of_ours_is_counted_and_kept_from_the_model(tmp_path, monkeypatch):
    from tensortap.quant.dump import run as dump_run

    def fails(*_):
        raise OSError("no room")

    monkeypatch.setattr(dump_run.RunSink, "write", fails)
    model, x = Mlp(), torch.randn(2, 32)
    with tap.quant.record(model, tmp_path, config(["output"]), report=False) as dump:
        model(x)
    assert "2 failures while recording; the first: OSError: no room" in notes_of(dump)
    raised = pytest.raises(OSError, match="no room")
    with tap.quant.record(model, tmp_path, config(["output"]), report=False, strict=True), raised:
        model(x)


def test_what_fails_keeps_nothing_else_from_being_dumped(tmp_path, monkeypatch):
    from tensortap.quant.dump import run as dump_run

    write = dump_run.RunSink.write

    def fails_at_times(self, call, name, *rest):
        if name in ("activation", "gradient"):
            raise OSError("no room")
        write(self, call, name, *rest)

    monkeypatch.setattr(dump_run.RunSink, "write", fails_at_times)
    model = Mlp()
    with tap.quant.record(model, tmp_path, config(layers="fc2", **PLAIN), report=False) as dump:
        model(torch.randn(2, 32)).sum().backward()
    assert set(passes_of(tmp_path)[0]) == {f"fc2@{name}" for name in ("weight", "output", "dgrad", "wgrad")}
    assert "2 failures while recording; the first: OSError: no room" in notes_of(dump)


def test_while_a_cuda_graph_is_captured_nothing_is_read(tmp_path, monkeypatch):
    model, x = Mlp(), torch.randn(2, 32)
    with start(model, tmp_path) as dump:
        with monkeypatch.context() as capture:
            capture.setattr(torch.cuda, "is_initialized", lambda: True)
            capture.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
            model(x).sum().backward()
        dump.step()
        model(x)
    assert list(passes_of(tmp_path)) == [1]
    assert dump.coverage["notes"][0] == "called while a CUDA graph was captured, and not dumped: tap.record() does that"


# ---- nothing else changes ----


def test_the_model_computes_the_same_bits(tmp_path):
    torch.manual_seed(5)
    model = Mlp()
    twin = copy.deepcopy(model)
    train(twin, steps=4)
    with tap.quant.record(model, tmp_path, config(recipe="nvfp4"), format="pt", report=False) as dump:
        train(model, steps=4, after_step=dump.step)
    for ours, theirs in zip(model.parameters(), twin.parameters()):
        assert torch.equal(ours, theirs)


def test_closing_takes_everything_off(tmp_path):
    model, x = Mlp(), torch.randn(2, 32)
    before = copy.deepcopy(model.state_dict())
    dump = start(model, tmp_path)
    model(x).sum().backward()
    dump.close()
    dump.close()
    assert dump.step() == 1 and not dump.recording
    model(x).sum().backward()
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
    for parameter in model.parameters():
        assert not parameter._backward_hooks
    assert list(passes_of(tmp_path)) == [0] and len(passes_of(tmp_path)[0].events) == 2
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_graph_is_not_kept_alive(tmp_path):
    model, seen = Mlp(), []
    with start(model, tmp_path):
        model.fc1.register_forward_hook(lambda module, args, output: seen.append(weakref.ref(output)))
        model(torch.randn(2, 32)).sum().backward()
        gc.collect()
        assert [reference() for reference in seen] == [None]  # the graph had saved it


def test_nothing_is_put_on_without_a_directory(monkeypatch):
    monkeypatch.delenv("TTAP_DIR", raising=False)
    model = Mlp()
    with tap.quant.record(model, None, config()) as dump:
        assert not dump.recording and not model.fc1._forward_hooks
        model(torch.randn(1, 32))
        assert dump.step() == 1


# ---- which layers ----


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.first
        self.norm = nn.LayerNorm(4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.norm(self.first(x)))


def test_layers_are_modules_with_a_weight_known_by_all_their_names(tmp_path):
    model = Tied()
    with start(model, tmp_path, "output") as dump:
        model(torch.randn(2, 4))
    assert [tap.names for tap in dump.taps] == [["first", "second"], ["unused"]]  # a norm is none
    recorded = passes_of(tmp_path)[0]
    assert set(recorded) == {"first@output", "first::call2@output", "second@output", "second::call2@output"}
    (unused,) = dump.coverage["never_called"]
    assert (unused["name"], unused["type"]) == ("unused", "Linear")
    assert unused["why"].startswith("never called")  # what follows depends on what this process has compiled


def test_models_by_name(tmp_path):
    models = {"a": Mlp(), "b": Mlp()}
    with start(models, tmp_path, "output", layers="^a"):
        for model in models.values():
            model(torch.randn(2, 32))
    assert set(passes_of(tmp_path)[0]) == {"a.fc1@output", "a.fc2@output"}


def test_a_section_that_selects_nothing_is_told(tmp_path):
    expected = r"section.layers selects none of the 2 layers that have a weight; there are fc2, fc1"
    with (
        pytest.warns(UserWarning, match=expected),
        tap.quant.record(Mlp(), tmp_path, config(layers="fc3"), report=False),
    ):
        pass


def test_two_sections_may_share_a_layer_and_not_a_tensor_of_it(tmp_path):
    given = config(["output"], **PLAIN)
    given["other"] = copy.deepcopy(given["section"])
    message = (
        "the sections 'section' and 'other' both want the output of fc1: a tensor of a layer belongs to one section"
    )
    model = Mlp()
    with pytest.raises(tap.quant.ConfigError, match=message):
        tap.quant.record(model, tmp_path, given, report=False)
    assert not model._forward_pre_hooks
    given["other"]["transformer_engine"]["DumpTensors"]["tensors"] = ["weight"]
    with tap.quant.record(model, tmp_path, given, report=False):
        model(torch.randn(1, 32))
    assert {record.role for record in passes_of(tmp_path)[0].records} == {"output", "weight"}


def test_what_is_no_model():
    with pytest.raises(TypeError, match=r"the model is a int, not a torch.nn.Module"):
        tap.quant.record(3, "dump", config())
    with pytest.raises(TypeError, match=r"the model 'x' is a int, not a torch.nn.Module"):
        tap.quant.record({"x": 3}, "dump", config())


def test_a_compiled_layer_is_told(tmp_path):
    model = Mlp()
    model.fc1.compile(backend="eager")
    with start(model, tmp_path, "output") as dump:
        model(torch.randn(2, 32))
    assert {record.name for record in passes_of(tmp_path)[0].records} == {"fc2"}
    assert dump.coverage["never_called"] == [{"name": "fc1", "type": "Linear", "why": "inside a compiled region"}]
