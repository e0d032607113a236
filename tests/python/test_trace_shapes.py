"""Traces of names and shapes alone, whose calls take a shorter way: what they keep is what the ordinary way keeps."""

import threading

import pytest
import tensortap as tap
import torch
from torch import nn
from traced_models import MODELS, loss_of

X = torch.arange(6.0).view(2, 3)


def kept_of(body, *, model=None, **options):
    """All that is kept but for time and thread; and the memory that takes, for the shorter way needs less."""
    with tap.trace(*([] if model is None else [model]), ids=False, **options) as trace:
        body()
    assert trace.counts["failed"] == trace.counts["no_room"] == 0
    records = trace.recorded.records

    def use_of(use):
        record = records[use.record]
        tensor = (record.key, record.event, record.dtype, record.shape, record.strides, record.device, record.level)
        return use.role, use.path, use.written, use.tensor, tensor

    kept = [
        (event.name, event.kind, event.call, event.parent, event.arguments, event.results, event.notes, event.forward,
         event.returned, [use_of(use) for use in event.uses])
        for event in trace
    ]  # fmt: skip
    return kept, trace.counts["bytes"]


def the_same_both_ways(make, *, model=None, takes_shorter_way=True):
    """Hooks need more of a call than names and shapes. `make` gives the work, done again for each way."""
    shorter, bytes_of_shorter = kept_of(make(), model=model)
    ordinary, bytes_of_ordinary = kept_of(make(), model=model, hooks=lambda *_: None)
    assert shorter == ordinary
    assert bytes_of_shorter < bytes_of_ordinary or not takes_shorter_way
    return shorter


@pytest.mark.parametrize("name", MODELS)
def test_of_a_training_step_both_ways_keep_the_same(name):
    model, args, kwargs = MODELS[name]()
    model.train()
    model(*args, **kwargs)  # buffers that the first pass makes

    def make():
        torch.manual_seed(0)  # of dropout
        model.zero_grad()
        return lambda: [loss_of(model(*args, **kwargs)).backward() for _ in range(2)]

    kept = the_same_both_ways(make, model=model)
    assert len(kept) > 40
    assert any(forward is not None for *_, forward, _, _ in kept)


def raising():
    with pytest.raises(RuntimeError):
        torch.mm(X, X)


UNUSUAL = {
    "a list of results": lambda: X.split(1),
    "a list of arguments": lambda: torch.cat([X, X]),
    "more tensors than the shorter way takes": lambda: torch.cat([X] * 20).unbind(),
    "a sparse result": lambda: X.to_sparse(),
    "a sparse argument": lambda: X.to_sparse().sum(),
    "an exception": raising,
    "a number": lambda: (X + 1.5, X.sum().item()),
    "lists of numbers": lambda: (X.view(3, 2), X.sum([0, 1]), nn.functional.pad(X, [1, 1])),
    "nothing defined": lambda: nn.functional.layer_norm(X, [3]),
    "in place": lambda: X.clone().add_(1),
    "into another": lambda: torch.add(X, 1, out=torch.empty(2, 3)),
    "no tensor": lambda: torch.zeros(3),
    "strides": lambda: X.t() + X.t(),
    "a scalar": lambda: torch.tensor(3.0) * 2,
    "no elements": lambda: torch.empty(0, 4).relu(),
    "complex": lambda: torch.view_as_real(X.to(torch.complex64).conj().resolve_conj()),
    "vmap": lambda: torch.vmap(lambda row: row * 2)(X),
    "a composite": lambda: nn.functional.linear(X, torch.ones(4, 3), torch.ones(4)),
    "a buffer with a name": lambda: nn.functional.batch_norm(X, torch.zeros(3), torch.ones(3), training=True),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_is_kept_as_well(what):
    # The first call of a name always takes the ordinary way.
    kept = the_same_both_ways(lambda: lambda: [UNUSUAL[what]() for _ in range(3)], takes_shorter_way=False)
    assert len(kept) >= 3


@pytest.fixture
def library():
    defined = torch.library.Library("ttap_shapes", "DEF")
    yield defined
    defined._destroy()


def test_what_runs_in_autograd_beneath_a_call_is_beneath_it(library):
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: torch.relu(torch.exp(x)), "Autograd")

    def work():
        x = X.clone().requires_grad_()
        for _ in range(3):
            torch.ops.ttap_shapes.twice(x).sum().backward()
        torch.exp(X)

    kept = the_same_both_ways(lambda: work)
    inner = [event for event in kept if event[0] in ("aten::relu", "aten::exp")][:-1]
    assert len(inner) == 6
    assert {kept[parent][0] for _, _, _, parent, *_ in inner} == {"ttap_shapes::twice"}
    assert kept[-1][3] is None


