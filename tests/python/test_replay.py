"""Recorded calls of operators, made again from the file alone."""

import pickle
import sys
import warnings
from collections import Counter

import pytest
import tensortap as tap
import torch
from tensortap.replaying.call_text import (
    GeneratorArgument,
    NoText,
    ReduceOpWord,
    UnreadableText,
    UseAt,
    parse_arguments,
)
from ttap_command import ROOT, read_json, run

sys.path.insert(0, str(ROOT / "bench/verdicts"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from architectures import architecture

# ---- arguments ----


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("", [], {}),
        ("%0, %12, alpha=2", [UseAt(0), UseAt(12)], {"alpha": 2}),
        ("-1, 2.5, 1e-05, -1.5e+20, inf, -inf", [-1, 2.5, 1e-5, -1.5e20, float("inf"), -float("inf")], {}),
        ("True, False, None", [True, False, None], {}),
        ("[1, 0], [], [%0, None, %1], [0.5, -inf]", [[1, 0], [], [UseAt(0), None, UseAt(1)], [0.5, -float("inf")]], {}),
        ("(1+2j), (-0.5-1.5e-05j), (3, 4)", [1 + 2j, -0.5 - 1.5e-5j, (3, 4)], {}),
        ("'it\\'s 5%%, (all)', ''", ["it's 5%, (all)", ""], {}),
        ("%0, generator=<generator>", [UseAt(0)], {"generator": GeneratorArgument()}),
        ("cpu, cuda:1", [torch.device("cpu"), torch.device("cuda:1")], {}),
        (
            "dtype=torch.bfloat16, layout=torch.strided, memory_format=torch.channels_last",
            [],
            {"dtype": torch.bfloat16, "layout": torch.strided, "memory_format": torch.channels_last},
        ),
        ("9223372036854775807", [2**63 - 1], {}),
        ("[%0], ReduceOp.SUM, None", [[UseAt(0)], ReduceOpWord("SUM"), None], {}),
    ],
)
def test_arguments_are_made_again_from_their_text(text, args, kwargs):
    found = parse_arguments(text)
    assert (found.args, found.kwargs) == (args, kwargs)
    assert [type(each) for each in found.args] == [type(each) for each in args]


def test_objects_are_left_out_where_that_is_asked_for():
    found = parse_arguments("[%0], <ProcessGroup>, ReduceOp.MAX, False", objects=True)
    assert found.args == [[UseAt(0)], NoText("ProcessGroup"), ReduceOpWord("MAX"), False]


def test_nan_is_an_argument():
    (found,) = parse_arguments("nan").args
    assert found != found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%0, [1, 2, …]", "a list that was too long"),
        ("'abc…'", "a string that was too long"),
        ("%0, <__torch__.torch.classes.c10d.ProcessGroup>", "ProcessGroup>, which has no text"),
        ("%0, ?", "not understood: ?"),
        ("%%s", "a symbol"),
    ],
)
def test_what_has_no_text_is_said(text, reason):
    with pytest.raises(UnreadableText, match=reason.replace("[", r"\[").replace("?", r"\?")):
        parse_arguments(text)


def test_every_kind_of_argument_comes_back_as_it_was_given():
    x, weight = torch.randn(2, 3, 4, 4), torch.randn(5, 3, 2, 2)
    with tap.trace(level="full") as trace:
        x.to(torch.float64, memory_format=torch.channels_last)
        torch.nn.functional.conv2d(x, weight, stride=[2, 1], padding=1)
        torch.cat([x, x + 1.5], 1)
        torch.nn.functional.interpolate(x, scale_factor=2.0)
        torch.where(x > 0, x, -torch.inf).amax([0, -1])
        torch.full((2, 2), 1e-30, dtype=torch.float16)
        torch.nn.functional.gelu(x, approximate="tanh")
        x * (1 + 2j)
        torch.arange(3, 9, 2)
        x[:, [0, 2], None, ::2]
    again = [tap.replay(event) for event in trace.events if event.kind == "op"]
    assert len(again) >= 14
    assert [each for each in again if isinstance(each, tap.NotReplayable) or each.same_bits is not True] == []


# ---- calls ----


def only(trace, op):
    (event,) = (event for event in trace.events if event.name.endswith(op))
    return event


