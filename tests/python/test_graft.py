"""Tensors of one run put into another run of the program: which, where, and what is said of the others."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import tensortap as tap
import torch
from small_models import Model
from torch import nn
from torch.utils.checkpoint import checkpoint


def record(model, folder, *inputs, **options):
    with tap.record(model, folder, modules="all", roles=("out", "in"), report=False, **options):
        return [model(x) for x in inputs]


def seeded(kind=Model, seed=0):
    torch.manual_seed(seed)
    return kind()


def inputs(count=1):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(5, 4, generator=generator) for _ in range(count)]


@pytest.fixture
def good(tmp_path):
    """A run of three passes."""
    record(seeded(), tmp_path / "good", *inputs(3))
    return tmp_path / "good"


def value(folder, key, number=0):
    return tap.open(folder).ranks[0].passes[number][key]


def same_bits(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(
        left.detach().contiguous().view(-1).view(torch.uint8), right.detach().contiguous().view(-1).view(torch.uint8)
    )  # fmt: skip


# ---- what is put in ----


def test_the_result_of_a_module_takes_the_place_of_the_programs_own(good):
    wrong = seeded(seed=1)
    with tap.graft(wrong, good, "blocks.1") as grafted:
        seen = []
        wrong.blocks[1].register_forward_hook(lambda module, args, output: seen.append(output))
        wrong(inputs()[0])
    assert same_bits(seen[0], value(good, "blocks.1"))
    assert grafted.ok and grafted.placed == 1 and str(grafted) == "blocks.1: put in once"


def test_what_comes_after_it_computes_with_it(good):
    wrong = seeded()
    wrong.head.weight.data.mul_(1.5)
    with tap.graft(wrong, good, "head"):
        out = wrong(inputs()[0])
    assert same_bits(out, value(good, "Model"))


def test_an_argument_of_a_module_is_put_in_before_it_runs(good):
    wrong = seeded()
    wrong.blocks[0].up.weight.data.zero_()
    with tap.graft(wrong, good, "blocks.1@in/0") as grafted:
        x = inputs()[0]
        wrong.blocks[1].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
        seen = []
        wrong(x)
    assert same_bits(seen[0], value(good, "blocks.1@in/0"))
    assert grafted.placed == 1


def test_each_pass_is_given_its_own_tensor(good):
    wrong = seeded(seed=1)
    with tap.graft(wrong, good, ["head"]) as grafted:
        results = [wrong(x) for x in inputs(3)]
    assert [same_bits(out, value(good, "head", number)) for number, out in enumerate(results)] == [True] * 3
    assert grafted.placed == 3


def test_a_name_stands_for_all_its_calls_and_a_key_for_one(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(self.fc(x))

    class Pair(nn.Module):
        def forward(self, x):
            return x + 1, {"two": x + 2}

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.twice, self.pair = Twice(), Pair()

        def forward(self, x):
            return self.pair(self.twice(x))

    record(seeded(Both), tmp_path, inputs()[0])
    wrong = seeded(Both, 1)
    with tap.graft(wrong, tmp_path, ["twice.fc::call2", "pair"]) as grafted:
        one, two = wrong(inputs()[0])
    assert [key.placed for key in grafted.keys] == [1, 2]
    assert same_bits(one, value(tmp_path, "pair/0")) and same_bits(two["two"], value(tmp_path, "pair/1/two"))
    with tap.graft(wrong, tmp_path, "twice.fc") as grafted:
        wrong(inputs()[0])
    assert grafted.placed == 1  # the first call alone has exactly this key


def test_a_name_stands_for_every_call_of_a_module_with_several_results(tmp_path):
    class Pair(nn.Module):
        def forward(self, x):
            return x + 1, x + 2

    class Twice(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.pair, self.by = Pair(), by

        def forward(self, x):
            first = self.pair(x * self.by)
            return torch.cat([*first, *self.pair(first[1] * self.by)])

    record(Twice(1.0), tmp_path, inputs()[0])
    wrong = Twice(3.0)
    with tap.graft(wrong, tmp_path, "pair") as grafted:
        out = wrong(inputs()[0])
    assert (grafted.placed, grafted.ok) == (4, True)
    assert same_bits(out, value(tmp_path, "Twice"))


Named = namedtuple("Named", "first second")


@dataclass
class Data:
    hidden: torch.Tensor
    note: str = "kept"


@pytest.mark.parametrize(
    ("wrap", "read", "key"),
    [
        (lambda x: (x, [x + 1, "text"]), lambda out: out[1][0], "returns/1/0"),
        (lambda x: Named(x, 3), lambda out: out.first, "returns/first"),
        (lambda x: Data(x), lambda out: out.hidden, "returns/hidden"),
        (lambda x: {"deep": {"er": x}}, lambda out: out["deep"]["er"], "returns/deep/er"),
    ],
)
def test_a_tensor_inside_a_result_is_replaced_in_a_copy_of_it(wrap, read, key, tmp_path):
    made = []

    class Keeps(nn.Module):
        def forward(self, x):
            made.append(wrap(x))
            return made[-1]

    model = nn.ModuleDict({"returns": Keeps()})
    model.forward = lambda x: model["returns"](x)
    record(model, tmp_path, torch.ones(3))
    with tap.graft(model, tmp_path, key) as grafted:
        out = model(torch.zeros(3))
    assert grafted.ok, str(grafted)
    assert type(out) is type(made[-1])
    assert same_bits(read(out), value(tmp_path, key)) and not same_bits(read(made[-1]), value(tmp_path, key))


class InPlace(nn.Module):
    """Goes on with what its ReLU has written to, and not with what it returned."""

    def __init__(self):
        super().__init__()
        self.fc, self.relu = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.fc(x)
        self.relu(x)
        return x


def test_what_a_module_writes_to_in_place_is_written_to(tmp_path):
    record(seeded(InPlace), tmp_path, *inputs())
    wrong = seeded(InPlace, 1)
    with tap.graft(wrong, tmp_path, "relu") as grafted:
        out = wrong(inputs()[0])
        out.sum().backward()
    assert grafted.ok and same_bits(out, value(tmp_path, "relu"))
    positive = (value(tmp_path, "relu") > 0).float()
    assert torch.equal(wrong.fc.bias.grad, positive.sum(0))  # as though the ReLU had computed it


def test_what_a_module_only_passes_on_stays_as_it_is_elsewhere(tmp_path):
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout()

        def forward(self, x):
            return self.drop(x) - x

    record(Residual().eval(), tmp_path, torch.ones(3))
    model = Residual().eval()
    with tap.graft(model, tmp_path, "drop"):
        assert model(torch.zeros(3)).tolist() == [1, 1, 1]


# ---- gradients ----


def trained(model, x, folder=None, keys=()):
    """The result and all gradients."""
    if folder is None:
        out = model(x)
    else:
        with tap.graft(model, folder, keys) as grafted:
            out = model(x)
        assert grafted.ok, str(grafted)
    out.square().sum().backward()
    return [out, *(parameter.grad for parameter in model.parameters())]


def test_gradients_go_where_they_would_have_gone(good):
    wrong = seeded()
    wrong.blocks[1].down.bias.data.add_(1)
    grads = trained(wrong, inputs()[0], good, ["blocks.1.down"])
    right = trained(seeded(), inputs()[0])
    assert all(same_bits(left, other) for left, other in zip(grads, right, strict=True))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_call_is_given_the_same(reentrant, tmp_path):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(lambda y: self.second(torch.tanh(self.first(y))), x, use_reentrant=reentrant)

    x = inputs()[0].requires_grad_()
    record(seeded(Checkpointed), tmp_path, x)
    right = trained(seeded(Checkpointed), x)
    wrong = seeded(Checkpointed)
    wrong.first.bias.data.add_(1)
    with tap.graft(wrong, tmp_path, "first") as grafted:
        out = wrong(x)
        out.square().sum().backward()
    assert grafted.placed == 2  # once in the forward, once in the backward
    grads = [out, *(parameter.grad for parameter in wrong.parameters())]
    assert all(same_bits(left, other) for left, other in zip(grads, right, strict=True))


# ---- together with a recording ----


@pytest.mark.parametrize("graft_first", [True, False])
def test_a_recording_sees_what_was_put_in_whichever_began_first(graft_first, good, tmp_path):
    wrong = seeded(seed=1)
    makers = [
        lambda: tap.graft(wrong, good, ["blocks.0", "blocks.1.down@in/0"]),
        lambda: tap.record(wrong, tmp_path / "seen", modules="all", roles=("in", "out"), report=False),
    ]
    first, second = makers if graft_first else makers[::-1]
    with first(), second():
        wrong(inputs()[0])
    for key in "blocks.0", "blocks.1.down@in/0":
        assert same_bits(value(tmp_path / "seen", key), value(good, key)), key
    assert not same_bits(value(tmp_path / "seen", "blocks.0.down"), value(good, "blocks.0.down"))


# ---- what is not put in ----


def test_a_pass_that_was_not_recorded_is_counted(good):
    model = seeded()
    with tap.graft(model, good, "head") as grafted:
        for x in inputs(5):
            model(x)
    assert not grafted.ok and grafted.placed == 3
    assert dict(grafted.keys[0].refused) == {
        f"pass 3 of this program is not in {good}": 1,
        f"pass 4 of this program is not in {good}": 1,
    }


def test_another_shape_is_refused_and_another_dtype_is_cast_and_said(good):
    model = seeded()
    with tap.graft(model, good, "head") as grafted:
        model(inputs()[0][:2])
        out = model.bfloat16()(inputs()[0].bfloat16())
    assert str(grafted) == (
        "head: put in once; 1 f32 as bf16; "
        "not put in once: its shape is [5, 3] in the recording and [2, 3] here"
    )  # fmt: skip
    assert same_bits(out, value(good, "head", 1).bfloat16())


def test_a_whole_number_is_no_float(tmp_path):
    class Counts(nn.Module):
        def forward(self, x):
            return x

    record(nn.Sequential(Counts()), tmp_path, torch.ones(3, dtype=torch.long))
    with tap.graft(model := nn.Sequential(Counts()), tmp_path, "0") as grafted:
        model(torch.ones(3))
    assert dict(grafted.keys[0].refused) == {"its dtype is i64 in the recording and f32 here": 1}


def test_a_module_that_is_never_called_is_said_with_the_reason(good):
    model = seeded()
    model.forward = lambda x: model.blocks[0].up.forward(x)
    with tap.graft(model, good, ["head", "blocks.0"]) as grafted:
        model(inputs()[0])
    # What torch.compile did earlier in this process decides whether it goes on "or inside a compiled region".
    assert [key.unmet.startswith("never called") for key in grafted.keys] == [True, True]
    assert not grafted.ok and str(grafted).startswith("head: not met: never called")


def test_a_module_inside_compiled_code_is_said(good, nothing_compiled):
    model = torch.compile(seeded(), backend="eager")
    with tap.graft(model, good, "blocks.0") as grafted:
        model(inputs()[0])
    assert grafted.keys[0].unmet == "inside a compiled region"


def test_a_tensor_of_torch_func_is_refused(good):
    model = seeded()
    with tap.graft(model, good, "head") as grafted:
        torch.func.vmap(model)(inputs()[0])
    assert dict(grafted.keys[0].refused) == {"it is a tensor within vmap or grad of torch.func": 1}


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ("heat", KeyError, "heat is not in .*; near it: .*head"),
        ([], ValueError, "no key is given"),
    ],
)
def test_a_key_that_is_not_there_is_an_error(key, error, text, good):
    with pytest.raises(error, match=text):
        tap.graft(seeded(), good, key)


def test_a_tensor_without_bytes_is_an_error(tmp_path):
    record(seeded(), tmp_path, *inputs(), level="sketch")
    with pytest.raises(
        ValueError, match=r'head of .* cannot be grafted: its bytes were not kept: record with level="full"'
    ):
        tap.graft(seeded(), tmp_path, "head")


def test_what_is_no_result_and_no_input_is_an_error(tmp_path):
    with tap.record(model := seeded(), tmp_path, roles="param", report=False):
        model(inputs()[0])
    with pytest.raises(ValueError, match="cannot be grafted: it is param"):
        tap.graft(model, tmp_path, "head@param/weight")


def test_rows_of_several_requests_are_an_error(tmp_path):
    model = seeded()
    with tap.record(model, tmp_path, report=False):
        tap.batch(request_ids=["a", "b"], positions=torch.tensor([0, 1, 2, 0, 1]), query_start=[0, 3, 5])
        model(inputs()[0])
    with pytest.raises(ValueError, match="rows of several requests"):
        tap.graft(model, tmp_path, "head")


def test_as_many_processes_must_have_recorded(good, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="was recorded by one process, and this program has 2 processes"):
        tap.graft(seeded(), good, "head")


# ---- across other names ----


class Port(nn.Module):
    """The model with other names."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"fc1": nn.Linear(4, 8), "fc2": nn.Linear(8, 4)}) for _ in range(2))
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["fc2"](torch.relu(layer["fc1"](x)))
        return self.classifier(x)


