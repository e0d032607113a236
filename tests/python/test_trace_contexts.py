"""A trace inside everything a program may be inside of, and everything inside a trace."""

import pytest
import torch
from small_net import FORWARD, Net
from tensortap.tracing import trace
from torch import nn
from torch.func import functional_call, grad, jvp, vmap
from torch.profiler import ProfilerActivity, profile
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset
from traced_calls import bits, names, only, ops, uses


def seen_by_debug_mode(function):
    with DebugMode() as mode:
        function()
    found = [call.op for call in mode.operators]
    return [f"aten::{op._schema.name.removeprefix('aten::')}" + (f".{op._overloadname}" if op._overloadname != "default"
            else "") for op in found]  # fmt: skip


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(3, 4)


# ---- modes of autograd ----


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_forward_under(context, model, x):
    with context(), trace(level="full") as t:
        y = model(x)
    assert ops(t) == FORWARD
    out = uses(t.events[-1], "out")[0].record
    assert bits(t.recorded[t.recorded.records[out].key]) == bits(y)


def test_tensors_of_inference_mode_are_known_again(model):
    with torch.inference_mode(), trace(hashes=True) as t:
        x = torch.ones(2)
        y = x + 1
        y.mul_(2)
        y + 1
    add, mul, last = t.events[1:]
    assert uses(mul, "in")[0].record == uses(add, "out")[0].record
    assert uses(last, "in")[0].record == uses(mul, "out")[0].record
    assert t.recorded.records[uses(last, "in")[0].record].stats["mean"] == 4


def test_autocast_shows_the_casts_and_the_operator_in_low_precision(model, x):
    def forward():
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            model(x).softmax(-1)

    with trace(level="full") as t:
        forward()
    assert ops(t) == seen_by_debug_mode(forward)
    addmm = next(event for event in t.events if event.name.endswith("addmm"))
    assert {t.recorded.records[use.record].dtype for use in addmm.uses} == {"bf16"}


def test_autocast_in_training(model, x):
    with trace(hashes=True) as t, torch.autocast("cpu", torch.bfloat16):
        loss = model(x).sum()
    with trace(hashes=True) as backward:
        loss.backward()
    assert t.counts["failed"] == backward.counts["failed"] == 0
    assert model.up.weight.grad is not None


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_shows_the_forward_again_in_the_backward(reentrant, model, x):
    x.requires_grad_()
    with trace() as t:
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert [name for name in names(t, "module") if name == "Net"] == ["Net", "Net"]
    forwards = [event for event in t.events if event.name == "up:aten::addmm"]
    assert len(forwards) == 2
    assert any(name.startswith("up:backward:") for name in names(t))
    plain = names_of_eager_backward(model, x)
    found = [name for name in names(t) if ":backward:" in name]
    assert set(plain) <= set(found)
    # Beside it only what the checkpoint itself does to its tensors.
    assert {name.rpartition(":")[2] for name in set(found) - set(plain)} <= {"detach", "view"}


def names_of_eager_backward(model, x):
    with trace() as t:
        model(x).sum().backward()
    return [name for name in names(t) if ":backward:" in name]


def test_gradients_have_the_same_bits(model, x):
    def gradients():
        model.zero_grad()
        model(x).square().sum().backward()
        return [bits(parameter.grad) for parameter in model.parameters()]

    plain = gradients()
    with trace(level="full", stacks=True):
        traced = gradients()
    assert traced == plain


def test_gradients_that_are_added_up_belong_to_the_backward():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    loss = (y.sin() + y.cos()).sum()
    with trace() as t:
        loss.backward()
    assert [name for name in names(t) if "aten::add" in name] == ["backward:aten::add_.Tensor"]


# ---- transforms ----


def waves(x):
    return (x.sin() * x).sum()


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: vmap(waves)(x), id="vmap"),
        pytest.param(lambda x: grad(waves)(x[0]), id="grad"),
        pytest.param(lambda x: vmap(grad(waves))(x), id="vmap of grad"),
        pytest.param(lambda x: jvp(waves, (x[0],), (x[1],)), id="jvp"),
    ],
)
def test_a_transform_shows_what_it_runs(function, x):
    with trace(hashes=True) as t:
        function(x)
    assert not [event for event in t.events if "unread" in event.notes]
    # A mode sees more of forward derivatives than runs without one.
    assert set(ops(t)) <= set(seen_by_debug_mode(lambda: function(x)))
    assert "aten::sin" in ops(t)


@pytest.mark.parametrize("function", [vmap(waves), vmap(grad(waves)), lambda x: grad(waves)(x[0]),
                                      lambda x: jvp(waves, (x[0],), (x[1],))[1]])  # fmt: skip
