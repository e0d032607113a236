"""What a trace keeps of one call: its arguments and results, the values before and after, what it calls."""

import pytest
import tensortap as tap
import torch
from op_sequences import Bystander, of_debug_mode, of_trace, op_of
from torch import nn

X = torch.arange(6.0).view(2, 3)


def ops(trace, name=""):
    return [event for event in trace if event.kind == "op" and name in event.name]


def value(trace, use):
    """The bytes of a use."""
    return trace.recorded._tensor(use.record)


def test_at_level_full_the_bytes_are_those_of_the_tensors():
    with tap.trace(level="full") as trace:
        y = X.t().contiguous()
        z = y.to(torch.bfloat16)
        w = torch.where(y > 2, y, float("nan"))
    by_name = {op_of(event.name): event for event in trace}
    assert torch.equal(value(trace, by_name["aten.t.default"].uses[0]), X)
    assert torch.equal(value(trace, by_name["aten.t.default"].uses[-1]), X.t())
    assert torch.equal(value(trace, by_name["aten.clone.default"].uses[-1]), y)
    assert torch.equal(value(trace, by_name["aten._to_copy.default"].uses[-1]), z)
    (where,) = ops(trace, "where")
    assert torch.equal(value(trace, where.uses[-1]).isnan(), w.isnan())


def test_who_made_what_is_known():
    with tap.trace() as trace:
        y = X + 1
        z = y * 2
        y + z
    add, mul, last = trace.events
    records = trace.recorded.records
    assert records[add.uses[0].record].role == "in"  # from outside
    assert mul.uses[0].record == add.uses[-1].record
    assert [use.record for use in last.uses[:2]] == [add.uses[-1].record, mul.uses[-1].record]
    assert records[mul.uses[-1].record].event == 1


def test_an_op_in_place_shows_the_value_before_and_after():
    x = X.clone()
    with tap.trace(level="full") as trace:
        x.add_(1)
        x.mul_(3)
    add, mul = trace.events
    before, after = add.uses
    assert (before.role, before.written, after.role) == ("in", True, "out")
    assert before.tensor == after.tensor
    assert torch.equal(value(trace, before), X)
    assert torch.equal(value(trace, after), X + 1)
    assert mul.uses[0].record == after.record
    assert torch.equal(value(trace, mul.uses[1]), (X + 1) * 3)
    assert "aten::add_.Tensor(t$0: f32[2, 3]!, 1) -> t$0: f32[2, 3]" in str(trace)


def test_a_write_through_a_view_changes_what_it_is_a_view_of():
    x = X.clone()
    with tap.trace(level="full") as trace:
        row = x[0]
        row.zero_()
        x.sum()
    total = ops(trace, "sum")[0]
    assert torch.equal(value(trace, total.uses[0]), torch.tensor([[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]]))


def test_an_op_with_out_shows_which_argument_it_wrote():
    out = torch.full((2, 3), 9.0)
    with tap.trace(level="full") as trace:
        torch.add(X, 1, out=out)
    (event,) = ops(trace, "add")
    assert [use.path for use in event.uses if use.written] == ["/out"]
    written = next(use for use in event.uses if use.path == "/out")
    assert trace.recorded.records[written.record].hash is None  # what it held before is nobody's argument
    assert torch.equal(value(trace, event.uses[-1]), X + 1)
    assert event.uses[-1].tensor == written.tensor


def test_lists_that_are_written_and_not_returned_are_recorded_after_the_call():
    a, b = X.clone(), X + 1
    with tap.trace(level="full") as trace:
        torch._foreach_add_([a, b], 2.0)
    (event,) = trace.events
    after = [use for use in event.uses if use.role == "after"]
    assert [use.path for use in after] == ["/0/0", "/0/1"]
    assert torch.equal(value(trace, after[0]), X + 2)
    assert torch.equal(value(trace, after[1]), X + 3)
    assert event.results == ""


