"""Compiled regions in a trace: inductor's C++ kernels, the operators between them, and nothing of the compilation."""

import subprocess
import sys
import threading

import pytest
import torch
import torch._dynamo.compiled_autograd
from tensortap.ops.inductor_modules import is_cpp_kernel
from tensortap.tracing import trace
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor.codecache import PyCodeCache
from traced_calls import bits, lines, names, uses

BACKENDS = ["eager", "aot_eager", "inductor"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)) * 2).sum(-1)


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def step(function, model, x):
    """A forward and a backward; the gradients."""
    model.zero_grad()
    y = function(x)
    y.sum().backward()
    return [y, *(parameter.grad for parameter in model.parameters())]


def made(backend):
    torch.manual_seed(0)
    model = Net()
    return model, torch.compile(model, backend=backend), torch.randn(4, 8)


def launched_by(trace):
    return [event for event in trace.events if event.kind == "kernel"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_call_looks_like_the_second(backend):
    model, compiled, x = made(backend)
    with trace(hashes=True) as first:
        step(compiled, model, x)
    with trace(hashes=True) as second:
        step(compiled, model, x)
    assert first.counts["compilation"] > 0
    assert second.counts["compilation"] == 0
    assert lines(first) == lines(second)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_call_of_compiled_autograd_looks_like_the_second(backend):
    model, compiled, x = made(backend)

    def traced():
        model.zero_grad()
        with trace() as t, torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
            compiled(x).sum().backward()
        assert t.counts["failed"] == 0
        return [(event.kind, event.name, event.arguments) for event in t.events]

    assert traced() == traced()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_changes_no_bit_and_compiles_nothing_again(backend):
    model, compiled, x = made(backend)
    with trace(hashes=True, stacks=True):
        traced_first = step(compiled, model, x)
    plain = step(compiled, model, x)
    with trace(hashes=True, stacks=True):
        traced = step(compiled, model, x)
    graphs, breaks = counters["stats"]["unique_graphs"], dict(counters["graph_break"])
    assert [bits(each) for each in traced_first] == [bits(each) for each in plain] == [bits(each) for each in traced]
    assert (graphs, breaks) == (1, {})


@pytest.mark.parametrize("how", ["function", "method", "wrapped"])
def test_a_module_compiled_in_a_trace_is_not_compiled_again_after_it(how):
    model, x = Net(), torch.randn(4, 8)
    if how == "function":
        called = torch.compile(lambda x: model(x), backend="eager")
    elif how == "method":
        model.compile(backend="eager")
        called = model
    else:
        called = torch.compile(model, backend="eager")
    with trace():
        called(x)
    called(x)
    assert counters["stats"]["unique_graphs"] == 1


def test_aot_eager_shows_every_operator():
    model, compiled, x = made("aot_eager")
    with trace() as t:
        step(compiled, model, x)
    operators = [name.rpartition(":aten::")[2] for name in names(t)]
    operators = [name for name in operators if name != "detach"]  # of what is kept for the backward
    assert operators[:6] == ["t", "addmm", "relu", "mul.Tensor", "t", "addmm"]
    assert "Net:backward:aten::threshold_backward" in names(t)
    assert names(t, "module") == ["Net"]


def test_kernels_of_inductor_appear_with_their_arguments_before_and_after():
    _, compiled, x = made("inductor")
    with trace(level="full") as t:
        y = compiled(x)
    kernel, *_, last = launched_by(t)
    run = t.recorded
    assert kernel.name == "Net:cpp::cpp_fused_mul_relu_threshold_backward_0"
    assert kernel.arguments == "in_ptr0=%0, out_ptr0=%1, out_ptr1=%2"
    before, after = uses(kernel, "in"), uses(kernel, "after")
    assert [use.path for use in before] == [use.path for use in after] == ["/in_ptr0", "/out_ptr0", "/out_ptr1"]
    assert [use.written for use in before] == [False, True, True]
    # A product came in, the next product takes what the kernel made of it, and the program gets what the last one made.
    assert run.records[before[0].record].name.endswith("aten::addmm.out")
    product = next(event for event in t.events[t.events.index(kernel) + 1 :] if "addmm" in event.name)
    assert after[1].record in {use.record for use in uses(product, "in")}
    given = run[run.records[before[0].record].key]
    assert bits(run[run.records[after[1].record].key]) == bits(torch.relu(given) * 2)
    assert bits(run[run.records[uses(last, "after")[-1].record].key]) == bits(y)


def test_operators_between_kernels_appear_as_usual():
    model, compiled, x = made("inductor")
    with trace() as t:
        step(compiled, model, x)
    assert [name for name in names(t, None) if "mm" in name and "::cpp" not in name]
    assert [kernel.name for kernel in launched_by(t) if kernel.name.startswith("Net:backward:cpp::cpp_fused")]


def test_a_region_compiled_before_is_seen():
    _, compiled, x = made("inductor")
    compiled(x)
    with trace() as t:
        compiled(x)
    assert launched_by(t)


def test_nothing_is_left_behind():
    _, compiled, x = made("inductor")
    finders = list(sys.meta_path)
    with trace(), trace():
        compiled(x)
        assert not any(is_cpp_kernel(value) for module in PyCodeCache.modules for value in vars(module).values())
    assert any(is_cpp_kernel(value) for module in PyCodeCache.modules for value in vars(module).values())
    assert sys.meta_path == finders
    assert "load_by_key_path" in vars(PyCodeCache)
    assert PyCodeCache.load_by_key_path.__func__.__module__ == "torch._inductor.codecache"
    assert "install_callbacks" not in vars(torch._dynamo.callback_handler)
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_pre_hooks


def test_kernels_are_left_out_on_request():
    _, compiled, x = made("inductor")
    with trace(triton=False) as t:
        compiled(x)
    assert not launched_by(t)
    assert t.counts["compilation"] > 0


def test_what_runs_while_compiling_is_shown_on_request():
    _, compiled, x = made("aot_eager")
    with trace(compilation=True) as t:
        compiled(x)
    assert t.counts["compilation"] == 0
    assert len(t) > 30


def test_traces_inside_one_another_both_see_kernels():
    _, compiled, x = made("inductor")
    with trace() as outer:
        with trace() as inner:
            compiled(x)
        compiled(x)
    assert len(launched_by(outer)) == 2 * len(launched_by(inner)) > 0


def test_another_thread_that_compiles_takes_no_operators_from_this_one():
    model, x = Net(), torch.randn(4, 8)
    compiling, done = threading.Event(), threading.Event()

    def backend(graph, inputs):
        compiling.set()
        assert done.wait(60)
        return graph.forward

    def compile_meanwhile():
        torch.compile(lambda x: x + 1, backend=backend)(x)

    with trace() as t:
        other = threading.Thread(target=compile_meanwhile)
        other.start()
        assert compiling.wait(60)
        torch.cos(x)
        done.set()
        other.join()
        model(x)
    assert "aten::cos" in names(t)
    assert [name for name in names(t) if name.endswith("aten::addmm")] == ["up:aten::addmm", "down:aten::addmm"]


def test_a_module_that_ended_while_another_thread_compiled_is_left():
    compiling, done, entered = threading.Event(), threading.Event(), threading.Event()

    def backend(graph, inputs):
        compiling.set()
        assert done.wait(60)
        return graph.forward

    class Slow(nn.Module):
        def forward(self, x):
            entered.set()
            assert compiling.wait(60)
            return x + 1

    def compile_meanwhile():
        assert entered.wait(60)
        torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2))

    x = torch.ones(2)
    with trace() as t:
        other = threading.Thread(target=compile_meanwhile)
        other.start()
        Slow()(x)
        done.set()
        other.join()
        nn.ReLU()(x)
    assert "ReLU:aten::relu" in names(t)


def test_a_first_compilation_inside_the_trace_is_noticed_where_dynamo_was_not_loaded():
    program = """
import sys, torch
from tensortap.tracing import trace
assert "torch._dynamo" not in sys.modules
with trace() as t:
    torch.compile(lambda x: torch.cos(x) * 2, backend="aot_eager")(torch.ones(3))
print(*(event.name for event in t.events), t.counts["compilation"] > 0)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["aten::ones", "aten::cos", "aten::mul.Tensor", "True"]
