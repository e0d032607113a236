"""What a probe does with what arrives from a device, where a stand-in takes the device's place."""

import gc
import io
import threading
import time
import weakref

import pytest
import replayed_sites
import tensortap as tap
import torch
from replayed_sites import Graph, on_gpu


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch):
    replayed_sites.install(monkeypatch)


def replayed(graph, x, times):
    """Each replay finds a tensor that is one larger."""
    for _ in range(times):
        x.add_(1)
        graph.replay()


def test_every_replay_is_a_snapshot():
    x = on_gpu(torch.zeros(2))
    probe = tap.Probe("mid", [tap.RecordAction()])
    probe(x)  # a warm-up
    graph = Graph(lambda: probe(x))
    replayed(graph, x, 3)
    assert [(each.replay_index, each.tensor.tolist()) for each in probe.records()] == [
        (0, [1, 1]),
        (1, [2, 2]),
        (2, [3, 3]),
    ]
    assert not probe.records()[0].eager
    assert str(probe.records()[0].device) == "cuda:0"


def test_overwritten_replays_are_counted():
    x = on_gpu(torch.zeros(2))
    probe = tap.Probe("mid", [tap.RecordAction(capacity=4)])
    replayed(Graph(lambda: probe(x)), x, 10)
    assert [each.replay_index for each in probe.records()] == [6, 7, 8, 9]
    status = probe.status()
    assert (status["published"], status["read"], status["overwritten"]) == (10, 4, 6)


def test_calls_in_one_capture_are_told_apart_and_a_second_capture_is_refused():
    x = on_gpu(torch.ones(2))
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.ones(2))])
    Graph(lambda: (probe(x), probe(on_gpu(torch.full((2,), 3.0))))).replay()
    assert [(each.invocation, each.tensor[0].item()) for each in probe.records()] == [(0, 1), (1, 3)]
    with pytest.raises(tap.CompareFailed, match="'mid::call2': 1 of 2 comparisons failed"):
        probe.assert_ok()
    with pytest.raises(RuntimeError, match="make a second Probe"):
        Graph(lambda: probe(x))


def test_prepared_for_another_shape():
    probe = tap.Probe("mid", [tap.RecordAction()])
    probe.prepare(on_gpu(torch.ones(4)))
    with pytest.raises(ValueError, match=r"prepared for float32 \[4\] on cuda:0"):
        Graph(lambda: probe(on_gpu(torch.ones(5))))
    x = on_gpu(torch.ones(4))
    Graph(lambda: probe(x)).replay()
    assert len(probe.records()) == 1


def test_rows_that_the_device_knows():
    x, rows = on_gpu(torch.arange(6.0).view(3, 2)), on_gpu(torch.tensor(2))
    probe = tap.Probe("mid", [tap.RecordAction()], rows=rows)
    graph = Graph(lambda: probe(x))
    graph.replay()
    rows.fill_(0)
    graph.replay()
    assert [each.tensor.tolist() for each in probe.records()] == [[[0, 1], [2, 3]], []]
    assert probe.records()[1].shape == (0, 2)


def test_a_thread_prints_what_arrives_and_ends_with_the_last_probe():
    x, out = on_gpu(torch.zeros(5)), io.StringIO()
    probe = tap.Probe("mid", [tap.Print(max_items=1, every=2, file=out)])
    replayed(Graph(lambda: probe(x)), x, 5)
    until(lambda: out.getvalue().count("\n") == 3)
    assert [line.split(" [", 1)[0] for line in out.getvalue().splitlines()] == ["mid #0", "mid #2", "mid #4"]
    assert "[5] float32 cuda:0: [1, …] min 1" in out.getvalue()
    probe.close()
    until(lambda: all(thread.name != "tensortap-probes" for thread in threading.enumerate()))


def test_what_could_not_be_printed_is_said():
    x, out = on_gpu(torch.zeros(1)), io.StringIO()
    probe = tap.Probe("mid", [tap.RecordAction(capacity=1), tap.Print(every=2, file=out)])
    graph = Graph(lambda: probe(x))
    with probe._lock:  # nobody reads
        replayed(graph, x, 6)
    probe.flush()
    assert out.getvalue() == "mid: 3 not printed: replays came faster than they were read\n"
    assert probe.status()["not_printed"] == 3
    probe.close()


def test_the_probes_of_a_graph_write_its_replays_as_passes(tmp_path):
    x = on_gpu(torch.zeros(2))
    first = tap.Probe("first", [tap.RecordAction(capacity=2, to=tmp_path)])
    second = tap.Probe("second", [tap.RecordAction(capacity=2, level="fingerprint", to=tmp_path)])
    replayed(Graph(lambda: (first(x), first(x), second(x))), x, 20)  # more than fit: replays wait
    first.close()  # what it has delivered is written though the other one is still being read
    second.close()
    (rank,) = tap.open(tmp_path).ranks
    assert list(rank.passes) == list(range(20))
    for number, recorded in rank.passes.items():
        assert list(recorded) == ["first", "first::call2", "second"]
        assert recorded["first::call2"].tolist() == [number + 1] * 2
        assert recorded.record("second").stats["max"] == number + 1


def test_each_call_is_compared_with_the_same_call_of_a_run(tmp_path):
    one, two = on_gpu(torch.ones(2)), on_gpu(torch.full((2,), 2.0))
    with tap.Probe("mid", [tap.RecordAction(to=tmp_path)]) as recording:
        Graph(lambda: (recording(one), recording(two))).replay()
    probe = tap.Probe("again", [tap.Compare(run=tmp_path, key="mid")])
    Graph(lambda: (probe(one), probe(two))).replay()
    probe.assert_ok()
    assert probe.status()["comparisons"] == 2
    third = tap.Probe("again", [tap.Compare(run=tmp_path, key="mid")])
    with pytest.raises(ValueError, match="'mid::call3' is not in"):
        Graph(lambda: [third(one) for _ in range(3)])


def test_after_closing_replays_record_nothing():
    x = on_gpu(torch.zeros(1))
    probe = tap.Probe("mid", [tap.RecordAction()])
    graph = Graph(lambda: probe(x))
    replayed(graph, x, 2)
    probe.close()
    before = probe.status()
    replayed(graph, x, 2)
    assert probe.status() == before
    assert len(probe.records()) == 2


def test_a_probe_that_nobody_holds_goes_away():
    x = on_gpu(torch.zeros(1))

    def capture():
        probe = tap.Probe("mid", [tap.RecordAction()])
        return Graph(lambda: probe(x)), weakref.ref(probe)

    graph, gone = capture()
    gc.collect()
    assert gone() is None
    graph.replay()


def test_eager_calls_on_a_device_may_change_their_shape():
    probe = tap.Probe("mid", [tap.RecordAction()], mode="always")
    for size in (2, 3, 2000):
        probe(on_gpu(torch.full((size,), float(size))))
    assert [(len(each.tensor), each.replay_index) for each in probe.records()] == [(2, 0), (3, 1), (2000, 2)]


def test_eager_calls_that_nobody_reads_are_not_remembered_for_ever():
    recording = tap.Probe("mid", [tap.RecordAction(capacity=2)], mode="always")
    comparing = tap.Probe("mid", [tap.Compare(torch.ones(1))], mode="always")
    for i in range(3000):
        recording(on_gpu(torch.tensor([i])))
        comparing(on_gpu(torch.ones(1)))
    assert len(recording._sites()[0].calls) < 2000
    assert not comparing._sites()[0].calls
    assert [each.replay_index for each in recording.records()] == [2998, 2999]
    assert recording.status()["overwritten"] == 2998


def until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")