def test_a_call_is_made_again_in_the_recorded_dtype_and_in_float64():
    a, b = torch.randn(8, 8).bfloat16(), torch.randn(8, 8).bfloat16()
    with tap.trace(level="full") as trace:
        made = a @ b
    call = only(trace, "aten::mm")
    same = tap.replay(call)
    assert isinstance(same, tap.Replayed)
    (result,) = same.tensors
    assert (same.op, result.role, result.path, result.same_bits) == ("aten::mm", "out", "", True)
    assert torch.equal(result.value, made)
    (exact,) = tap.replay(call, dtype=torch.float64).tensors
    assert torch.equal(exact.value, a.double() @ b.double())
    assert exact.same_bits is None
    assert torch.equal(exact.recorded, made)


def test_other_bits_are_noticed():
    x = torch.randn(4)
    with tap.trace(level="full", unseen_writes=True) as trace:
        made = x + 1
        made.numpy()[0] = 5  # past PyTorch
        made * 1
    call = only(trace, "aten::add.Tensor")
    assert tap.replay(call).same_bits is True
    (result,) = tap.replay(call).tensors
    other = type(result)(result.role, result.path, result.value + 1, result.recorded, result.record)
    assert other.same_bits is False


def test_a_cast_in_float64_is_the_identity():
    x = torch.randn(100)
    with tap.trace(level="full") as trace:
        x.bfloat16()
    (exact,) = tap.replay(only(trace, "aten::_to_copy"), dtype=torch.float64).tensors
    assert torch.equal(exact.value, x.double())


def test_in_place_calls_work_on_what_came_in():
    x = torch.randn(4)
    before = x.clone()
    with tap.trace(level="full") as trace:
        x.add_(x, alpha=2)
        x.mul_(3)
    for op in ("aten::add_.Tensor", "aten::mul_.Tensor"):
        assert tap.replay(only(trace, op)).same_bits is True
    (result,) = tap.replay(only(trace, "aten::add_.Tensor")).tensors
    assert torch.equal(result.value, before + 2 * before)
    assert tap.replay(only(trace, "aten::mul_.Tensor")).same_bits is True  # the first replay wrote to copies


def test_what_is_written_and_not_returned_is_compared_with_what_it_became():
    values = [torch.ones(3), torch.ones(2)]
    with tap.trace(level="full") as trace:
        torch._foreach_add_(values, 2.0)
    again = tap.replay(only(trace, "aten::_foreach_add_.Scalar"))
    assert [(each.role, each.path, each.value.tolist()) for each in again.tensors] == [
        ("after", "/0/0", [3.0, 3.0, 3.0]),
        ("after", "/0/1", [3.0, 3.0]),
    ]
    assert again.same_bits is True


def test_memory_that_is_overwritten_need_not_have_been_recorded():
    with tap.trace(level="full") as trace:
        torch.empty(3).copy_(torch.ones(3))
    assert tap.replay(only(trace, "aten::copy_")).same_bits is True


def test_tensors_lie_as_they_lay():
    x = torch.randn(4, 6)
    with tap.trace(level="full") as trace:
        torch.sum(x.t()[1:, ::2], 0)
        x[:1].expand(5, 6) * 2
    assert [tap.replay(event).same_bits for event in trace.events] == [True] * len(trace.events)
    (product,) = tap.replay(only(trace, "aten::mul.Tensor")).tensors
    assert product.value.shape == (5, 6)


@pytest.mark.parametrize(
    ("work", "op", "reason"),
    [
        (lambda: torch.empty(3), "aten::empty.memory_format", "nothing was written to"),
    ],
)
def test_what_cannot_be_made_again_says_why(work, op, reason):
    with tap.trace(level="full") as trace:
        work()
    refused = tap.replay(only(trace, op))
    assert isinstance(refused, tap.NotReplayable)
    assert reason in refused.reason
    assert "\n" not in refused.reason


def seeded():
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize(
    ("work", "op"),
    [
        (lambda: torch.rand(3), "aten::rand"),
        (lambda: torch.randperm(9), "aten::randperm"),
        (lambda: torch.native_dropout(torch.ones(30), 0.5, True), "aten::native_dropout"),
        (lambda: torch.ones(30).bernoulli_(0.5), "aten::bernoulli_.float"),
        (lambda: torch.empty(30).normal_(1, 2), "aten::normal_"),
        (lambda: torch.multinomial(torch.ones(30), 4), "aten::multinomial"),
        (lambda: torch.empty(30).uniform_(generator=seeded()), "aten::uniform_"),
        (lambda: torch.randn(30, generator=seeded()), "aten::randn.generator"),
    ],
)
def test_random_numbers_are_drawn_again(work, op):
    torch.manual_seed(7)
    torch.rand(5)  # somewhere in the middle of what the generator gives
    with tap.trace(level="full") as trace:
        work()
        torch.rand(3)
    torch.manual_seed(8)
    before = torch.get_rng_state()
    call = next(event for event in trace.events if event.name == op)
    assert [tap.replay(call).same_bits for _ in range(2)] == [True, True]
    assert torch.equal(torch.get_rng_state(), before)
    refused = tap.replay(call, dtype=torch.float64)
    assert isinstance(refused, tap.NotReplayable)
    assert "others in float64" in refused.reason