def ported(model):
    port = Port()
    weights = model.state_dict()
    for number in 0, 1:
        for own, name in ("fc1", "up"), ("fc2", "down"):
            for part in "weight", "bias":
                getattr(port.layers[number][own], part).data.copy_(weights[f"blocks.{number}.{name}.{part}"])
    for part in "weight", "bias":
        getattr(port.classifier, part).data.copy_(weights[f"head.{part}"])
    return port


def test_keys_go_where_the_diff_finds_their_counterparts(good, tmp_path):
    wrong = ported(seeded())
    wrong.layers[1].fc2.bias.data.add_(0.25)
    record(wrong, tmp_path / "bad", *inputs(3))
    with tap.graft(wrong, good, "blocks.1.down", names_of=tmp_path / "bad") as grafted:
        record(wrong, tmp_path / "grafted", *inputs(3))
    assert grafted.placed == 3, str(grafted)
    assert same_bits(value(tmp_path / "grafted", "layers.1.fc2"), value(good, "blocks.1.down"))
    assert tap.removed_error(good, tmp_path / "bad", tmp_path / "grafted") == 1


def test_names_that_are_the_same_are_their_own_counterparts(good, tmp_path):
    wrong = seeded()
    wrong.blocks[0].up.bias.data.add_(0.25)
    record(wrong, tmp_path / "bad", *inputs(3))
    with tap.graft(wrong, good, ["blocks.0.up", "blocks.1@in/0"], names_of=tmp_path / "bad") as grafted:
        wrong(inputs()[0])
    assert [key.placed for key in grafted.keys] == [1, 1], str(grafted)