def test_a_composite_beneath_a_call_does_not_end_it(library):
    library.define("flat(Tensor x) -> Tensor")
    library.impl("flat", lambda x: torch.exp(x.contiguous().reshape(-1)), "Autograd")
    x = X.clone().requires_grad_()

    def work():
        for _ in range(3):
            torch.ops.ttap_shapes.flat(x)
        torch.sin(x)

    kept = the_same_both_ways(lambda: work)
    assert kept[-1][0] == "aten::sin"
    assert kept[-1][3] is None


class NoOperator(torch.autograd.Function):
    """Neither way runs an operator."""

    @staticmethod
    def forward(ctx, x):
        return 7

    @staticmethod
    def backward(ctx, gradient):
        return None


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None


@pytest.mark.parametrize("range_of", ["a function", "the engine"])
def test_a_range_of_autograd_beneath_a_call_does_not_end_it(library, range_of):
    x, one = X.clone().requires_grad_(), torch.ones(2, 3)
    prepared = []

    def note(x):
        if range_of == "a function":
            NoOperator.apply(x)
        else:
            torch.autograd.backward(prepared.pop(), one)
        torch.exp(x)

    library.define("note(Tensor x) -> ()")
    library.impl("note", note, "Autograd")
    library.define("outer(Tensor x) -> Tensor")
    library.impl("outer", lambda x: (torch.exp(x), torch.ops.ttap_shapes.note(x), torch.exp(x))[0], "Autograd")

    def make():
        prepared[:] = [NoGradient.apply(x) for _ in range(8)]

        def work():
            for _ in range(3):
                torch.ops.ttap_shapes.note(x)
            for _ in range(3):
                torch.ops.ttap_shapes.outer(x)
            torch.sin(x)

        return work

    kept = the_same_both_ways(make)
    assert kept[-1][0] == "aten::sin"


def test_a_composite_with_a_kernel_of_its_own_for_lists(library):
    library.define("both(Tensor[] xs) -> Tensor")
    library.impl("both", lambda xs: xs[0] + xs[1], "CompositeImplicitAutograd")
    library.impl("both", lambda xs: xs[0] - xs[1], "CPU")
    kept = the_same_both_ways(
        lambda: lambda: [torch.ops.ttap_shapes.both([X, X]) for _ in range(3)], takes_shorter_way=False
    )
    assert [event[0] for event in kept] == ["ttap_shapes::both"] * 3


@pytest.mark.parametrize("begins", ["before", "within"])
@pytest.mark.parametrize("ends", ["within", "after"])
def test_a_trace_that_begins_or_ends_within_a_call(library, begins, ends):
    trace = tap.trace(ids=False)
    calls = iter(range(3))
    last = 2  # those before are for the shorter way to be known

    def kernel(x):
        is_last = next(calls) == last
        if begins == "within" and is_last:
            trace.__enter__()
        y = x * 2
        if ends == "within" and is_last:
            trace.__exit__(None, None, None)
        return y

    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", kernel, "CPU")
    with tap.trace(ids=False) as around:
        torch.ops.aten.relu(X)
        if begins == "before":
            trace.__enter__()
            for _ in range(2):
                torch.relu(X)
        for _ in range(3):
            torch.ops.ttap_shapes.twice(X)
        for _ in range(2):
            torch.exp(X)
        if ends == "after":
            trace.__exit__(None, None, None)
    names = [event.name for event in trace]
    assert names.count("aten::relu") == (2 if begins == "before" else 0)
    assert names.count("aten::exp") == (2 if ends == "after" else 0)
    # What a trace sees first within a call is what a dispatch mode that begins there would see.
    assert names.count("aten::mul.Tensor") == (1 if begins == "within" else 0)
    assert trace.counts["failed"] == around.counts["failed"] == 0
    assert [event.name for event in around][-3:] == ["ttap_shapes::twice", "aten::exp", "aten::exp"]
    assert all(event.returned for event in around)


def test_threads_do_not_disturb_one_another():
    def work():
        for _ in range(200):
            torch.relu(X).sum()

    with tap.trace(ids=False) as trace:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [sum(name in event.name for event in trace) for name in ("relu", "sum")] == [800, 800]
    assert trace.counts["failed"] == 0
    assert all(event.returned and len(event.uses) == 2 for event in trace)
