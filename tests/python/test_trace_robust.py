"""What a program may do to a trace, and a trace must not do to a program."""

import os
import subprocess
import sys
import threading

import pytest
import tensortap as tap
import torch
from torch import nn


def run(program, *arguments, timeout=600):
    """In a process of its own, which must end by itself and well."""
    words = [sys.executable, "-X", "faulthandler", "-c", program, *map(str, arguments)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def inputs_of(trace, name):
    """The hashes of the first argument, call by call."""
    run = trace.recorded
    return [run.records[event.uses[0].record].hash for event in trace if event.name == name]


def test_a_hook_may_end_its_own_trace():
    with tap.trace(hooks=lambda *given: trace.stop(), modules=False) as trace:
        torch.ones(2) + 1
        torch.ones(2) * 2
    assert len(trace.events) <= 1


def test_parameters_can_be_made_while_a_hook_looks_on():
    seen = []
    with tap.trace(hooks=lambda name, args, kwargs, result: seen.append(name)):
        layer = nn.Linear(2, 2)
        weight = nn.Parameter(torch.ones(2))
    assert isinstance(layer.weight, nn.Parameter) and isinstance(weight, nn.Parameter)
    assert "aten::detach" in seen


@pytest.mark.parametrize("write", [lambda p: p.add_(1), lambda p: p.data.add_(1)], ids=["in place", "past the version"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_a_call_that_is_not_recorded_writes_is_read_again(write, mode):
    with mode():
        p, q = torch.ones(2, 2), torch.ones(2, 2)
        with tap.trace(hashes=True, filter="mm") as trace:
            p @ q
            write(p)
            p @ q
    first, second = inputs_of(trace, "aten::mm")
    assert first != second


def test_the_running_statistics_of_a_batch_norm_are_written():
    norm, x = nn.BatchNorm1d(2), torch.arange(8.0).reshape(4, 2)
    with tap.trace(hashes=True, modules=False) as trace:
        norm(x)
        norm.running_mean + 0
        norm.eval()(x)
    trained, evaluated = (event for event in trace if event.name == "aten::native_batch_norm")
    assert [use.path for use in trained.uses if use.written] == ["/3", "/4"]
    assert not any(use.written for use in evaluated.uses)
    (read,) = (event for event in trace if event.name == "aten::add.Tensor")
    made = trace.recorded.records[read.uses[0].record]
    assert made.role == "after" and made.name == "aten::native_batch_norm"


def test_a_backward_over_two_passes_names_no_forward_of_another_pass(tmp_path):
    model = nn.Linear(2, 2)
    with tap.record({"m": model}, tmp_path, ops=True, level="meta", report=False):
        first, second = model(torch.ones(1, 2)).sum(), model(torch.ones(1, 2)).exp().exp().sum()
        (first + second).backward()
    for recorded in tap.open(tmp_path).ranks[0].passes.values():
        for event in recorded.events:
            if event.forward is not None and event.notes.get("node") == "ExpBackward0":
                assert recorded.events[event.forward].name.endswith("aten::exp")


def test_threads_with_stacks_keep_what_they_used(tmp_path):
    model = nn.Linear(2, 2)

    def work():
        with torch.no_grad():
            for _ in range(100):
                model(torch.ones(1, 2))

    with tap.record(model, tmp_path, ops=True, stacks=True, level="fingerprint", report=False):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for recorded in tap.open(tmp_path).ranks[0].passes.values():
        for event in recorded.events:
            assert event.kind != "op" or event.stack
            assert all(use.record is not None for use in event.uses)


def test_a_trace_that_is_dropped_at_work_takes_nothing_with_it():
    run("""
import threading, time, torch, tensortap as tap
done = False
def work():
    x = torch.ones(64, 64)
    while not done:
        x @ x
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(10):
    trace = tap.trace(hashes=True, stacks=True, modules=False)
    trace.start()
    time.sleep(0.02)
    del trace
done = True
for thread in threads: thread.join()
""")


def test_a_trace_may_end_while_another_thread_is_in_its_hook():
    run("""
import threading, time, torch, tensortap as tap
for _ in range(5):
    inside, go = threading.Event(), threading.Event()
    def hook(*given):
        inside.set()
        go.wait(5)
        torch.ones(8) + 1
    trace = tap.trace(hooks=hook, modules=False)
    trace.start()
    worker = threading.Thread(target=lambda: torch.ones(8) * 2)
    worker.start()
    inside.wait(5)
    threading.Timer(0.05, go.set).start()
    trace.stop()
    worker.join()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_beside_a_busy_thread_goes_on():
    run("""
import os, threading, torch, tensortap as tap
torch.set_num_threads(1)
done = False
x = torch.ones(512, 512)
def work():
    while not done:
        x + 1
trace = tap.trace(hashes=True, modules=False)
trace.start()
worker = threading.Thread(target=work)
worker.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        trace.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
done = True
worker.join()
trace.stop()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_while_pytorch_holds_its_lock_of_callbacks_goes_on():
    run("""
import os, threading, torch, tensortap as tap
torch.set_num_threads(1)
done = False
x = torch.ones(8)
def work():
    while not done:  # each new thread asks for the callbacks once, under PyTorch's lock
        first = threading.Thread(target=lambda: x + 1)
        first.start()
        first.join()
trace = tap.trace(modules=False)
trace.start()
workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers:
    worker.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        trace.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
done = True
for worker in workers:
    worker.join()
trace.stop()
""")


def test_fake_tensors_on_one_thread_do_not_lock_up_another():
    run("""
import sys, threading, torch, tensortap as tap
from torch._subclasses.fake_tensor import FakeTensorMode
sys.setswitchinterval(1e-4)  # threads take turns often, and none waits long for its own
def fake():
    with FakeTensorMode():
        x = torch.ones(2)
        for _ in range(2000):
            x + x
def real():
    for _ in range(4000):
        torch.tensor([1.0, 2.0])
with tap.trace(modules=False) as trace:
    threads = [threading.Thread(target=work) for work in (fake, real, real)]
    for thread in threads: thread.start()
    while any(thread.is_alive() for thread in threads):
        len(trace)
    for thread in threads: thread.join()
""")
