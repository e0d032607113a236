"""What a program may do under a trace, and still get what it gets without one."""

import resource
import subprocess
import sys
import threading
import warnings

import pytest
import tensortap as tap
import torch
from tensortap.ops.kernels import launch
from torch import nn
from traced_calls import only, ops, uses
from ttap_command import run


def megabytes():
    """Of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def growth(work, times):
    before = megabytes()
    for _ in range(times):
        work()
    return megabytes() - before


# ---- nothing of ours in its way ----


@pytest.mark.parametrize("when", ["during", "after"])
def test_tensors_can_be_swapped(when):
    first, second = torch.ones(2), torch.zeros(3)
    with tap.trace() as trace:
        first + 1, second + 1
        if when == "during":
            torch.utils.swap_tensors(first, second)
            first.sin()
    if when == "after":
        torch.utils.swap_tensors(first, second)
    assert first.tolist() == [0.0] * 3
    assert torch._C._swap_tensor_impl.__module__ != "tensortap.torch_glue.swapping"
    if when == "during":
        assert only(trace, "aten::sin").results == "%1"


def test_a_model_whose_parameters_are_swapped_becomes_double():
    model = nn.Linear(2, 2)
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with tap.trace():
            model(torch.ones(1, 2))
            assert model.double().weight.dtype == torch.float64
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_a_tensor_that_is_larger_than_its_storage_is_not_read(level):
    x = torch.ones(50_000_000)
    x.untyped_storage().resize_(8)
    with tap.trace(level=level) as trace:
        x.detach()
    assert set(only(trace, "aten::detach").notes["unread"].values()) == {"larger than its storage"}


def test_of_nothing_there_is_a_hash_wherever_it_would_begin():
    x = torch.ones(2, 3)
    with tap.trace(hashes=True) as trace:
        y = x[2:, 2:]
        y.detach()
    assert y.storage_offset() * 4 > x.untyped_storage().nbytes()
    assert "unread" not in only(trace, "aten::detach").notes


def test_threads_work_where_there_has_been_a_second_interpreter():
    pytest.importorskip("_xxsubinterpreters")
    program = """
import _xxsubinterpreters, tensortap, threading, torch
_xxsubinterpreters.create()
def work():
    x = torch.ones(64)
    for _ in range(3000): x.sin()
with tensortap.trace() as trace:
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(len(trace))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert (found.returncode, found.stdout) == (0, "12004\n"), found.stderr


