"""Tensors of every kind in a trace: what is kept of them, and what is said of those that cannot be read."""

import subprocess
import sys
import warnings

import pytest
import tensortap as tap
import torch
from tensortap.tracing import trace
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from traced_calls import bits, names, only, uses


def recorded(trace, use):
    """The tensor that a use's record holds."""
    run = trace.recorded
    return run[run.records[use.record].key]


def assert_holds(trace, event, role, tensors):
    """Those uses of a call hold these tensors, bit for bit."""
    found = [recorded(trace, use) for use in uses(event, role)]
    assert [each.dtype for each in found] == [each.dtype for each in tensors]
    assert [each.shape for each in found] == [each.shape for each in tensors]
    assert [bits(each) for each in found] == [bits(each) for each in tensors]


# ---- with bytes ----

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE, torch.bool, torch.complex64, torch.complex128], ids=str)
def test_every_dtype_is_kept_bit_for_bit(dtype):
    x = torch.tensor([0.0, 1.0, 2.0, 100.0]).to(dtype)
    with trace(level="full") as t:
        y = x.clone()
    clone = only(t, "aten::clone")
    assert_holds(t, clone, "in", [x])
    assert_holds(t, clone, "out", [y])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.0),
        torch.zeros(0, 3),
        torch.randn(3, 4).t(),
        torch.randn(4, 6)[:, 1::2],
        torch.randn(3, 1).expand(3, 4),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.tensor([float("nan"), float("inf"), -0.0]),
    ],
    ids=["0-d", "no elements", "transposed", "strided", "expanded", "channels last", "odd values"],
)
def test_every_shape_is_kept_as_its_elements(tensor):
    with trace(level="full") as t:
        result = tensor.clone()
    clone = only(t, "aten::clone")
    assert_holds(t, clone, "in", [tensor])
    assert_holds(t, clone, "out", [result])


def test_the_hash_is_that_of_the_elements():
    x = torch.randn(5, 7)
    with trace(hashes=True) as t:
        x.t().contiguous()
        x.t().clone(memory_format=torch.contiguous_format)
    run = t.recorded
    contiguous = [run.records[uses(event, "out")[0].record] for event in t.events if event.name == "aten::clone"]
    view = run.records[uses(t.events[0], "out")[0].record]
    assert len({record.hash for record in [view, *contiguous]}) == 1


def test_a_quantized_tensor_is_kept_as_its_integers():
    x = torch.randn(3, 3)
    with warnings.catch_warnings(), trace(level="full") as t:
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    assert_holds(t, only(t, "aten::quantize_per_tensor"), "out", [quantized.int_repr()])


def test_a_lazy_conjugate_is_kept_as_it_reads():
    x = torch.randn(2, 3, dtype=torch.complex64)
    with trace(level="full") as t:
        conjugate = x.conj()
        assert conjugate.is_conj()
        conjugate * 2
    assert_holds(t, only(t, "aten::_conj"), "in", [x])
    assert_holds(t, only(t, "aten::_conj"), "out", [conjugate])
    assert_holds(t, only(t, "aten::mul.Tensor"), "in", [conjugate])


def test_a_lazy_negative_is_kept_as_it_reads():
    x = torch.randn(3)
    with trace(level="full") as t:
        negative = torch._neg_view(x)
        assert negative.is_neg()
        negative + 1
    assert_holds(t, only(t, "aten::add.Tensor"), "in", [negative])


def test_a_lazy_conjugate_that_comes_from_outside_is_kept_as_it_reads():
    x = torch.randn(2, 3, dtype=torch.complex64).conj()
    y = torch.randn(4, dtype=torch.complex64).conj().imag
    assert x.is_conj()
    assert y.is_neg()
    with trace(level="full") as t:
        x * 2
        y + 1
    assert_holds(t, only(t, "aten::mul.Tensor"), "in", [x])
    assert_holds(t, only(t, "aten::add.Tensor"), "in", [y])


# ---- without ----