def test_the_state_of_a_generator_is_a_record_of_the_call_that_draws():
    torch.manual_seed(7)
    state = torch.get_rng_state()
    with tap.trace(level="full") as trace:
        torch.rand(3)
        torch.native_dropout(torch.ones(3), 0.5, False)  # draws nothing
        torch.ones(3) * 2
    (record,) = (record for record in trace.recorded.records if record.role == "generator")
    assert (record.key, record.dtype, record.path) == ("aten::rand@generator", "u8", "")
    assert torch.equal(trace.recorded[record.key], state)


@pytest.mark.parametrize("options", [{"level": "fingerprint"}, {"level": "full", "inputs": False}])
def test_the_state_of_a_generator_is_kept_at_level_full_only(options):
    with tap.trace(**options) as trace:
        torch.rand(3)
    assert not any(record.role == "generator" for record in trace.recorded.records)
    refused = tap.replay(only(trace, "aten::rand"))
    assert "the state of the generator was not recorded" in refused.reason


def test_a_diff_compares_no_states_of_generators():
    def draw(seed):
        torch.manual_seed(seed)
        with tap.trace(level="full") as trace:
            torch.ones(3) * 2
            torch.ones(4).bernoulli_(1.0) + 1
        return trace

    found = tap.diff(draw(1), draw(2))
    assert found.same
    assert not any("generator" in pair.key for pair in found.tensors)


def test_a_long_list_among_the_arguments_is_kept_whole_and_shown_short():
    sizes = [1 + i % 3 for i in range(900)]
    x = torch.arange(float(sum(sizes)))
    with tap.trace(level="full") as trace:
        torch.split_with_sizes(x, sizes)
        torch.roll(x.reshape(1, -1), sizes[:1], [1])
    call = only(trace, "aten::split_with_sizes")
    assert call.arguments == f"%0, {sizes}"
    assert tap.replay(call).same_bits is True
    (line,) = (line for line in str(trace).splitlines() if "split_with_sizes" in line)
    assert "[1, 2, 3, 1, 2" in line
    assert ", …]" in line
    assert line.index("…") < 300


def test_without_bytes_the_answer_says_how_to_record_them():
    with tap.trace(hashes=True) as trace:
        torch.ones(3) * 2
    refused = tap.replay(only(trace, "aten::mul.Tensor"))
    assert "--level full" in refused.reason


def test_an_operator_whose_library_is_gone_is_refused():
    library = torch.library.Library("ttap_test_gone", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    with tap.trace(level="full") as trace:
        torch.ops.ttap_test_gone.twice(torch.ones(2))
    call = only(trace, "ttap_test_gone::twice")
    assert tap.replay(call).same_bits is True
    event = type(call)(**_renamed(call))
    vars(event)["_pass"] = vars(call)["_pass"]
    assert "import the library" in tap.replay(event).reason
    library._destroy()


def _renamed(call):
    return {name: value for name, value in vars(call).items() if name != "_pass"} | {"name": "ttap_test_never::twice"}


def test_an_event_knows_its_pass_and_is_still_a_plain_row():
    with tap.trace(level="full") as trace:
        torch.ones(3) * 2
    call = only(trace, "aten::mul.Tensor")
    copy = pickle.loads(pickle.dumps(call))
    assert copy == call
    assert "_pass" not in repr(call)
    with pytest.raises(ValueError, match="not read from a pass"):
        tap.replay(copy)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_call_is_made_in_another_dtype(dtype):
    a, b = torch.randn(8, 8), torch.randn(8, 8).bfloat16()
    with tap.trace(level="full") as trace:
        a.bfloat16() @ b
        torch.nn.functional.layer_norm(a, [8], eps=1e-3)
        torch.zeros(2, dtype=torch.float32) + torch.arange(2)
        torch.softmax(b, -1, dtype=torch.float32)
    (made,) = tap.replay(only(trace, "aten::mm"), dtype=dtype).tensors
    assert torch.equal(made.value, a.bfloat16().to(dtype) @ b.to(dtype))
    (norm, *_) = tap.replay(only(trace, "aten::native_layer_norm"), dtype=dtype).tensors
    assert torch.equal(norm.value, torch.nn.functional.layer_norm(a.to(dtype), [8], eps=1e-3))
    for op in ("aten::zeros", "aten::add.Tensor", "aten::_softmax"):
        (tensor,) = tap.replay(only(trace, op), dtype=dtype).tensors
        assert tensor.value.dtype == dtype
    (cast,) = tap.replay(next(e for e in trace.events if e.name == "aten::_to_copy"), dtype=dtype).tensors
    assert torch.equal(cast.value, a.to(dtype))  # the cast is the identity


def test_complex_numbers_follow_the_dtype_that_is_asked_for():
    x = torch.randn(4, dtype=torch.complex64)
    with tap.trace(level="full") as trace:
        x * 2
    call = only(trace, "aten::mul.Tensor")
    assert tap.replay(call, dtype=torch.float64).tensors[0].value.dtype == torch.complex128
    assert "no complex numbers of bfloat16" in tap.replay(call, dtype=torch.bfloat16).reason


@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64, torch.float8_e4m3fn])
def test_a_dtype_that_no_operator_computes_in_is_refused(dtype):
    with tap.trace(level="full") as trace:
        torch.ones(3) * 2
    with pytest.raises(ValueError, match=r"float64, torch\.float32, torch\.bfloat16, torch\.float16"):
        tap.replay(only(trace, "aten::mul.Tensor"), dtype=dtype)


