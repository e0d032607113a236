"""A program computes the same bits when its own tensors are grafted into it, and when nothing is."""

import copy

import models
import pytest
import tensortap as tap
import torch
from test_record_changes_nothing import assert_same_bits, train
from torch import nn

FUNCTION = "self_attn.attn"  # of Transformers: a result that no hook sees


def keys_of(folder):
    """Of all results and arguments of modules."""
    recorded = tap.open(folder).ranks[0].passes[0]
    of_modules = {number for number, event in enumerate(recorded.events) if event.kind == "module"}
    return [each.key for each in recorded.records if each.event in of_modules and FUNCTION not in each.key]


def with_checkpoints(name, checkpointing):
    model, inputs = models.ALL[name]()
    if checkpointing is not None:
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing == "reentrant"})
        model.enable_input_require_grads() if hasattr(model, "enable_input_require_grads") else None
    return model, inputs


@pytest.mark.parametrize("checkpointing", [None, "reentrant", "non-reentrant"])
@pytest.mark.parametrize("name", ["minilm", "llama", "t5", "moe", "vit"])
def test_its_own_results_change_nothing_in_training(name, checkpointing, tmp_path):
    model, inputs = with_checkpoints(name, checkpointing)
    grafted = copy.deepcopy(model)
    with tap.record(model, tmp_path, modules="all", report=False):
        plain = train(model, inputs)
    with tap.graft(grafted, tmp_path, keys_of(tmp_path)) as graft:
        again = train(grafted, inputs)
    assert_same_bits(plain, again)
    assert graft.placed >= 70  # of moe, whose experts are not all called
    # All are put in, in both passes, but for caches, which are objects of the program.
    assert {str(key) for key in graft.keys if not key.ok and "cannot be copied" not in str(key)} == set()


@pytest.mark.parametrize("name", ["minilm", "llama", "t5", "moe", "vit"])
def test_its_own_arguments_change_no_bit_of_the_forward(name, tmp_path):
    model, inputs = models.ALL[name]()
    with tap.record(model, tmp_path, modules="all", roles="in", report=False), torch.no_grad():
        plain = list(model(**inputs).values())
    with tap.graft(model, tmp_path, keys_of(tmp_path)) as graft, torch.no_grad():
        again = list(model(**inputs).values())
    tensors = [(one, other) for one, other in zip(plain, again) if isinstance(one, torch.Tensor)]
    assert_same_bits(*map(list, zip(*tensors)))
    assert graft.placed > 35
    assert {str(key) for key in graft.keys if not key.ok and "cannot be copied" not in str(key)} == set()


def test_a_graft_of_nothing_that_is_met_changes_nothing(tmp_path):
    model, inputs = models.llama()
    other = nn.Sequential(nn.Linear(2, 2))
    with tap.record(other, tmp_path, report=False):
        other(torch.ones(2))
    plain = train(copy.deepcopy(model), inputs)
    with tap.graft(model, tmp_path, "0") as graft:
        again = train(model, inputs)
    assert_same_bits(plain, again)
    assert graft.keys[0].unmet == "no module of that name was called"


def test_hooks_are_gone_when_it_ends(tmp_path):
    model, inputs = models.llama()
    with tap.record(model, tmp_path, modules="all", report=False):
        model(**inputs)
    with tap.graft(model, tmp_path, "model.layers.0"):
        model(**inputs)
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
    assert not nn.modules.module._global_forward_hooks and not nn.modules.module._global_forward_pre_hooks


def test_an_exception_of_the_model_comes_through_and_the_next_pass_is_the_next(tmp_path):
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            if x.sum() < 0:
                raise ValueError("negative")
            return self.fc(x)

    torch.manual_seed(0)
    model, given = Picky(), [torch.ones(2), -torch.ones(2), 2 * torch.ones(2)]

    def call_all():
        outs = []
        for x in given:
            try:
                outs.append(model(x))
            except ValueError as error:
                outs.append(str(error))
        return outs

    with tap.record(model, tmp_path, report=False):
        right = call_all()
    model.fc.weight.data.zero_()
    with tap.graft(model, tmp_path, "fc") as graft:
        outs = call_all()
    assert graft.placed == 2 and outs[1] == "negative"
    assert torch.equal(outs[0], right[0]) and torch.equal(outs[2], right[2])


def test_a_layer_that_looks_at_its_hooks_computes_in_the_same_way(tmp_path):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)  # calls its parts, unless in eval()
    x = torch.randn(2, 3, 8)
    with tap.record(model, tmp_path, modules="all", roles=("in", "out"), report=False):
        right = model(x)
    keys = ["linear1", "linear2@in/0", "self_attn@in/key_padding_mask"]
    with tap.graft(model, tmp_path, [key for key in keys if key in tap.open(tmp_path).ranks[0].passes[0]]) as graft:
        assert torch.equal(model(x), right)
        fast = model.eval()(x)
    assert [key.placed for key in graft.keys] == [1, 1], str(graft)
    assert torch.equal(fast, model.eval()(x))


def test_memory_lies_as_it_did(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return x.t(), x[1:, ::2], x[:1].expand(4, 4), x.unfold(0, 2, 1), x[:0]

    model = nn.Sequential(Odd())
    x = torch.arange(16.0).view(4, 4)
    with tap.record(model, tmp_path, report=False):
        right = model(x)
    with tap.graft(model, tmp_path, "0") as graft:
        outs = model(x)
    assert graft.placed == 5, str(graft)
    for own, out in zip(right, outs, strict=True):
        assert torch.equal(own, out)
    for own, out in zip(right[:3], outs[:3], strict=True):
        assert own.stride() == out.stride() and own.data_ptr() % 64 == out.data_ptr() % 64
