"""Triton kernels in a trace: their names, arguments before and after, and nothing of their autotuning.

Where there is no GPU, a stand-in for Triton shows which launches are seen.
"""

import sys
from pathlib import Path

import pytest
import torch
from tensortap.tracing import trace
from traced_calls import bits, names, uses

GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not GPU, reason="skipped: no GPU")


def launched_by(trace):
    return [event for event in trace.events if event.kind == "kernel"]


def values(trace, event, role):
    """The tensors of a launch by their names; buffers that nothing was written to yet are not read."""
    run = trace.recorded
    records = {use.path[1:]: run.records[use.record] for use in uses(event, role)}
    return {name: run[record.key] for name, record in records.items() if record.has_bytes}


# ---- a stand-in ----


@pytest.fixture
def fake(monkeypatch):
    """The directory that holds the stand-in, which is not imported yet."""
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(Path(__file__).with_name("fake_triton"))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        del sys.modules[name]


def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK=1):
    out_ptr.numpy()[:n] = x_ptr.numpy()[:n] + y_ptr.numpy()[:n]


def xyz():
    return torch.arange(3.0), torch.ones(3), torch.zeros(3)


def test_a_launch_appears_with_its_arguments_before_and_after(fake):
    import triton

    kernel = triton.jit(add_kernel)
    x, y, out = xyz()
    with trace(level="full") as t:
        kernel[(1,)](x, y, out, 2, BLOCK=16, num_warps=8)
    (launch,) = launched_by(t)
    assert launch.name == "triton::add_kernel"
    assert launch.arguments == "x_ptr=%0, y_ptr=%1, out_ptr=%2, n=2, BLOCK=16"
    assert [use.written for use in uses(launch, "in")] == [False, False, True]
    assert values(t, launch, "in")["out_ptr"].tolist() == [0, 0, 0]
    assert values(t, launch, "after")["out_ptr"].tolist() == [1, 2, 0]
    assert names(t) == []


def test_arguments_by_name_tuples_and_descriptors(fake):
    import triton

    class TensorDescriptor:
        def __init__(self, base):
            self.base = base

    @triton.jit
    def kernel(pair, descriptor, scale):
        pass

    x, y, out = xyz()
    with trace() as t:
        kernel[(1,)]((x, y), scale=2.5, descriptor=TensorDescriptor(out))
    (launch,) = launched_by(t)
    assert launch.arguments == "pair.0=%0, pair.1=%1, scale=2.5, descriptor=%2"


def test_triton_is_noticed_when_the_trace_imports_it(fake):
    x, y, out = xyz()
    with trace() as t:
        assert "triton" not in sys.modules
        import triton

        triton.jit(add_kernel)[(1,)](x, y, out, 3)
    assert [launch.name for launch in launched_by(t)] == ["triton::add_kernel"]
    assert "exec_module" not in vars(sys.modules["triton.runtime.jit"].__loader__)


def test_autotuning_is_left_out(fake):
    import triton

    kernel = triton.Autotuner(triton.jit(add_kernel), configs=[{"BLOCK": 1}, {"BLOCK": 2}])
    x, y, out = xyz()
    with trace(level="full") as first:
        kernel[(1,)](x, y, out, 3)
    with trace(level="full") as second:
        kernel[(1,)](x, y, out, 3)
    for t in (first, second):
        (launch,) = launched_by(t)
        assert launch.name == "triton::add_kernel"
        assert values(t, launch, "after")["out_ptr"].tolist() == [1, 2, 3]
        assert names(t) == []


def test_heuristics_are_looked_through(fake):
    import triton

    kernel = triton.Heuristics(triton.jit(add_kernel), {"BLOCK": lambda: 4})
    x, y, out = xyz()
    with trace() as t:
        kernel[(1,)](x, y, out, 3)
    (launch,) = launched_by(t)
    assert launch.arguments.startswith("x_ptr=%0, y_ptr=%1, out_ptr=%2, n=3")


def test_a_warm_up_is_no_launch(fake):
    import triton

    kernel = triton.jit(add_kernel)
    with trace() as t:
        kernel.run(*xyz(), 3, grid=(1,), warmup=True)
    assert launched_by(t) == []


def test_a_kernel_that_raises_ends(fake):
    import triton

    @triton.jit
    def kernel(x_ptr):
        raise RuntimeError("out of resources")

    x, y, out = xyz()
    with trace() as t:
        with pytest.raises(RuntimeError, match="out of resources"):
            kernel[(1,)](x)
        torch.cos(x)
        triton.jit(add_kernel)[(1,)](x, y, out, 3)
    assert names(t, None) == ["triton::kernel", "aten::cos", "triton::add_kernel"]


def test_an_argument_that_cannot_be_shown_does_not_stop_the_launch(fake, capfd):
    import triton

    class Odd:
        def __str__(self):
            raise ValueError("no text")

    x, *_ = xyz()
    ran = []
    kernel = triton.jit(lambda x_ptr, odd: ran.append(odd))
    with trace() as t:
        kernel[(1,)](x, Odd())
        torch.cos(x)
    assert len(ran) == 1
    assert names(t, None)[-1] == "aten::cos"
    assert "tensortap: a kernel could not be recorded: ValueError: no text" in capfd.readouterr().err