def test_a_transform_has_the_same_bits(function, x):
    plain = function(x)
    with trace(level="full") as t:
        traced = function(x)
    assert bits(traced) == bits(plain)
    assert t.counts["failed"] == 0


def test_functional_call_has_the_names_of_the_module(model, x):
    with trace() as t:
        functional_call(model, {name: value * 2 for name, value in model.named_parameters()}, (x,))
    assert "up:aten::addmm" in names(t)
    assert "down:aten::addmm" in names(t)


# ---- modules ----


class Raising(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        torch.sin(x)
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["ValueError", "KeyboardInterrupt"])
def test_a_module_that_raises_is_left(error, model, x):
    with trace({"raising": Raising(error), "net": model}) as t:
        for module in (nn.Sequential(Raising(error)), Raising(error)):
            with pytest.raises(type(error)):
                module(x)
        model(x)
        torch.cos(x)
    assert "net.up:aten::addmm" in names(t)
    assert names(t)[-1] == "aten::cos"
    last = t.events[-1]
    assert last.parent is None
    (net,) = (event for event in t.events if event.kind == "module" and event.name == "net")
    assert net.parent is None


class Deep(nn.Module):
    """Calls itself."""

    def forward(self, x, depth):
        return torch.sin(x) if depth == 0 else self(x, depth - 1) + 1


def test_a_module_that_calls_itself(x):
    with trace() as t:
        Deep()(x, 3)
    modules = [event for event in t.events if event.kind == "module"]
    assert [event.call for event in modules] == [1, 2, 3, 4]
    assert [event.parent for event in modules] == [None, 0, 1, 2]
    sin = only(t, "Deep:aten::sin")
    assert t.events[sin.parent].call == 4
    adds = [event for event in t.events if event.name == "Deep:aten::add.Tensor"]
    assert [t.events[event.parent].call for event in adds] == [3, 2, 1]


def test_generators_work_where_they_are_resumed(x):
    def rows(x):
        for row in x:
            yield torch.sin(row)

    class Sum(nn.Module):
        def forward(self, rows):
            return sum(row * 2 for row in rows)

    made = rows(x)
    with trace(stacks=True) as t:
        next(made)
        Sum()(made)
    sins = [event for event in t.events if event.name.endswith("aten::sin")]
    assert [event.name for event in sins] == ["aten::sin", "Sum:aten::sin", "Sum:aten::sin"]
    assert all(".rows\t" in event.stack.splitlines()[-1] for event in sins)
    assert any("Sum.forward\t" in frame for frame in sins[1].stack.splitlines())


# ---- others who listen ----


def test_the_profiler_sees_everything_beside_a_trace(model, x):
    with profile(activities=[ProfilerActivity.CPU]) as alone, torch.no_grad():
        model(x)
    with profile(activities=[ProfilerActivity.CPU]) as beside, trace(hashes=True) as t, torch.no_grad():
        model(x)
    operators = [[event.name for event in each.events() if event.name.startswith("aten::")] for each in (alone, beside)]
    assert operators[0] == operators[1]
    assert ops(t) == FORWARD


def test_a_dispatch_mode_sees_everything_beside_a_trace(model, x):
    class Listing(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Listing() as alone, torch.no_grad():
        model(x)
    with Listing() as beside, trace(hashes=True) as t, torch.no_grad():
        model(x)
    with trace(hashes=True) as outside, Listing() as inside, torch.no_grad():
        model(x)
    assert alone.seen == beside.seen == inside.seen
    assert ops(t) == ops(outside) == FORWARD


def test_scripted_modules(x):
    scripted = torch.jit.script(Net())
    for _ in range(3):  # profiled, then optimised
        plain = scripted(x)
    with trace(hashes=True) as t:
        traced = scripted(x)
    assert bits(plain) == bits(traced)
    assert "aten::relu" in ops(t)
    assert t.counts["failed"] == 0


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((2,), float(index)) * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders_give_the_same(workers):
    with trace(hashes=True) as t:
        batches = list(DataLoader(Numbers(), batch_size=4, num_workers=workers))
        torch.cos(batches[0])
    assert torch.cat(batches)[:, 0].tolist() == [2.0 * i for i in range(8)]
    assert "aten::cos" in ops(t)
    assert t.counts["failed"] == 0


def test_an_optimiser_steps_to_the_same_bits(x):
    def trained(listening):
        torch.manual_seed(0)
        model = Net()
        optimiser = torch.optim.AdamW(model.parameters(), foreach=True)
        for _ in range(3):
            optimiser.zero_grad()
            with trace(level="full", stacks=True) if listening else torch.enable_grad():
                model(x).square().sum().backward()
                optimiser.step()
        return [bits(parameter) for parameter in model.parameters()]

    assert trained(True) == trained(False)