def test_sparse_tensors_say_why_they_have_no_bytes():
    dense = torch.eye(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    with trace(level="full") as t:
        coo + coo
        product = csr @ dense
        coo.coalesce().values()
    add, mm = only(t, "aten::add.Tensor"), only(t, "aten::mm")
    assert add.notes["unread"] == {"/0": "a sparse tensor", "/1": "a sparse tensor", "out": "a sparse tensor"}
    assert mm.notes["unread"] == {"/0": "a sparse tensor in a compressed layout"}
    assert_holds(t, mm, "out", [product])
    assert_holds(t, only(t, "aten::values"), "out", [torch.ones(3)])


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_say_why_they_have_no_bytes(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    with trace(level="full") as t:
        nested * 2
    outer = t.events[0]
    assert outer.name == "aten::mul.Tensor"
    assert outer.notes["unread"]["/0"] == outer.notes["unread"]["out"] == "a nested tensor"
    assert outer.notes["sizes"] == {"/0": "[2, ?, 3]", "out": "[2, ?, 3]"}
    assert "f32[2, ?, 3], 2) -> " in str(t)
    if layout == torch.jagged:  # what it does with its values is seen
        assert outer.notes["classes"] == {"/0": "NestedTensor", "out": "NestedTensor"}
        assert t.events[1].parent == 0
        assert_holds(t, t.events[1], "out", [torch.full((6, 3), 2.0)])


def test_meta_tensors_say_why_they_have_no_bytes():
    x = torch.empty(2, 3, device="meta")
    with trace(level="full") as t:
        x + 1
    assert only(t, "aten::add.Tensor").notes["unread"] == {"/0": "on the meta device", "out": "on the meta device"}


def test_fake_tensors_are_logged_and_what_works_out_their_shapes_is_not():
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.randn(3, 3))
        with trace(level="full") as t:
            (x @ x).relu()
    assert names(t) == ["aten::mm", "aten::relu"]
    mm = t.events[0]
    assert mm.notes["unread"]["out"] == "a tensor subclass"
    assert mm.notes["fake"] is True
    assert t.recorded.records[uses(mm, "out")[0].record].shape == (3, 3)


def test_tensors_of_symbolic_shape_do_not_break_the_program():
    program = """
import torch
from tensortap.tracing import trace
from torch.fx.experimental.proxy_tensor import make_fx
with trace(hashes=True) as t:
    make_fx(lambda x: x.sin() + 1, tracing_mode="symbolic")(torch.randn(3))
print(t.counts["failed"])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert found.returncode == 0
    assert found.stdout.strip() == "0"


def test_memory_that_nobody_has_written_to_is_not_read():
    with trace(level="full") as t:
        torch.empty(3)
    assert only(t, "aten::empty.memory_format").notes["unread"] == {"out": "not initialised"}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="skipped: PyTorch was built without oneDNN")
def test_memory_that_is_there_for_the_backward_alone_is_not_read():
    x, (hidden, cell), parts = torch.randn(3, 2, 4), torch.zeros(2, 2, 4), [torch.randn(16, 4), torch.randn(16)]
    with trace(hashes=True) as t:
        torch.ops.aten.mkldnn_rnn_layer(
            x, parts[0], parts[0], parts[1], parts[1], hidden, cell, False, [], 2, 4, 1, True, False, False, True
        )
    layer = only(t, "aten::mkldnn_rnn_layer")
    assert layer.notes["unread"] == {"out/3": "memory of the backward, which may hold anything"}
    assert [t.recorded.records[use.record].level for use in uses(layer, "out")] == ["sketch"] * 3 + ["meta"]


def test_memory_that_nobody_has_written_to_is_not_read_as_an_argument_either():
    with trace(level="full") as t:
        torch.empty(3).fill_(1)
    fill = only(t, "aten::fill_.Scalar")
    assert t.recorded.records[uses(fill, "in")[0].record].level == "meta"


def test_a_target_is_not_read_before_the_call():
    x, target = torch.ones(3), torch.empty(3)
    with trace(level="full") as t:
        torch.add(x, x, out=target)
    before = [use for use in uses(only(t, "aten::add.out"), "in") if use.path == "/out"]
    assert [t.recorded.records[use.record].level for use in before] == ["meta"]


# ---- subclasses and modes ----


class Two(torch.Tensor):
    """A tensor that is two tensors; every operator works on both."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        halves = [
            func(*tree_map_only(Two, lambda x, half=half: getattr(x, half), args), **(kwargs or {})) for half in "ab"
        ]
        return tree_map_only(torch.Tensor, lambda a: Two(a, halves[1]), halves[0])