@pytest.mark.parametrize(
    ("call", "arguments", "results"),
    [
        (lambda: X.add(X, alpha=2), "%0, %1, alpha=2", "%2"),
        (lambda: X.sum(), "%0", "%1"),
        (lambda: X.sum(dim=(0, 1), keepdim=True), "%0, [0, 1], True", "%1"),
        (lambda: X.clamp(max=2.5), "%0, None, 2.5", "%1"),
        (lambda: torch.cat([X, X], 1), "[%0, %1], 1", "%2"),
        (lambda: X.topk(2), "%0, 2", "(%1, %2)"),
        (lambda: X.split(2, 1), "%0, 2, 1", "[%1, %2]"),
        (lambda: X.mul(float("nan")), "%0, nan", "%1"),
        (lambda: X.mul(1e-12), "%0, 1e-12", "%1"),
        (lambda: X.mul(1 - 2j), "%0, (1-2j)", "%1"),
        (lambda: torch.div(X, 2, rounding_mode="floor"), "%0, 2, rounding_mode='floor'", "%1"),
        (lambda: X.sum().item(), "%0", "15.0"),
        (lambda: torch.equal(X, X), "%0, %1", "True"),
        (lambda: X.to(torch.int8), "%0, dtype=torch.int8", "%1"),
        (lambda: torch.zeros(2, layout=torch.strided), "[2], layout=torch.strided, device=cpu, pin_memory=False", "%0"),
    ],
)  # fmt: skip
def test_arguments_are_written_as_python_writes_them(call, arguments, results):
    with tap.trace() as trace:
        call()
    last = trace.events[-1]
    assert (last.arguments, last.results) == (arguments, results)


def test_an_index_that_is_none_keeps_its_place():
    index = torch.tensor([0, 1])
    with tap.trace() as trace:
        X[:, index]
    (event,) = ops(trace, "index")
    assert event.arguments == "%0, [None, %1]"
    assert event.uses[1].path == "/1/1"


def test_memory_that_was_only_reserved_is_not_read():
    with tap.trace(hashes=True) as trace:
        torch.empty(4)
    (event,) = trace.events
    assert event.notes["unread"] == {"out": "not initialised"}
    assert trace.recorded.records[0].hash is None


# ---- views ----


def test_the_view_all_shows_what_an_operator_calls_below_it():
    with tap.trace(view="all") as trace:
        nn.functional.linear(X, torch.ones(2, 3))
    names = [op_of(event.name) for event in trace]
    linear = names.index("aten.linear.default")
    assert trace.events[names.index("aten.t.default")].parent == linear
    assert trace.events[names.index("aten.transpose.int")].parent == names.index("aten.t.default")
    assert "  aten::t(" in str(trace)


def test_the_view_leaf_shows_those_that_call_no_other():
    def names(view):
        with tap.trace(view=view) as trace:
            nn.functional.linear(X, torch.ones(2, 3))
        return trace

    everything, leaves = names("all"), names("leaf")
    parents = {event.parent for event in everything}
    assert of_trace(leaves) == [op_of(e.name) for i, e in enumerate(everything) if i not in parents]
    assert "aten.linear.default" not in of_trace(leaves)
    assert leaves.recorded.info["drops"]["events"] == 0


# ---- what a dispatch mode sees of it ----


@pytest.mark.parametrize("name", ["div_", "pack"])
def test_what_autograd_calls_on_behalf_of_an_operator_is_shown(name):
    a, b = (X + 1).requires_grad_(), (X + 2).requires_grad_()

    def div_():  # saves a copy of what it writes to
        (a * 1).div_(b)

    def pack():
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.to(torch.float64), lambda saved: saved):
            a.sin()

    body = {"div_": div_, "pack": pack}[name]
    with tap.trace() as trace:
        body()
    assert sorted(of_trace(trace)) == sorted(of_debug_mode(body))


C = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
LAZY = {
    "conjugate": lambda: C.conj().exp(),
    "both": lambda: C.conj() + C.mH,
    "negative": lambda: C.conj().imag.exp(),
    "in place": lambda: C.clone().conj().mul_(2),
    "taken as it is": lambda: C.mH @ C,
    "of a kernel with views of its own": lambda: torch.linalg.svd(C.mH),
    "backward": lambda: C.clone().requires_grad_().conj().exp().abs().sum().backward(),
}


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("name", LAZY)
def test_the_copies_of_lazy_views_are_shown(name, ids):
    with Bystander() as mode, tap.trace(ids=ids) as trace:
        LAZY[name]()
    assert sorted(of_trace(trace)) == sorted(mode.seen)


def test_what_is_copied_back_into_a_lazy_view_is_the_result():
    y = C.clone().conj()
    with tap.trace(hashes=True) as trace:
        y.exp_()
    (copy,) = [event for event in trace if event.name == "aten::copy_"]
    records = trace.recorded.records
    source, result = (records[use.record].hash for use in copy.uses[1:3])
    assert source == result


NESTED = {
    "linear": lambda nested: nn.functional.linear(nested, torch.ones(3, 3)),
    "matmul": lambda nested: torch.matmul(nested, nested.transpose(1, 2)),
    "chunk": lambda nested: nested.chunk(2, -1),
    "reshape": lambda nested: nested.reshape(2, -1, 4, 1),
    "softmax": lambda nested: torch.softmax(nested, -1),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", NESTED)
def test_what_has_a_kernel_for_nested_tensors_is_not_looked_through(name):
    width = 3 if name in ("linear", "matmul") else 4
    nested = torch.nested.nested_tensor([torch.ones(2, width), torch.ones(3, width)])
    with Bystander() as mode, tap.trace() as trace:
        NESTED[name](nested)
    assert of_trace(trace) == mode.seen


@pytest.mark.parametrize("key", ["Autograd", "AutogradCPU", "ADInplaceOrView"])
def test_what_a_kernel_above_a_dispatch_mode_calls_is_shown(key):
    library = torch.library.Library("ttap_above", "FRAGMENT")
    library.define("f(Tensor a) -> Tensor")
    library.impl("f", lambda a: a.sin().cos(), key)
    library.impl("f", lambda a: a.clone(), "CPU")
    try:
        with tap.trace() as trace:
            torch.ops.ttap_above.f(X)
    finally:
        library._destroy()
    assert of_trace(trace) == ["aten.sin.default", "aten.cos.default", "ttap_above.f.default"]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_what_an_operator_calls_on_threads_of_its_own_is_hidden():
    query = torch.ones(2, 4, 7, 8, requires_grad=True)

    def body():
        nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()

    with tap.trace() as trace:
        body()
    assert "aten.empty.memory_format" not in of_trace(trace)
    assert len({event.thread for event in trace}) == 1


@pytest.mark.parametrize("view", ["dispatch", "all", "leaf"])
def test_in_every_view_each_tensor_has_its_shape(view):
    with tap.trace(view=view) as trace:
        nn.functional.linear(X, torch.ones(2, 3), torch.ones(2)).sum().item()
    assert all(use.record is not None for event in trace for use in event.uses)


def test_an_operator_that_is_defined_again_is_the_new_one():
    """Its name may well come to lie where the old one's was."""
    x = torch.ones(4)
    definitions = [
        ("f(Tensor a) -> Tensor", lambda a: a + 1, [x]),
        ("f(Tensor a, Tensor b) -> (Tensor, Tensor)", lambda a, b: (a + 1, b + 1), [x, x]),
    ]
    with tap.trace() as trace:
        for schema, function, arguments in definitions * 3:
            library = torch.library.Library("ttap_defined_again", "FRAGMENT")
            library.define(schema)
            library.impl("f", function, "CompositeExplicitAutograd")
            torch.ops.ttap_defined_again.f(*arguments)
            library._destroy()
    lines = [line for line in str(trace).splitlines() if "ttap_defined_again" in line]
    assert [line.count("f32[4]") for line in lines] == [2, 4] * 3