def test_the_stack_of_a_launch_ends_in_the_program(fake):
    import triton

    kernel = triton.jit(add_kernel)
    with trace(stacks=True) as t:
        kernel[(1,)](*xyz(), 3)
    (launch,) = launched_by(t)
    assert "/tensortap/ops/kernels.py" not in launch.stack


def test_nothing_is_left_of_it_after_the_trace(fake):
    import triton
    from triton.runtime.jit import JITFunction

    run, tune = JITFunction.run, triton.Autotuner.run
    with trace(), trace():
        assert JITFunction.run is not run
    assert (JITFunction.run, triton.Autotuner.run) == (run, tune)


def test_a_launch_of_inductor_is_one_kernel(monkeypatch):
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    # Its own needs a GPU: this one benchmarks at its first launch, as that one does.
    def run(self, *args, stream, benchmark_run=False, **kwargs):
        if not self.launchers and not benchmark_run:
            self.run(*(torch.clone(arg) for arg in args[:2]), 3, stream=stream, benchmark_run=True)
            self.launchers = [lambda source, target, n: target.numpy().__setitem__(slice(n), source.numpy()[:n] * 2)]
        if not benchmark_run:
            self.launchers[0](*args)

    monkeypatch.setattr(CachingAutotuner, "run", run)
    tuner = object.__new__(CachingAutotuner)
    tuner.launchers, tuner.inductor_meta = [], {}
    tuner.triton_meta = {"signature": {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}}
    tuner.fn = type("Kernel", (), {"__name__": "triton_poi_fused_mul_0"})()
    x, _, out = xyz()
    with trace(level="full") as t:
        tuner.run(x, out, 3, stream=0)
        tuner.run(x, out, 3, stream=0)
    first, second = launched_by(t)
    assert first.name == second.name == "triton::triton_poi_fused_mul_0"
    assert first.arguments == "in_ptr0=%0, out_ptr0=%1, xnumel=3"
    assert values(t, first, "after")["out_ptr0"].tolist() == [0, 2, 4]
    assert names(t) == []
    assert CachingAutotuner.run is run


# ---- Triton itself ----


if GPU:
    import triton
    import triton.language as tl

    @triton.jit
    def real_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside), mask=inside)

    tuned_add = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(real_add)


def on_gpu():
    x, y = torch.arange(100.0, device="cuda"), torch.ones(100, device="cuda")
    return x, y, torch.zeros(100, device="cuda")


@needs_gpu
def test_a_kernel_of_the_user():
    x, y, out = on_gpu()
    with trace(level="full") as t:
        real_add[(1,)](x, y, out, 100, BLOCK=128)
    (launch,) = launched_by(t)
    assert launch.name == "triton::real_add"
    assert launch.arguments == "x_ptr=%0, y_ptr=%1, out_ptr=%2, n=100, BLOCK=128"
    assert not values(t, launch, "in")["out_ptr"].any()
    assert bits(values(t, launch, "after")["out_ptr"]) == bits((x + y).cpu())


@needs_gpu
def test_a_tuned_kernel_of_the_user_is_launched_once():
    x, y, out = on_gpu()
    with trace(level="full") as t:
        tuned_add[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, y, out, 100)
    (launch,) = launched_by(t)
    assert launch.name == "triton::real_add"
    assert bits(values(t, launch, "after")["out_ptr"]) == bits((x + y).cpu())
    assert names(t) == []


@needs_gpu
@pytest.mark.parametrize("options", [{}, {"max_autotune": True, "coordinate_descent_tuning": True}])
def test_kernels_of_inductor(options):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (torch.relu(x) * 2).sum(-1), options=options)
    x = torch.randn(64, 256, device="cuda")
    with trace(level="full") as first:
        y = compiled(x)
    with trace(level="full") as second:
        again = compiled(x)
    for t in (first, second):
        (launch,) = launched_by(t)
        assert launch.name.startswith("triton::triton_")
        assert bits(values(t, launch, "after")["out_ptr0"]) == bits(y.cpu())
        assert bits(values(t, launch, "in")["in_ptr0"]) == bits(x.cpu())
        assert names(t) == []
    assert bits(y.cpu()) == bits(again.cpu())


@needs_gpu
def test_backward_and_matrix_products_of_a_compiled_module():
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
    compiled = torch.compile(model)
    x = torch.randn(16, 64, device="cuda")
    with trace(hashes=True) as first:
        compiled(x).sum().backward()
    model.zero_grad()
    with trace(hashes=True) as second:
        compiled(x).sum().backward()
    assert names(first, None) == names(second, None)
    assert any("backward:triton::" in name for name in names(first, "kernel"))
    assert any(name.rpartition("::")[2].startswith(("addmm", "mm")) for name in names(first))


@needs_gpu
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_kernel_of_the_user_inside_a_compiled_region(backend):
    torch._dynamo.reset()

    def add(x, y):
        out = torch.zeros_like(x)
        real_add[(1,)](x, y, out, 100, BLOCK=128)
        return out

    x, y, _ = on_gpu()
    compiled = torch.compile(add, backend=backend, fullgraph=True)
    for _ in range(2):
        with trace(level="full") as t:
            out = compiled(x, y)
        (launch,) = (event for event in launched_by(t) if "real_add" in event.name)
        assert bits(values(t, launch, "after")["out_ptr"]) == bits(out.cpu()) == bits((x + y).cpu())
