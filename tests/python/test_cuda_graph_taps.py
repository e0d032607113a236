"""Taps that become part of a CUDA graph: each replay is a pass, with the keys of the capture."""

import gc

import pytest
import tensortap as tap
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 64)
        self.down = torch.nn.Linear(64, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


@pytest.fixture
def captured():
    """A model, its static input, and a function that captures it."""
    torch.manual_seed(2)
    model = Block().cuda().eval()
    x = torch.randn(4, 16, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                model(x)
        torch.cuda.current_stream().wait_stream(side)

    def capture():
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            out = model(x)
        return graph, out

    return model, x, capture


def inputs(count):
    return [torch.randn(4, 16, generator=torch.Generator().manual_seed(number)) for number in range(count)]


def by_key(records):
    return {record.key: record.hash for record in records}


def eager_hashes(model, values, level="fingerprint"):
    found = []
    for value in values:
        x = value.cuda()
        with torch.no_grad(), tap.trace(model, level=level) as trace:
            model(x)
        found.append(by_key(record for record in trace.recorded.records if record.role == "out"))
    return found


def passes_of(directory):
    return list(tap.open(directory).ranks[0].passes.values())


def test_each_replay_of_a_traced_capture_is_a_pass_with_its_values(captured):
    model, x, capture = captured
    values = inputs(5)
    with tap.trace(model, hashes=True) as trace:
        graph, out = capture()
        results = []
        for value in values:
            x.copy_(value)
            graph.replay()
            results.append(out.clone())
    assert len(trace.replays) == 5
    eager = eager_hashes(model, values)
    for replay, expected, value, result in zip(trace.replays, eager, values, results):
        seen = by_key(record for record in replay.records if record.role == "out")
        assert seen == expected
        with torch.no_grad():
            assert torch.equal(model(value.cuda()), result)


def test_the_calls_of_the_capture_itself_have_shapes_and_no_values(captured):
    model, _, capture = captured
    with tap.trace(model, hashes=True) as trace:
        capture()
    assert [event.name for event in trace.events if event.kind == "op"] != []
    assert all(record.hash is None for record in trace.recorded.records if record.device.startswith("cuda"))
    assert trace.replays == []


def test_replays_may_be_queued(captured):
    model, x, capture = captured
    with tap.trace(model, hashes=True) as trace:
        graph, _ = capture()
        torch.cuda._sleep(100_000_000)
        for number in range(50):
            x.fill_(number)
            graph.replay()
    assert len(trace.replays) == 50
    values = [torch.full((4, 16), float(number)) for number in range(50)]
    assert [by_key(r for r in p.records if r.role == "out") for p in trace.replays] == eager_hashes(model, values)


@pytest.mark.parametrize("ops", [False, True])
@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_a_recording_has_a_pass_for_each_replay(captured, tmp_path, ops, level):
    model, x, capture = captured
    values = inputs(4)
    with tap.record(model, tmp_path, level=level, ops=ops, report=False):
        graph, _ = capture()
        for value in values:
            x.copy_(value)
            graph.replay()
    passes = passes_of(tmp_path)
    assert len(passes) == 5  # the capture, and the replays
    for number, value in enumerate(values):
        replay = passes[1 + number]
        value = value.cuda()
        with torch.no_grad(), tap.trace(level="full") as trace:
            hidden = model.up(value)
        assert replay.record("up").hash == trace.recorded.records[-1].hash
        assert replay.ending == "complete"
        if level == "full":
            assert torch.equal(replay["up"], hidden.cpu())
        if ops:
            assert any("aten::relu" in record.key and record.hash is not None for record in replay.records)


def test_keys_and_calls_are_those_of_an_eager_pass(captured, tmp_path):
    model, x, capture = captured
    with tap.record(model, tmp_path / "eager", ops=True, level="fingerprint", report=False), torch.no_grad():
        model(x)
    with tap.record(model, tmp_path / "graph", ops=True, level="fingerprint", report=False):
        graph, _ = capture()
        graph.replay()
    (eager,), (_, replay) = passes_of(tmp_path / "eager"), passes_of(tmp_path / "graph")
    assert by_key(replay.records) == by_key(eager.records)
    assert [(e.name, e.kind, e.arguments) for e in replay.events] == [
        (e.name, e.kind, e.arguments) for e in eager.events
    ]
    parents = [replay.events[e.parent].name if e.parent is not None else None for e in replay.events]
    assert parents == [eager.events[e.parent].name if e.parent is not None else None for e in eager.events]
    assert tap.diff(tmp_path / "eager", tmp_path / "graph", passes="0:1").same


def test_replaying_after_the_recording_is_closed_is_safe_and_records_nothing(captured, tmp_path):
    model, x, capture = captured
    recording = tap.record(model, tmp_path, level="fingerprint", report=False)
    graph, out = capture()
    graph.replay()
    recording.close()
    before = len(passes_of(tmp_path))
    for value in inputs(20):
        x.copy_(value)
        graph.replay()
    torch.cuda.synchronize()
    with torch.no_grad():
        assert torch.equal(out, model(x))
    assert len(passes_of(tmp_path)) == before == 2


def test_the_graph_may_go_before_the_recording(captured, tmp_path):
    model, _, capture = captured
    with tap.record(model, tmp_path, level="fingerprint", report=False):
        for _ in range(3):
            graph, _ = capture()
            graph.replay()
            torch.cuda.synchronize()
            del graph
            gc.collect()
    endings = [p.ending for p in passes_of(tmp_path)]
    assert endings == ["complete"] * 6


def test_two_graphs_on_two_streams(captured, tmp_path):
    model, _, capture = captured
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    with tap.record(model, tmp_path, level="fingerprint", report=False):
        graphs = [capture()[0], capture()[0]]
        torch.cuda.synchronize()
        for _ in range(100):
            for graph, stream in zip(graphs, streams):
                with torch.cuda.stream(stream):
                    graph.replay()
    passes = passes_of(tmp_path)
    assert len(passes) == 2 + 200
    assert len({p.record("up").hash for p in passes[2:]}) == 1


def test_a_capture_that_fails_leaves_the_recording_whole(captured, tmp_path):
    model, x, capture = captured
    with tap.record(model, tmp_path, level="fingerprint", report=False):
        with pytest.raises(RuntimeError), torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph()):
            model(x)
            torch.cuda.synchronize()  # not allowed in a capture
        graph, _ = capture()
        graph.replay()
    assert passes_of(tmp_path)[-1].record("up").hash is not None


def test_the_same_bits_with_taps_in_the_graph(captured):
    model, x, capture = captured
    plain_graph, plain = capture()
    with tap.trace(model, hashes=True):
        tapped_graph, tapped = capture()
        for value in inputs(10):
            x.copy_(value)
            plain_graph.replay()
            tapped_graph.replay()
            assert torch.equal(plain, tapped)


def test_in_place_writes_inside_the_graph_do_not_reach_earlier_taps(captured):
    _, x, _ = captured
    graph = torch.cuda.CUDAGraph()
    with tap.trace(hashes=True) as trace:
        with torch.no_grad(), torch.cuda.graph(graph):
            y = x + 1
            y.mul_(2)
            z = y.clone()
            y.zero_()
        x.fill_(4)
        graph.replay()
    (replay,) = trace.replays
    extremes = {record.key: record.stats["max"] for record in replay.records if record.role == "out"}
    assert extremes == {
        "aten::add.Tensor": 5,
        "aten::mul_.Tensor": 10,
        "aten::clone": 10,
        "aten::zero_": 0,
    }
    del z


def test_reduce_overhead(tmp_path):
    torch.manual_seed(3)
    model = Block().cuda().eval()
    compiled = torch.compile(model, mode="reduce-overhead")
    values = inputs(6)
    with torch.no_grad(), tap.trace(hashes=True) as trace:
        results = []
        for value in values:
            torch.compiler.cudagraph_mark_step_begin()
            results.append(compiled(value.cuda()).clone())
    with torch.no_grad():
        for value, result in zip(values, results):
            torch.testing.assert_close(result, model(value.cuda()))
    assert trace.counts["lost"] == 0
    assert all(record.hash is not None for record in trace.recorded.records if record.level != "meta")
    assert len(trace.replays) >= 3
    assert any(record.hash is not None for record in trace.replays[-1].records)
