"""Traces and threads, and traces beside one another."""

import gc
import threading
import time

import pytest
import torch
from small_net import FORWARD, Net
from tensortap.tracing import trace
from torch import nn
from traced_calls import lines, names, ops


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(3, 4)


# ---- threads ----


def in_thread(function):
    failed = []

    def run():
        try:
            function()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert not failed, failed


def test_every_thread_is_seen(model, x):
    with trace() as t:
        in_thread(lambda: model(x))
        torch.cos(x)
    assert ops(t) == [*FORWARD, "aten::cos"]
    assert len({event.thread for event in t.events}) == 2


def test_only_the_own_thread_is_seen_on_request(model, x):
    with trace(other_threads=False, modules=False) as t:
        in_thread(lambda: model(x))
        torch.cos(x)
    assert names(t, None) == ["aten::cos"]


def test_modules_of_other_threads_are_not_seen_either(model, x):
    with trace(other_threads=False) as t:
        in_thread(lambda: model(x))
    assert names(t, None) == []


@pytest.mark.parametrize("beside", ["a trace", "a profiler"])
def test_nor_where_those_threads_are_observed_by_others(model, x, beside):
    def work():
        with trace(other_threads=False) if beside == "a trace" else torch.profiler.profile():
            model(x)

    with trace(other_threads=False) as t:
        torch.cos(x)
        in_thread(work)
    assert names(t, None) == ["aten::cos"]


def test_one_that_a_hook_of_autograd_ends_leaves_nothing_behind(x):
    y = x.requires_grad_().sin()
    ended = trace(other_threads=False)
    y.register_hook(lambda gradient: ended.stop())
    ended.start()
    y.sum().backward()
    assert "backward:aten::expand" in names(ended, None)
    for _ in range(20):  # as many as there can be at once, and more
        with trace() as t:
            torch.cos(x)
        assert names(t, None) == ["aten::cos"]
    for _ in range(20):
        other = trace(other_threads=False)
        in_thread(lambda other=other: (other.start(), torch.sin(x), other.stop()))
        torch.cos(x)
        assert names(other, None) == ["aten::sin"]


def test_one_that_cannot_see_its_thread_does_not_begin(x):
    failed = []

    def begin(gradient):
        try:
            trace(other_threads=False).start()
        except RuntimeError as error:
            failed.append(str(error))

    y = x.requires_grad_().sin()
    y.register_hook(begin)
    y.sum().backward()
    assert len(failed) == 1
    assert "begin it before backward()" in failed[0]


@pytest.mark.parametrize("thread_lives", [True, False])
def test_any_number_of_them_may_end_on_another_thread(x, thread_lives):
    go = threading.Event()
    threads = []
    for _ in range(17):
        t = trace(other_threads=False)
        started = threading.Event()

        def work(t=t, started=started):
            t.start()
            started.set()
            if thread_lives:
                go.wait(60)
                torch.cos(x)  # takes off what ended meanwhile

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        started.wait(60)
        if not thread_lives:
            threads[-1].join(60)
        if len(threads) == 16:
            go.set()
        t.stop()
        if len(threads) >= 16:
            for thread in threads:
                thread.join(60)
    with trace() as t:
        torch.cos(x)
    assert names(t, None) == ["aten::cos"]


def test_threads_at_once_do_not_mix_their_modules(x):
    models = [Net() for _ in range(4)]
    start = threading.Barrier(4)

    def work(model):
        start.wait(60)
        for _ in range(20):
            model(x).sum().backward()

    with trace({f"m{i}": model for i, model in enumerate(models)}, hashes=True) as t:
        threads = [threading.Thread(target=work, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert t.counts["failed"] == 0
    by_model = {}
    for event in t.events:
        if event.name.endswith("up:aten::addmm"):
            by_model.setdefault(event.name.split(".")[0], set()).add(event.thread)
            assert t.events[event.parent].thread == event.thread
    assert sorted(by_model) == ["m0", "m1", "m2", "m3"]
    assert all(len(threads) == 1 for threads in by_model.values())
    assert names(t).count("m2.up:aten::addmm") == 20


def test_a_trace_may_end_while_other_threads_are_inside_operators():
    stop = threading.Event()
    begun = threading.Barrier(5)

    def work():
        a = torch.randn(64, 64)
        begun.wait(60)
        while not stop.is_set():
            a = torch.tanh(a @ a)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    begun.wait(60)
    try:
        for _ in range(20):
            with trace(hashes=True, stacks=True) as t:
                time.sleep(0.005)
            assert t.counts["failed"] == 0
            assert set(ops(t)) <= {"aten::mm", "aten::tanh"}
    finally:
        stop.set()
        for worker in workers:
            worker.join()


# ---- one trace and another ----


def test_traces_inside_one_another(model, x):
    with trace() as outer:
        torch.cos(x)
        with trace(hashes=True) as inner:
            model(x)
        torch.sin(x)
    assert ops(inner) == FORWARD
    assert ops(outer) == ["aten::cos", *FORWARD, "aten::sin"]


def test_traces_that_overlap(x):
    first, second = trace(), trace()
    first.start()
    torch.cos(x)
    second.start()
    torch.sin(x)
    first.stop()
    torch.tan(x)
    second.stop()
    assert ops(first) == ["aten::cos", "aten::sin"]
    assert ops(second) == ["aten::sin", "aten::tan"]


def test_many_traces_one_after_another_see_the_same(model, x):
    seen = []
    for _ in range(20):
        with trace(hashes=True) as t:
            model(x)
        seen.append(lines(t))
    assert all(each == seen[0] for each in seen)
    assert len(seen[0]) == 8


def test_a_trace_that_an_exception_ends_has_what_came_before(model, x):
    with pytest.raises(ValueError, match="enough"), trace() as t:
        model(x)
        raise ValueError("enough")
    assert ops(t) == FORWARD
    torch.cos(x)
    assert ops(t) == FORWARD


def test_an_operator_that_raises_is_kept_as_such(x):
    with trace(hashes=True) as t:
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        torch.cos(x)
    assert ops(t) == ["aten::mm", "aten::cos"]
    assert t.events[0].notes["raised"] is True


def test_a_trace_that_cannot_begin_leaves_nothing_behind(x):
    others = []
    with pytest.raises(RuntimeError, match="traces are at work already"):
        while True:
            other = trace()
            other.start()
            others.append(other)
    for other in others:
        other.stop()
    assert not nn.modules.module._global_forward_hooks
    with trace() as t:
        torch.cos(x)
    assert ops(t) == ["aten::cos"]


def test_a_trace_keeps_no_tensor_alive():
    gone = []

    class Watched(torch.Tensor):
        def __del__(self):
            gone.append(1)

    with trace(hashes=True) as t:
        y = torch.ones(3).as_subclass(Watched)
        y + 1
        del y
        gc.collect()
        assert gone
    assert len(t) > 0
