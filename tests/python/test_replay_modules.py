"""Recorded calls of modules, made again with a model that is here."""

import copy
import dataclasses
import random
import sys
import warnings

import pytest
import tensortap as tap
import torch
from module_recordings import event_of, recorded, refusal, replayed
from tensortap.modules.call_note import ArgumentWriter
from tensortap.replaying.call_text import parse_arguments
from torch import nn
from ttap_command import ROOT

sys.path.insert(0, str(ROOT / "bench/verdicts"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from architectures import architecture


class Attention(nn.Module):
    """Takes keywords, truth values and structures, and gives a tuple with a dict."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, *, mask=None, causal=False, scale=1.0, kind="plain", more=None):
        scores = self.q(x) @ self.k(x).transpose(-1, -2) * scale
        if causal:
            scores = scores.masked_fill(torch.ones(3, 3, dtype=torch.bool).triu(1), -torch.inf)
        if mask is not None:
            scores = scores + mask
        weights = scores.softmax(-1, dtype=torch.float32).to(x.dtype)
        x = self.out(weights @ x)
        for each in (more or {}).get("shifts", ()):
            x = x + each
        return (x.relu() if kind == "it's 5%" else x), {"weights": weights}


def test_a_linear_gives_the_recorded_bits_and_the_exact_result(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    for name, kind in (("0", "Linear"), ("1", "LayerNorm"), ("Sequential", "Sequential")):
        again = replayed(kept, name, model)
        assert (again.op, again.same_bits, again.parameters, again.from_model) == (kind, True, "recorded", ())
    (exact,) = replayed(kept, "0", model, dtype=torch.float64).tensors
    assert torch.equal(exact.value, nn.functional.linear(x.double(), *(p.double() for p in model[0].parameters())))
    assert torch.equal(exact.recorded, model[0](x))
    assert (exact.role, exact.path, exact.same_bits) == ("out", "", None)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_module_is_called_in_another_dtype(dtype, tmp_path):
    torch.manual_seed(0)
    model, x = Attention().bfloat16(), torch.randn(2, 3, 8).bfloat16()
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    again = replayed(kept, "Attention", model, dtype=dtype)
    wanted = copy.deepcopy(model).to(dtype)(x.to(dtype))
    assert {each.value.dtype for each in again.tensors} == {dtype}
    if dtype != torch.float64:
        assert torch.equal(again.tensors[0].value, wanted[0])


def test_what_a_module_casts_by_itself_is_not_rounded_in_float64(tmp_path):
    torch.manual_seed(0)
    model, x = Attention(), torch.randn(2, 3, 8)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    made, weights = replayed(kept, "Attention", model, dtype=torch.float64).tensors
    wide, values = copy.deepcopy(model).double(), x.double()
    scores = (wide.q(values) @ wide.k(values).transpose(-1, -2)).softmax(-1)
    assert torch.equal(weights.value, scores)
    assert torch.equal(made.value, wide.out(scores @ values))


def test_arguments_of_every_kind_are_given_again(tmp_path):
    torch.manual_seed(0)
    model, x, mask = Attention(), torch.randn(2, 3, 8), torch.randn(3, 3)
    (first, second) = recorded(
        model,
        tmp_path,
        lambda: model(x, mask=mask, causal=True, scale=0.5, kind="it's 5%", more={"shifts": [x, (1.5)], "n": None}),
        lambda: model(x, causal=False, scale=float("inf"), more={}),
    )
    assert [each.path for each in replayed(first, "Attention", model).tensors] == ["/0", "/1/weights"]
    assert replayed(first, "Attention", model).same_bits is True
    assert replayed(second, "Attention", model).same_bits is True


@pytest.mark.parametrize(
    "value",
    [1, -(2**70), True, None, 2.5, -0.0, 1e-300, "a'b\n%1 \"é\" \ud800", "100%% %0", (1,), (), [[1], (2, 3)],
     {"a": {1: [None]}}, 1 + 2j, 2j, torch.float16, torch.device("cpu"), torch.channels_last, {}, [], ""],
)  # fmt: skip
def test_a_value_comes_back_as_it_was(value):
    x = torch.ones(1)
    found = parse_arguments(ArgumentWriter({id(x): "/1"}).text_of((value, x), {"named": value}))
    assert (found.args[0], found.kwargs["named"]) == (value, value)
    assert type(found.args[0]) is type(value)


def test_arguments_are_written_as_python_writes_them():
    x = torch.ones(1)
    writer = ArgumentWriter({id(x): "/0"})
    assert writer.text_of((x, (1,), "5%"), {"on": [True, x], "of": {"a": torch.float16}}) == (
        "%0, (1,), '5%%', on=[True, %0], of={'a': torch.float16}"
    )
    assert writer.inputs == ["/0"]


def test_an_object_or_a_long_list_is_said_to_be_not_there(tmp_path):
    class Takes(nn.Module):
        def forward(self, x, state=None, *, numbers=()):
            return x + len(numbers)

    class State:
        def __repr__(self):
            raise RuntimeError("nobody asks for this")

    model, x = Takes(), torch.ones(2)
    passes = recorded(
        model,
        tmp_path,
        lambda: model(x, State()),
        lambda: model(x, numbers=list(range(100_000))),
        lambda: model(x, "x" * 100_000, numbers=()),
        lambda: model(x, numbers=range(3)),
    )
    reasons = [refusal(kept, "Takes", model) for kept in passes]
    assert "the argument 1 is <" in reasons[0]
    assert "State>" in reasons[0]
    assert "the argument numbers is a list that was too long" in reasons[1]
    assert "the argument 1 is a string that was too long" in reasons[2]
    assert "the argument numbers is <range>" in reasons[3]
    assert all(len(str(event_of(kept, "Takes").notes)) < 5000 for kept in passes)


def test_nothing_is_asked_of_an_argument_and_any_device_will_do(tmp_path):
    class Odd:
        @property
        def __class__(self):
            raise RuntimeError("nobody asks for this")

    class Takes(nn.Module):
        def forward(self, x, *others, **named):
            return x + 1

    model = Takes()
    options = {"strict": True, "level": {"never": "meta"}}
    (first, second) = recorded(
        model,
        tmp_path,
        lambda: model(torch.ones(2, device="meta"), {1.5: 2, (1,): 3}, **{"a b": 1}),
        lambda: model(torch.ones(2), {None: 1}, x_=torch.ones(2).to_sparse(), odd=3),
        **options,
    )
    assert "the argument 1 is a dict with other keys than texts and numbers" in refusal(first, "Takes", model)
    assert "the argument 1 is a dict with other keys than texts and numbers" in refusal(second, "Takes", model)
    assert ArgumentWriter({}).text_of((Odd(),), {}).endswith("Odd>")


def test_one_tensor_in_two_places_is_one_tensor_again(tmp_path):
    class Same(nn.Module):
        def forward(self, a, b):
            a.add_(1)
            return b * (2 if a is b else 3)

    model, x = Same(), torch.ones(3)
    (kept,) = recorded(model, tmp_path, lambda: model(x, x))
    (made,) = replayed(kept, "Same", model).tensors
    assert made.value.tolist() == [4.0, 4.0, 4.0]
    assert made.same_bits is True


def test_parameters_are_those_of_the_call_and_not_of_today(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    step = torch.optim.SGD(model.parameters(), lr=0.1)

    def train():
        step.zero_grad()
        model(x).sum().backward()
        step.step()

    def infer():
        with torch.no_grad():
            model(x)

    passes = recorded(model, tmp_path, train, train, infer, infer)
    today = {name: value.clone() for name, value in model.state_dict().items()}
    for kept in passes:
        for name in ("0", "1", "Sequential"):
            again = replayed(kept, name, model)
            assert (again.same_bits, again.parameters) == (True, "recorded")
    assert all(torch.equal(value, today[name]) for name, value in model.state_dict().items())


def test_parameters_that_change_within_a_pass_are_those_of_each_call(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    with tap.record(model, tmp_path, roles="in,out,param", step="manual", report=False) as recording, recording.step():
        model(x)
        model(x * 2)
        nn.init.ones_(model[0].weight)
        model(x * 3)
    (kept,) = tap.open(tmp_path).ranks[0].passes.values()
    assert [replayed(kept, "0", model, call=call).same_bits for call in (1, 2, 3)] == [True, True, True]


def test_without_recorded_parameters_those_of_the_model_are_taken_and_it_is_said(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path / "a", lambda: model(x), roles="in,out")
    again = replayed(kept, "0", model)
    assert (again.same_bits, again.parameters, again.from_model) == (True, "of the model", ("weight", "bias"))
    (kept,) = recorded(model, tmp_path / "b", lambda: model(x), level={"^1$": "fingerprint"})
    again = replayed(kept, "Sequential", model)
    assert (again.parameters, again.from_model) == ("partly recorded", ("1.weight", "1.bias"))
    with torch.no_grad():
        model[1].weight.add_(1)
    assert replayed(kept, "Sequential", model).same_bits is False
    (kept,) = recorded(relu := nn.ReLU(), tmp_path / "c", lambda: relu(x))
    assert replayed(kept, "ReLU", relu).parameters == "none"


def test_a_module_that_several_hold_and_one_that_is_called_twice(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.ModuleDict({"table": nn.Linear(4, 4)})
            self.decoder = nn.ModuleDict({"table": self.encoder["table"]})
            self.head = nn.Linear(4, 4)
            self.head.weight = self.encoder["table"].weight

        def forward(self, x):
            return self.head(self.decoder["table"](self.encoder["table"](x)))

    torch.manual_seed(0)
    model, x = Tied(), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    with torch.no_grad():
        model.head.weight.zero_()
    assert replayed(kept, "encoder.table", model).same_bits is True
    second = replayed(kept, "encoder.table", model, call=2)
    assert (second.same_bits, second.parameters) == (True, "recorded")
    assert replayed(kept, "Tied", model).same_bits is True


def test_each_holder_has_a_name_for_a_shared_module(tmp_path):
    class Holder(nn.Module):
        def __init__(self, table):
            super().__init__()
            self.table = table

        def forward(self, x):
            return self.table(x)

    torch.manual_seed(0)
    table, x = nn.Linear(4, 4), torch.randn(2, 4)
    model = nn.Sequential(Holder(table), Holder(table))
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    nn.init.zeros_(table.weight)
    assert replayed(kept, "0.table", model).parameters == "recorded"
    assert replayed(kept, "1.table", model).same_bits is True


def test_a_wrapped_model_has_the_names_of_the_bare_one(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path / "a", lambda: model(x))
    assert replayed(kept, "0", torch.compile(model)).same_bits is True
    (kept,) = recorded({"left": model, "right": model}, tmp_path / "b", lambda: model(x))
    assert replayed(kept, "left.0", {"left": model}).same_bits is True
    assert refusal(kept, "left.0", model) == "the model has no module left.0"


@pytest.mark.parametrize("roles", ["in,out,param", "in,out"])
def test_batch_norm_in_training_leaves_the_running_statistics(roles, tmp_path):
    torch.manual_seed(0)
    model, x = nn.BatchNorm1d(4), torch.randn(8, 4)
    first, second = recorded(model, tmp_path, lambda: model(x), lambda: model(x * 2), roles=roles)
    model.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for kept in (first, second):
        assert replayed(kept, "BatchNorm1d", model).same_bits is True  # in the mode of the call, which was training
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_statistics_of_a_batch_norm_are_those_before_the_call(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.BatchNorm1d(4)), torch.randn(8, 4)
    passes = recorded(model, tmp_path, lambda: model(x), lambda: model.eval()(x * 2), lambda: model.train()(x))
    model[0].reset_running_stats()
    for kept in passes:
        for name in ("0", "Sequential"):
            assert replayed(kept, name, model).same_bits is True


def test_a_module_that_draws_random_numbers_is_refused(tmp_path):
    x = torch.ones(64)
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.0))
    training, inference = recorded(model, tmp_path, lambda: model(x), lambda: model.eval()(x))
    state, of_python = torch.get_rng_state(), random.getstate()
    assert "draws random numbers" in refusal(training, "0", model)
    assert "draws random numbers" in refusal(training, "Sequential", model)
    assert replayed(training, "1", model).same_bits is True
    assert replayed(inference, "0", model.train()).same_bits is True
    assert torch.equal(state, torch.get_rng_state())
    assert of_python == random.getstate()


def test_another_model_is_refused_with_the_difference(tmp_path):
    def made(size, *, kind=nn.Linear):
        return nn.Sequential(kind(4, size))

    model, x = made(4), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path / "a", lambda: model(x))
    assert refusal(kept, "0", made(5)) == (
        "0@param/weight is f32[4, 4] in the recording and f32[5, 4] in the model: it is another model"
    )
    assert "0 is a Linear in the recording and a Bilinear in the model" in refusal(
        kept, "0", nn.Sequential(nn.Bilinear(4, 4, 4))
    )
    assert "the model has no module 0" in refusal(kept, "0", nn.ModuleDict({"up": nn.Linear(4, 4)}))
    (kept,) = recorded(model, tmp_path / "b", lambda: model(x), roles="in,out")
    assert "0 is [2, 5] here and [2, 4] in the recording" in refusal(kept, "0", made(5))
    assert "the module raised RuntimeError" in refusal(kept, "0", nn.Sequential(nn.Linear(3, 4)))
    (kept,) = recorded(model, tmp_path / "c", lambda: model(x), roles="in,out")
    assert "the model has none" in refusal(kept, "0", made(4).to("meta"))


@pytest.mark.parametrize(
    "options", [{"roles": "out,param"}, {"roles": "out,grad_in"}, {"level": "fingerprint"}, {"format": "safetensors"}]
)
def test_without_inputs_the_reason_says_how_to_record_them(options, tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    recorded(model, tmp_path, lambda: model(x), **options)
    (kept,) = tap.open(tmp_path).ranks[0].passes.values()
    if options.get("format"):
        assert [path.name for path in kept.path.parent.glob("pass*")] == ["pass00000.safetensors"]
        return
    assert "--roles in,out,param --level full" in refusal(kept, "0", model)
    assert all(event.notes == {} for event in kept.events)


def test_without_a_model_the_reason_says_what_to_give(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    reason = tap.replay(event_of(kept, "0")).reason
    assert "give its model" in reason
    assert "--ops" in reason


def test_a_module_that_raised_is_not_replayed(tmp_path):
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = Raises()

    def call():
        with pytest.raises(ValueError, match="no"):
            model(torch.ones(1))

    (kept,) = recorded(model, tmp_path, call)
    assert "did not return" in refusal(kept, "Raises", model)


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ({"arguments": "%1", "inputs": ["/0"]}, "there is no tensor %1"),
        ({"arguments": "%0", "inputs": "/0"}, "there is no tensor %0"),
        ({"arguments": "%0", "inputs": ["/7"]}, "the values of the argument /7 were not recorded"),
        ({"arguments": "{[1]: 2}"}, "the argument 0 is a dict with other keys"),
        ({"arguments": 3}, "its arguments were not recorded"),
        ("text", "its arguments were not recorded"),
    ],
)
def test_a_note_that_is_none_of_ours_is_refused(note, reason, tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    event = dataclasses.replace(event_of(kept, "0"), notes={"call": note})
    vars(event)["_pass"] = kept
    assert reason in tap.replay(event, model=model).reason


def test_modes_of_the_call_are_those_of_the_replay(tmp_path):
    class Looks(nn.Module):
        def forward(self, x):
            return x @ x + torch.is_grad_enabled() + 2 * self.training

    torch.manual_seed(0)
    model, x = Looks(), torch.randn(4, 4)

    def with_autocast():
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            model.eval()(x)

    plain, autocast = recorded(model, tmp_path, lambda: model(x), with_autocast)
    assert replayed(plain, "Looks", model).same_bits is True
    (made,) = replayed(autocast, "Looks", model.train()).tensors
    assert (made.value.dtype, made.same_bits) == (torch.bfloat16, True)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert replayed(plain, "Looks", model).same_bits is True
    assert replayed(autocast, "Looks", model, dtype=torch.float32).tensors[0].value.dtype == torch.float32
    (exact,) = replayed(autocast, "Looks", model, dtype=torch.float64).tensors
    assert torch.equal(exact.value, x.double() @ x.double())


def test_a_module_that_differentiates_is_called_again_in_inference_mode_too(tmp_path):
    class Force(nn.Module):
        def forward(self, x):
            at = x.detach().requires_grad_()
            return torch.autograd.grad(at.square().sum(), at)[0]

    model, x = Force(), torch.randn(4)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    with torch.inference_mode():
        assert replayed(kept, "Force", model).same_bits is True


def test_the_model_is_left_as_it_was(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.randn(8, 4)
    (kept,) = recorded(model, tmp_path, lambda: model(x))
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(module is model[0]))
    model(x).sum().backward()
    parameters = [(id(each), each.clone(), each.grad.clone(), each.requires_grad) for each in model.parameters()]
    hooks = [len(each._forward_hooks) for each in model.modules()]
    replayed(kept, "Sequential", model)
    replayed(kept, "Sequential", model, dtype=torch.float64)
    for (number, value, gradient, wanted), now in zip(parameters, model.parameters(), strict=True):
        assert (number, wanted) == (id(now), now.requires_grad)
        assert torch.equal(value, now)
        assert torch.equal(gradient, now.grad)
    assert [len(each._forward_hooks) for each in model.modules()] == hooks
    assert seen == [True, False, False]  # called for the copy, too: weight_norm computes in a hook


@pytest.mark.parametrize("options", [{}, {"ops": True, "level": "full"}])
def test_a_recording_that_is_under_way_does_not_see_it(options, tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    (kept,) = recorded(model, tmp_path / "run", lambda: model(x))
    of_all = {"roles": "in,out,param", "modules": "all", "report": False, **options}
    with tap.record(model, tmp_path / "named", **of_all), tap.record(None, tmp_path / "any", **of_all):
        with tap.trace() as trace:
            assert replayed(kept, "Sequential", model).same_bits is True
            event = event_of(kept, "0")
            assert tap.replay(event, model=model, dtype=torch.float64).parameters == "recorded"
        model(x)
    assert list(trace.events) == []
    for name in ("named", "any"):
        (only,) = tap.open(tmp_path / name).ranks[0].passes.values()
        assert {event.name for event in only.events if event.kind == "module"} == {"Sequential", "0"}
        assert [event.call for event in only.events if event.name == "0"] == [1]


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "t5"])
def test_modules_of_transformers_give_the_recorded_bits(name, tmp_path):
    of = architecture(name)
    model, inputs = of.model(1), of.sample(2)
    with torch.no_grad():
        (kept,) = recorded(model, tmp_path, lambda: model(**inputs, use_cache=False))
    state = model.state_dict()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1.5)
    again = {}
    for event in kept.events:
        if event.kind == "module":
            again[event.name] = tap.replay(event, model=model)
    # A function that is called, as attention is, is no module of the model.
    refused = {name: each.reason for name, each in again.items() if isinstance(each, tap.NotReplayable)}
    assert {name for name, why in refused.items() if "has no module" not in why} == set(), refused
    assert {name for name in refused if not name.endswith("attn")} == set()
    made = {name: each for name, each in again.items() if name not in refused}
    assert {name: each.from_model for name, each in made.items() if each.parameters not in ("recorded", "none")} == {}
    assert {name for name, each in made.items() if each.same_bits is not True} == set()
    layers = [each for each in made.values() if each.op in ("BertLayer", "LlamaDecoderLayer", "GPT2Block", "T5Block")]
    assert len(layers) >= 3
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


def test_a_cache_is_an_argument_that_cannot_be_made_again(tmp_path):
    of = architecture("llama")
    model, inputs = of.model(1), of.sample(2)
    with torch.no_grad():
        (kept,) = recorded(model, tmp_path, lambda: model(**inputs, use_cache=True), filter="^model.layers.0$")
    assert "the argument past_key_values is <DynamicCache>" in refusal(kept, "model.layers.0", model)