def test_a_key_without_a_counterpart_is_an_error(good, tmp_path):
    other = nn.Sequential(nn.Flatten(), nn.Softmax(-1))
    record(other, tmp_path / "other", *inputs())
    with pytest.raises(KeyError, match=r"blocks.0.up of .* has no counterpart in .*: see ttap diff --matches"):
        tap.graft(other, good, "blocks.0.up", names_of=tmp_path / "other")


# ---- how much of the error it removes ----


def test_the_share_of_the_error_that_is_gone():
    right = torch.tensor([1.0, 2.0])
    wrong = right + torch.tensor([3.0, 4.0])
    assert tap.removed_error(right, wrong, right) == 1
    assert tap.removed_error(right, wrong, wrong) == 0
    assert tap.removed_error(right * 1j, wrong * 1j, right * 1j) == 1
    assert tap.removed_error(right, wrong, right + 0.5) == pytest.approx(1 - 0.5**0.5 / 5)
    assert tap.removed_error(right, wrong, right + 100) < 0
    assert tap.removed_error(right, torch.tensor([torch.nan, 2.0]), torch.tensor([1.0, 2.0])) == 1
    assert tap.removed_error(right, torch.tensor([torch.nan, torch.inf]), torch.tensor([1.0, torch.inf])) == (
        pytest.approx(1 - 0.5**0.5)
    )


def test_the_output_of_all_passes_counts(good, tmp_path):
    wrong = seeded()
    wrong.blocks[0].down.bias.data.add_(0.1)
    record(wrong, tmp_path / "bad", *inputs(3))
    with tap.graft(wrong, good, "blocks.0"):
        record(wrong, tmp_path / "grafted", *inputs(2))
        record(wrong, tmp_path / "grafted", *inputs(3)[2:], append=True)
    assert tap.removed_error(good, tmp_path / "bad", tmp_path / "grafted") == 1
    assert tap.removed_error(good, tmp_path / "bad", tmp_path / "grafted", key="blocks.0.down") == 0


def test_without_an_error_there_is_nothing_to_remove(good):
    with pytest.raises(ValueError, match="there is no error to remove"):
        tap.removed_error(good, good, good)
    with pytest.raises(ValueError, match="no output with its bytes in a common pass"):
        tap.removed_error(good, good, good, key="tail")
    with pytest.raises(TypeError, match="three recordings or three tensors"):
        tap.removed_error(good, torch.ones(1), good)
    with pytest.raises(ValueError, match=r"the outputs have the shapes \[1\], \[2\], \[1\]"):
        tap.removed_error(torch.ones(1), torch.ones(2), torch.ones(1))