def test_a_subclass_has_its_inner_operators_beneath_it():
    a, b = torch.randn(3), torch.randn(3)
    x = Two(a, b)
    with trace(level="full") as t:
        torch.sin(x)
    outer, first, second = t.events
    assert [event.name for event in t.events] == ["aten::sin"] * 3
    assert [event.parent for event in t.events] == [None, 0, 0]
    assert outer.notes["classes"] == {"/0": "Two", "out": "Two"}
    assert outer.notes["unread"] == {"/0": "a tensor subclass", "out": "a tensor subclass"}
    assert_holds(t, first, "out", [a.sin()])
    assert_holds(t, second, "out", [b.sin()])


def test_operators_after_one_that_makes_a_subclass_are_seen():
    library = torch.library.Library("tensortap_tests", "FRAGMENT")
    library.define("pair(Tensor x) -> Tensor")
    library.impl("pair", lambda x: Two(x, x), "CPU")
    with trace() as t:
        torch.ops.tensortap_tests.pair(torch.ones(2))
        torch.cos(torch.ones(2))
    assert "aten::cos" in names(t)


class Doubling(TorchDispatchMode):
    """A mode that runs another operator instead."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.sin.default:
            return torch.cos(*args)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_program_works_and_what_it_calls_is_seen():
    x = torch.randn(3)
    with Doubling(), trace(level="full", view="all") as t:
        y = torch.sin(x)
    assert bits(y) == bits(x.cos())
    assert "aten::cos" in names(t)


# ---- operators of the program ----


@torch.library.custom_op("tensortap_tests::double", mutates_args=())
def double(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * by


double.register_fake(lambda x, by=2.0: torch.empty_like(x))
double.register_autograd(lambda context, grad: (grad * 2, None))


@torch.library.custom_op("tensortap_tests::raise_", mutates_args={"x"})
def raise_(x: torch.Tensor, parts: list[torch.Tensor], maybe: torch.Tensor | None = None) -> None:
    x.add_(sum(parts))


def test_a_custom_operator_is_one_call():
    x = torch.randn(3)
    with trace(level="full") as t:
        y = torch.ops.tensortap_tests.double(x, 3.0)
    call = only(t, "tensortap_tests::double")
    assert call.arguments == "%0, 3.0"
    assert_holds(t, call, "in", [x])
    assert_holds(t, call, "out", [y])
    assert names(t) == ["tensortap_tests::double"]


def test_a_custom_operator_has_a_backward():
    x = torch.randn(3, requires_grad=True)
    with trace(level="full") as t:
        torch.ops.tensortap_tests.double(x).sum().backward()
    backward = [event for event in t.events if event.name == "backward:aten::mul.Tensor"]
    assert len(backward) == 1
    assert t.events[backward[0].forward].name == "tensortap_tests::double"
    assert_holds(t, backward[0], "out", [torch.full((3,), 2.0)])


def test_a_custom_operator_that_writes_shows_what_it_left():
    x, parts = torch.zeros(3), [torch.ones(3), torch.ones(3)]
    with trace(level="full") as t:
        torch.ops.tensortap_tests.raise_(x, parts)
    call = only(t, "tensortap_tests::raise_")
    assert call.arguments == "%0, [%1, %2]"
    assert [(use.path, use.written) for use in uses(call, "in")] == [("/0", True), ("/1/0", False), ("/1/1", False)]
    assert_holds(t, call, "in", [torch.zeros(3), *parts])
    assert_holds(t, call, "after", [torch.full((3,), 2.0)])


def test_an_operator_registered_from_a_library_is_seen():
    library = torch.library.Library("tensortap_tests", "FRAGMENT")
    library.define("halve(Tensor x) -> Tensor")
    library.impl("halve", lambda x: x / 2, "CPU")
    with trace(level="full") as t:
        torch.ops.tensortap_tests.halve(torch.full((2,), 4.0))
    assert_holds(t, only(t, "tensortap_tests::halve"), "out", [torch.full((2,), 2.0)])


# ---- arguments ----


@pytest.mark.parametrize(
    ("call", "name", "text"),
    [
        (lambda x: x + 2, "aten::add.Tensor", "%0, 2"),
        (lambda x: x * 2.5, "aten::mul.Tensor", "%0, 2.5"),
        (lambda x: x + True, "aten::add.Tensor", "%0, True"),
        (lambda x: torch.add(x, 3, alpha=2), "aten::add.Tensor", "%0, 3, alpha=2"),
        (lambda x: x[:, torch.arange(2)], "aten::index.Tensor", "%0, [None, %1]"),
        (lambda x: torch.clamp(x, max=1), "aten::clamp", "%0, None, 1"),
        (lambda x: x.sum((0, 1), keepdim=True), "aten::sum.dim_IntList", "%0, [0, 1], True"),
        (lambda x: torch.full_like(x, float("-inf")), "aten::full_like", "%0, -inf"),
        (lambda x: torch.where(x > 0, x, 0.0), "aten::where.self", "%0, %1, %2"),
        (lambda x: torch.einsum("ij,jk->ik", x, x), "aten::bmm", "%0, %1"),
    ],
)
def test_arguments_are_kept_as_python_writes_them(call, name, text):
    with trace(level="full") as t:
        call(torch.eye(3))
    found = only(t, name).arguments
    assert found == text or found.startswith(text + ", ")


def test_a_long_list_is_kept_whole():
    parts = [torch.full((1,), float(i)) for i in range(500)]
    with trace(level="full") as t:
        torch.cat(parts)
    cat = only(t, "aten::cat")
    assert_holds(t, cat, "in", parts)
    assert_holds(t, cat, "out", [torch.arange(500.0)])
    assert cat.arguments.startswith("[%0, %1, ")
    assert cat.arguments.endswith("%499]")


def test_a_number_that_became_a_tensor_is_kept():
    with trace(level="full") as t:
        torch.where(torch.tensor([True, False]), 1.5, 2)
    where = only(t, "aten::where.self")
    assert [recorded(t, use).tolist() for use in uses(where, "in")] == [[True, False], 1.5, 2]


def test_generators_and_strings():
    with trace() as t:
        torch.randn(2, generator=torch.Generator().manual_seed(0))
        torch.nn.functional.gelu(torch.ones(2), approximate="tanh")
    assert "generator=<generator>" in only(t, "aten::randn.generator").arguments
    assert only(t, "aten::gelu").arguments == "%0, approximate='tanh'"


def test_a_tensor_without_memory_does_not_break_the_program():
    program = """
import torch
from tensortap.tracing import trace
x = torch.randn(4)
x.untyped_storage().resize_(0)
with trace(level="full") as t:
    x.view(2, 2)
print(t.events[0].notes["unread"])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert found.stdout.strip() == "{'/0': 'without memory', 'out': 'without memory'}", found.stderr


def test_a_view_that_no_operator_made_shows_what_stood_in_its_bytes():
    from torch._C._dynamo.guards import _reinterpret_tensor  # how inductor makes views

    with tap.trace(level="full") as trace:
        y = torch.randn(4, 6) @ torch.randn(6, 8)
        _reinterpret_tensor(y, (8, 4), (4, 1), 0).relu()
    product, relu = trace.events[-2:]
    (made,) = (use for use in product.uses if use.role == "out")
    (part,) = (use for use in relu.uses if use.role == "part")
    assert (part.path, part.record) == ("/0", made.record)
