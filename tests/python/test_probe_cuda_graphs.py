"""Probes, the graphs they are in, and what is around them: gradients, streams, runs, and who ends first."""

import gc
import io
import threading

import pytest
import tensortap as tap
import torch
from captured_graphs import Counting, captured, replay, values

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


# ---- gradients ----


def test_gradients_inside_a_captured_backward():
    x = torch.randn(4, 8, device="cuda")
    weight = torch.nn.Parameter(torch.randn(8, 8, device="cuda"))
    of_hidden = tap.Probe("hidden.grad", [tap.RecordAction()])
    of_weight = tap.Probe("weight.grad", [tap.RecordAction()])
    final = tap.Probe("weight.grad.final", [tap.RecordAction()])
    of_weight.attach_grad(weight)

    def step():
        if weight.grad is not None:
            weight.grad.zero_()
        hidden = of_hidden.attach_grad(x @ weight)
        hidden.square().sum().backward()
        final(weight.grad)

    graph = captured(step)
    replay(graph, 2)
    torch.testing.assert_close(of_hidden.records()[1].tensor, (2 * (x @ weight)).detach().cpu())
    assert torch.equal(of_weight.records()[0].tensor, weight.grad.cpu())
    assert torch.equal(final.records()[1].tensor, weight.grad.cpu())


# ---- streams and graphs ----


def test_a_side_stream_inside_the_capture():
    x = torch.ones(1 << 16, device="cuda")
    side = torch.cuda.Stream()
    here, there = tap.Probe("here", [tap.RecordAction()]), tap.Probe("there", [tap.RecordAction()])

    def step():
        y = x + 1
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = there(y * 2)
        here(y * 3)
        torch.cuda.current_stream().wait_stream(side)
        return z

    replay(captured(step), 3)
    assert [each.tensor.unique().tolist() for each in here.records()] == [[6]] * 3
    assert [each.tensor.unique().tolist() for each in there.records()] == [[4]] * 3


def test_replayed_on_another_stream_than_captured():
    counting = Counting(2)
    probe = tap.Probe("mid", [tap.RecordAction()])
    graph = captured(lambda: probe(counting()))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph.replay()
        graph.replay()
    torch.cuda.synchronize()
    assert [each.replay_index for each in probe.records()] == [0, 1]


def test_two_graphs_with_two_probes_on_two_streams():
    counts = [Counting(1 << 14), Counting(1 << 15)]
    probes = [tap.Probe(f"p{i}", [tap.RecordAction(capacity=64)]) for i in range(2)]
    graphs = [captured(lambda i=i: probes[i](counts[i]())) for i in range(2)]
    torch.cuda.synchronize()
    start = [each.x[0].item() for each in counts]
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(50):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for i, probe in enumerate(probes):
        found = probe.records()
        assert [each.replay_index for each in found] == list(range(50))
        assert [each.tensor.unique().tolist() for each in found] == [[start[i] + n + 1] for n in range(50)]


# ---- who goes first ----


def test_closed_before_the_graph_replays_stay_safe_and_record_nothing():
    counting = Counting(1 << 16)
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.zeros(1 << 16)), tap.Print(file=io.StringIO())])

    def with_rows_that_only_the_graph_needs():
        with tap.Probe("rows", [tap.RecordAction()], rows=torch.tensor(3, device="cuda")) as rowed:
            graph = captured(lambda: rowed(probe(counting())))
            replay(graph, 2)
            return graph

    graph = with_rows_that_only_the_graph_needs()
    probe.close()
    status = probe.status()
    assert status["published"] == 2
    gc.collect()
    torch.cuda.empty_cache()
    before = counting.x[0].item()
    replay(graph, 20)
    assert counting.x[0].item() == before + 20
    assert probe.status() == status
    assert [each.replay_index for each in probe.records()] == [0, 1]
    del graph
    gc.collect()
    with tap.Probe("other", [tap.RecordAction()], mode="always") as other:
        other(torch.ones(1, device="cuda"))  # closing it frees what the graph had kept


def test_closed_while_replays_are_in_flight():
    counting = Counting(1 << 20)
    for _ in range(5):
        probe = tap.Probe("mid", [tap.RecordAction(capacity=4)])
        graph = captured(lambda probe=probe: probe(counting()))
        for _ in range(30):
            graph.replay()
        probe.close()
        for each in probe.records():
            assert each.tensor.min() == each.tensor.max()
        torch.cuda.synchronize()


def test_closed_while_another_thread_captures():
    x = torch.ones(8, device="cuda")
    probe = tap.Probe("x", [tap.RecordAction()], mode="always")
    probe(x)
    torch.cuda.synchronize()
    graph, capturing, closed = torch.cuda.CUDAGraph(), threading.Event(), threading.Event()
    failed = []

    def capture():
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # what other threads free would end it
                x.add_(1)
                capturing.set()
                closed.wait(30)
                x.mul_(2)
        except RuntimeError as error:
            failed.append(error)
        finally:
            capturing.set()

    thread = threading.Thread(target=capture)
    thread.start()
    assert capturing.wait(30)
    probe.close()
    closed.set()
    thread.join()
    assert not failed
    replay(graph, 1)
    assert x.tolist() == [4.0] * 8