class Speechless(torch.Tensor):
    """Raises whatever it is asked, also for its sizes and its device."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(
            cls, x.shape, strides=x.stride(), dtype=x.dtype, dispatch_sizes_strides_policy="sizes", dispatch_device=True
        )

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError(f"asked for {function}")


def test_what_a_subclass_raises_is_what_the_program_gets():
    odd, x = Speechless(torch.ones(2)), torch.ones(2)
    with tap.trace() as trace:
        with pytest.raises(RuntimeError, match=r"asked for aten\.add\.Tensor"):
            torch.add(odd, x)
        x.cos()
    assert ops(trace)[-1] == "aten::cos"


class Raising(nn.Module):
    def forward(self, error):
        raise error


def test_a_module_that_raises_what_is_being_handled_has_raised(tmp_path):
    model, error = Raising(), ValueError("again")

    def twice():
        try:
            model(error)
        except ValueError:
            with pytest.raises(ValueError, match="again"):
                model(error)

    with tap.trace() as trace:
        twice()
    assert str(trace).count("# raised") == 2
    with tap.record(model, tmp_path, report=False, modules="all"):
        twice()
    assert [each.ending for each in tap.open(tmp_path).ranks[0].passes.values()] == ["aborted"] * 2


def test_a_trace_that_has_ended_is_read_once():
    with tap.trace() as trace:
        torch.ones(2).cos()
    assert trace.events is trace.events
    assert trace.recorded.records is trace.recorded.records


def test_the_log_says_what_had_no_room(recwarn):
    x = torch.ones(2)
    with tap.trace(memory="4K") as trace:
        for _ in range(2000):
            x.cos()
    missing = trace.counts["no_room"]
    assert missing > 0
    assert str(trace).splitlines()[-1] == f"# {missing} more calls, for which memory= had no room"


@pytest.mark.parametrize("view", ["dispatch", "leaf", "all"])
def test_memory_that_kernels_reserve_is_not_read_before_they_are_over(view):
    def body(x):
        y = torch.empty(0).resize_(64)
        y.zero_()
        a = torch.arange(1024.0) * x
        return y, a.sum(), torch.sort(a), torch.linalg.inv(torch.eye(8) * 2), torch.softmax(a.view(32, 32), -1)

    x = torch.ones(1024)
    traces = []
    for number in (7.0, 11.0):  # stands where memory is reserved
        del [torch.full((size,), number) for size in (1, 4, 16, 64, 256, 1024) for _ in range(4)][:]
        with tap.trace(hashes=True, view=view) as trace:
            body(x)
        traces.append(trace)
    found = tap.diff(*traces)
    assert not [tensor.key for tensor in found.tensors if tensor.verdict in ("diverged", "within tolerance")], found


class Curious(torch.Tensor):
    """Asks a trace how long it is whenever somebody asks for its sizes."""

    trace = None

    @staticmethod
    def __new__(cls, x):
        made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, dispatch_sizes_strides_policy="sizes")
        made.inner = x
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if cls.trace is not None and "size" in str(function):
            len(cls.trace)
        return function(*[each.inner if isinstance(each, Curious) else each for each in args], **(kwargs or {}))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tensor_that_asks_the_trace_that_looks_at_it_is_refused(threads, capfd, monkeypatch):
    odd, x = Curious(torch.ones(2)), torch.ones(2)
    with tap.trace(modules=False) as trace:
        x.sin()
        if threads == 2:
            thread = threading.Thread(target=x.sin)
            thread.start()
            thread.join(60)
        monkeypatch.setattr(Curious, "trace", trace)
        assert torch.equal(torch.add(odd, x), torch.full((2,), 2.0))
        monkeypatch.setattr(Curious, "trace", None)
        x.cos()
    assert ops(trace)[-1] == "aten::cos"
    assert "cannot be used by the code of a tensor" in capfd.readouterr().err


def test_a_kernel_that_cannot_be_shown_hides_nothing_after_it():
    odd, x = Speechless(torch.ones(2)), torch.ones(2)
    with tap.trace() as trace:
        assert launch("library", lambda: "kernel", lambda: [("odd", odd)], lambda: 7) == 7
        x.cos()
    assert ops(trace)[-1] == "aten::cos"


# ---- memory ----


def test_a_backward_leaves_nothing_behind_once_the_log_is_full():
    x = torch.randn(4, requires_grad=True)

    def work():
        (x.sin() * x.cos() + x.exp()).tanh().sigmoid().sum().backward()
        x.grad = None

    with tap.trace(memory="10K"):
        growth(work, 300)
        assert growth(work, 2000) < 4


def test_sparse_tensors_are_freed():
    def work():
        values, columns = torch.ones(250_000), torch.arange(250_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sparse = torch.sparse_csr_tensor(torch.tensor([0, 250_000]), columns, values, size=(1, 250_000))
        sparse * 2
        [torch.ones(1) + 1 for _ in range(8)]  # newer ones, so that it is not among the last

    with tap.trace():
        growth(work, 20)
        assert growth(work, 60) < 60


def test_arguments_that_are_others_in_every_call_count_too():
    x = torch.ones(2000)
    with tap.trace(memory="1M") as trace:
        for number in range(20000):
            x.index_select(0, x.new_zeros(1, dtype=torch.long))
            x.view([1, 2000]).roll([number, number + 1], [0, 1])
    assert trace.counts["no_room"] > 0
    assert trace.counts["bytes"] < 1.2 * 2**20


# ---- what is recorded ----


def test_a_call_may_have_any_number_of_tensors():
    many = [torch.zeros(1)] * 70_000
    with torch.no_grad(), tap.trace(ids=True) as trace:
        torch._foreach_add(many, 1)
    called = only(trace, "aten::_foreach_add.Scalar")
    assert (len(uses(called, "in")), len(uses(called, "out"))) == (70_000, 70_000)
    assert uses(called, "out")[-1].record is not None


def of_kernels():
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    functional = nn.functional
    return {
        "mm": lambda: torch.mm(x, w),
        "linear": lambda: functional.linear(x, w, w[0]),
        "layer_norm": lambda: functional.layer_norm(x, (8,)),
        "sum": lambda: x.sum(0),
        "conv1d": lambda: functional.conv1d(x[None], torch.ones(2, 4, 3)),
        "sort": lambda: x.sort()[0],
        "embedding": lambda: functional.embedding(torch.tensor([1, 2]), w),
        "attention": lambda: functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
        "where": lambda: torch.where(x > 0, x, 0.0),
        "max_pool1d": lambda: functional.max_pool1d(x[None], 2),
        "fft": lambda: torch.fft.fft(x),
    }


@pytest.mark.parametrize("name", of_kernels())
def test_in_the_view_all_a_result_is_what_the_call_returned(name):
    """Those that it calls may have seen the memory before anything was in it."""
    torch.manual_seed(0)
    call = of_kernels()[name]
    with torch.no_grad(), tap.trace(level="full", view="all") as trace:
        result = call()
    run = trace.recorded
    last = [event for event in trace.events if event.parent is None][-1]
    assert torch.equal(run[run.records[uses(last, "out")[0].record].key].reshape(result.shape), result)


def test_in_the_view_leaf_an_argument_is_what_it_was():
    torch.manual_seed(0)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    with torch.no_grad(), tap.trace(level="full", view="leaf") as trace:
        y = torch.mm(x, w)
        y.relu()
    run = trace.recorded
    clamp = trace.events[-1]
    assert torch.equal(run[run.records[uses(clamp, "in")[0].record].key], y)
    assert len(trace) == len(trace.events)


def test_within_a_kernel_what_has_not_changed_is_the_value_that_it_was():
    x = torch.randn(3, 3)
    with torch.no_grad(), tap.trace(hashes=True, view="all") as trace:
        torch.mm(x, x)
    first, *others = (event for event in trace.events if "resolve_conj" not in event.name)
    given = uses(first, "in")[0].record
    inner = [uses(event, "in")[0].record for event in trace.events if "resolve_conj" in event.name]
    assert inner.count(given) == 2 and not others


def test_an_argument_twice_is_recorded_once():
    x = torch.randn(3)
    with tap.trace(hashes=True) as trace:
        torch.add(x, x)
    one, other = uses(only(trace, "aten::add.Tensor"), "in")
    assert one.record == other.record


def test_a_value_that_was_written_in_part_names_who_wrote():
    cache, key = torch.zeros(3, 2), torch.ones(2)
    with torch.no_grad(), tap.trace(hashes=True) as trace:
        cache + 1
        cache[1] = key * 2
        cache[2] = key * 3
        cache.sum()
    writes = [event for event in trace.events if event.name == "aten::copy_"]
    parts = uses(trace.events[-1], "part")
    assert [use.path for use in parts] == ["/0", "/0"]
    assert [use.record for use in parts] == [uses(event, "out")[0].record for event in writes]


def test_after_any_number_of_traces_a_recording_has_all_operators_of_its_first_pass(tmp_path):
    x, model = torch.ones(2, 4), nn.Linear(4, 2)
    for _ in range(20):
        with tap.trace():
            x + 1
    with torch.no_grad(), tap.record(model, tmp_path, ops=True, level="full", report=False):
        model(x)
    (rank,) = tap.open(tmp_path).ranks
    assert [event.name for event in rank.passes[0].events] == ["Linear", "Linear:aten::t", "Linear:aten::addmm"]


def test_sizes_that_are_symbols_are_told_apart():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv())
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    x = mode.from_tensor(torch.randn(3, 5), symbolic_context=dynamic)
    with mode, tap.trace() as trace:
        for size in (x.shape[0], x.shape[1], x.shape[0] * x.shape[1]):
            x.new_empty([size])
    assert len({event.arguments for event in trace.events}) == 3


# ---- what is made of it ----


def with_a_cache(fill):
    cache, query = torch.zeros(3, 2), torch.ones(2)
    with torch.no_grad(), tap.trace(hashes=True) as trace:
        cache[1] = torch.log(torch.tensor([fill, fill]))
        torch.mv(cache, query)
    return trace


def test_a_nan_that_went_into_a_cache_is_inherited_by_who_reads_the_cache(tmp_path):
    with_a_cache(-1.0).save(tmp_path / "run")
    told = run("check", tmp_path / "run").stdout
    assert "FIRST" in told and "aten::log" in told
    assert "came in" not in told


def test_a_difference_that_went_into_a_cache_is_inherited_by_who_reads_the_cache():
    report = tap.diff(with_a_cache(2.0), with_a_cache(3.0))
    causes = {found.key: found.cause for found in report.tensors if found.verdict == "diverged"}
    assert causes["aten::mv@in/0"] == "inherited"
    assert causes["aten::mv"] == "inherited"


def test_calls_that_raise_have_not_returned(tmp_path):
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError(x.sin())

    x = torch.ones(2, 2)
    calls = [lambda: torch.mm(x, torch.ones(3, 3)), lambda: torch.ones(2).add_(torch.ones(3)), lambda: Fails()(x)]
    with tap.trace(hashes=True) as trace:
        for call in calls:
            with pytest.raises((RuntimeError, ValueError)):
                call()
        x.cos()
    returned = {event.name: event.returned for event in trace.events}
    assert [name for name, is_so in returned.items() if not is_so] == ["aten::mm", "aten::add_.Tensor", "Fails"]
    assert str(trace).count("# raised") == 3


class Returns(nn.Module):
    """Nothing, or what it is given raises."""

    def __init__(self, does=lambda: None):
        super().__init__()
        self.does = does

    def forward(self, x):
        x.sin()
        self.does()


def fail():
    raise KeyError


def call_while_handling(*modules):
    """Calls modules as an exception is handled; of those that fail, what they raise."""
    raised = []
    try:
        raise ValueError
    except ValueError:
        for module in modules:
            try:
                module(torch.ones(2))
            except KeyError as error:
                raised.append(error)
    return raised


def test_a_module_that_returns_none_while_an_exception_is_handled_has_returned():
    with tap.trace() as trace:
        assert len(call_while_handling(Returns(), Returns(fail), nn.Sequential(Returns()))) == 1
    modules = [(event.name, event.returned) for event in trace.events if event.kind == "module"]
    assert modules == [("Returns", True), ("Returns", False), ("Sequential", True), ("0", True)]
    assert str(trace).count("# raised") == 1


def test_a_recorded_module_that_returns_none_while_an_exception_is_handled_has_returned(tmp_path):
    model, fails = nn.Sequential(Returns()), nn.Sequential(Returns(fail))
    with tap.record({"a": model, "b": fails}, tmp_path, ops=True, level="full", report=False) as recording:
        assert len(call_while_handling(model, fails)) == 1
    (rank,) = tap.open(tmp_path).ranks
    first, second = rank.passes.values()
    assert [event.returned for event in first.events if event.kind == "module"] == [True, True]
    assert [event.returned for event in second.events if event.kind == "module"] == [False, False]
    assert [first.ending, second.ending] == ["complete", "aborted"]
    assert [silent["name"] for silent in recording.coverage["without_tensors"]] == ["a.0"]


def test_a_module_of_a_recording_that_raises_has_not_returned(tmp_path):
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError(x.sin())

    model = nn.Sequential(nn.ReLU(), Fails())
    with tap.record(model, tmp_path, ops=True, level="full", report=False), pytest.raises(ValueError, match="tensor"):
        model(torch.ones(2))
    (rank,) = tap.open(tmp_path).ranks
    returned = {event.name: event.returned for event in rank.passes[0].events if event.kind == "module"}
    assert returned == {"Sequential": False, "0": True, "1": False}


@pytest.mark.parametrize(
    "make",
    [
        lambda kind: torch.ones(2).as_subclass(kind),
        lambda kind: kind([1.0, 2.0]),
        lambda kind: kind(torch.ones(2)),
        lambda kind: kind([1.0]).new_tensor([1.0, 2.0]),
        lambda kind: torch.Tensor._make_subclass(kind, torch.ones(2)),
    ],
)
def test_a_hook_does_not_keep_tensors_from_becoming_of_another_class(make):
    class Mine(torch.Tensor):
        pass

    with tap.trace(hooks=lambda op, args, kwargs, result: {"args": len(args)}):
        assert type(make(Mine)) is Mine