def test_the_command_says_what_another_dtype_would_lose(tmp_path):
    torch.manual_seed(7)
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    with tap.trace(level="full") as trace:
        a @ b
    trace.save(tmp_path / "run")
    exact = a.double() @ b.double()
    error = (a.bfloat16() @ b.bfloat16()).double() - exact

    def size(tensor):
        return float(tensor.square().mean().sqrt())

    document, code = read_json("replay", tmp_path / "run", "aten::mm", "--dtype", "bf16", "--python", sys.executable)
    (one,) = document["in_precision"]
    assert code == 0
    assert (one["dtype"], one["path"]) == ("bf16", "")
    assert one["relative"] == pytest.approx(size(error) / size(exact), rel=1e-12)
    assert one["recorded"] == pytest.approx(size((a @ b).double() - exact) / size(exact), rel=1e-12)
    assert one["worst"] == list(divmod(int(error.abs().argmax()), 16))
    assert one["exact"] == exact[tuple(one["worst"])].item()
    text = run("replay", tmp_path / "run", "aten::mm", "--dtype", "bf16", "--python", sys.executable).stdout
    assert f"  in bf16   {one['relative']:.3g} of its size from the exact result, what was recorded" in text
    plain, _ = read_json("replay", tmp_path / "run", "aten::mm", "--python", sys.executable)
    assert plain["in_precision"] == []
    wrong = run("replay", tmp_path / "run", "aten::mm", "--dtype", "i8")
    assert (wrong.returncode, "bf16" in wrong.stderr) == (2, True)


def test_an_overflow_of_another_dtype_is_an_infinite_distance(tmp_path):
    with tap.trace(level="full") as trace:
        torch.full((4,), 300.0) * torch.full((4,), 300.0)
    trace.save(tmp_path / "run")
    document, _ = read_json(
        "replay", tmp_path / "run", "aten::mul.Tensor", "--dtype", "f16", "--python", sys.executable
    )
    assert document["in_precision"][0]["relative"] == "inf"
    assert document["in_precision"][0]["got"] == "inf"


# ---- models ----


@pytest.mark.parametrize("name", ["llama", "qwen3-moe", "gpt2", "bert", "deberta-v2", "t5", "convnext", "resnet"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_models_give_the_recorded_bits(name, dtype):
    """Forward and backward; what is not made again is uninitialised memory, and what was written into some of it."""
    of = architecture(name)
    model, inputs = of.model(1, dtype), of.sample(2, dtype)
    with tap.trace(model, level="full") as trace:
        made = model(**inputs)
        (made.logits if hasattr(made, "logits") else made[0]).float().square().mean().backward()
    again = [tap.replay(event) for event in trace.events if event.kind == "op"]
    refused = [each for each in again if isinstance(each, tap.NotReplayable)]
    assert {each.op.split("::")[1].split(".")[0] for each in refused} <= {
        "empty", "empty_like", "new_empty_strided", "index_put_"}  # fmt: skip
    counts = Counter(each.same_bits for each in again if isinstance(each, tap.Replayed))
    assert counts[True] > 100
    assert counts[False] <= 0.01 * counts[True]