def test_forgotten_without_being_closed():
    counting = Counting(8)

    def capture():
        probe = tap.Probe("mid", [tap.RecordAction()])
        return captured(lambda: probe(counting()))

    graph = capture()
    gc.collect()
    replay(graph, 3)
    assert counting.x[0].item() == 4


def test_the_graph_is_destroyed_first():
    counting = Counting(4)
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.full((4,), -1.0))])
    graph = captured(lambda: probe(counting()))
    replay(graph, 3)
    graph.reset()
    del graph
    gc.collect()
    assert [each.replay_index for each in probe.records()] == [0, 1, 2]
    assert probe.status()["failures"] == 3
    probe.close()
    assert len(probe.records()) == 3


def test_a_capture_that_fails_leaves_the_probe_closable():
    x = torch.ones(2, device="cuda")
    probe = tap.Probe("mid", [tap.RecordAction()])

    def step():
        probe(x)
        raise KeyError("the model's own")

    with pytest.raises(KeyError):
        captured(step, warm=False)
    assert probe.records() == []
    probe.close()
    replay(captured(lambda: x + 1))  # the next capture works


# ---- runs ----


def test_every_replay_is_a_pass_of_a_run(tmp_path):
    counting = Counting(2)
    first = tap.Probe("first", [tap.RecordAction(capacity=2, to=tmp_path)])
    second = tap.Probe("second", [tap.RecordAction(capacity=2, level="fingerprint", to=tmp_path)])

    def step():
        x = first(counting())
        first(x * 2)
        second(x * 3)

    graph = captured(step)
    start = counting.x[0].item()
    replay(graph, 20)  # more than the rings hold: replays wait, none is lost
    first.close()
    second.close()
    (rank,) = tap.open(tmp_path).ranks
    assert len(rank.passes) == 20
    for number, recorded in rank.passes.items():
        assert list(recorded) == ["first", "first::call2", "second"]
        value = start + number + 1
        assert recorded["first"].tolist() == [value] * 2
        assert recorded["first::call2"].tolist() == [value * 2] * 2
        assert recorded.record("second").stats["min"] == value * 3
        assert recorded.record("first").device == "cuda:0"
    assert first.status()["overwritten"] == 0


def test_compare_with_a_recorded_run_call_by_call(tmp_path):
    x = torch.arange(4.0, device="cuda")

    def with_probe(probe):
        return captured(lambda: (probe(x + 1), probe(x * 2)))

    recording = tap.Probe("mid", [tap.RecordAction(to=tmp_path)])
    replay(with_probe(recording))
    recording.close()
    probe = tap.Probe("again", [tap.Compare(run=tmp_path, key="mid")])
    graph = with_probe(probe)
    replay(graph)
    probe.assert_ok()
    x[3] = 7
    replay(graph)
    with pytest.raises(tap.CompareFailed) as caught:
        probe.assert_ok()
    assert (caught.value.replay_index, caught.value.invocation, caught.value.element) == (1, 0, (3,))
    assert caught.value.failures == 2


# ---- outside graphs ----


def test_in_mode_always_eager_calls_are_looked_at():
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Print(file=out)], mode="always")
    for size in (2, 3, 2):
        x = torch.full((size,), float(size), device="cuda")
        assert probe(x) is x
        x.zero_()
    torch.cuda.synchronize()
    assert values(probe) == [[2, 2], [3, 3, 3], [2, 2]]
    assert [(each.replay_index, each.eager) for each in probe.records()] == [(0, True), (1, True), (2, True)]
    probe.close()
    assert out.getvalue().count("\n") == 3


def test_eager_and_captured_calls_of_one_probe():
    x = torch.ones(2, device="cuda")
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.ones(2))], mode="always")
    probe(x)
    graph = captured(lambda: probe(x), warm=False)
    replay(graph, 2)
    assert [(each.eager, each.replay_index) for each in probe.records()] == [(True, 0), (False, 0), (False, 1)]
    assert probe.status()["comparisons"] == 3
    probe.assert_ok()


def test_eager_calls_on_two_streams():
    probe = tap.Probe("mid", [tap.RecordAction(capacity=100)], mode="always")
    streams = [torch.cuda.Stream() for _ in range(2)]
    for i in range(40):
        with torch.cuda.stream(streams[i % 2]):
            probe(torch.full((1000,), float(i), device="cuda"))
    torch.cuda.synchronize()
    assert [each.tensor.unique().tolist() for each in probe.records()] == [[i] for i in range(40)]


def test_eager_calls_go_to_a_run_without_loss(tmp_path):
    with tap.Probe("mid", [tap.RecordAction(capacity=2, to=tmp_path)], mode="always") as probe:
        for i in range(50):
            probe(torch.full((10,), float(i), device="cuda"))
        torch.cuda.synchronize()
    (rank,) = tap.open(tmp_path).ranks
    assert [recorded["mid"][0].item() for recorded in rank.passes.values()] == list(range(50))
