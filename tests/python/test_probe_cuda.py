"""Probes inside CUDA graphs: what they see in every replay."""

import io
import time

import pytest
import tensortap as tap
import torch
from captured_graphs import Counting, captured, replay, values
from tensortap.tensors.dtypes import TORCH_DTYPES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


# ---- the example everybody starts with ----


def test_print_record_and_compare_in_one_probe(capsys):
    static_x = torch.ones(4, device="cuda")
    expected = torch.full((4,), 3.0)
    probe = tap.Probe("mid", [tap.Print(max_items=8), tap.RecordAction(capacity=16), tap.Compare(expected)])
    graph = captured(lambda: probe(static_x + 2))
    replay(graph)
    (found,) = probe.records()
    assert (found.probe_name, found.replay_index, found.invocation, found.eager) == ("mid", 0, 0, False)
    assert (found.shape, found.dtype, found.device) == ((4,), torch.float32, torch.device("cuda:0"))
    assert found.tensor.device.type == "cpu" and found.tensor.tolist() == [3, 3, 3, 3]
    assert found.stats["mean"] == 3
    probe.assert_ok()
    probe.close()
    assert capsys.readouterr().err == ("mid #0 [4] float32 cuda:0: [3, 3, 3, 3] min 3 max 3 mean 3 nan 0 inf 0\n")


def test_eager_calls_do_nothing_by_default():
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.zeros(9))])
    x = torch.ones(2, 3, device="cuda").t()
    before = torch.cuda.memory_allocated()
    assert probe(x) is x
    assert torch.cuda.memory_allocated() == before
    assert set(probe.status().values()) == {0}


def test_in_a_capture_the_very_same_tensor_comes_back():
    probe = tap.Probe("mid", [tap.RecordAction()])
    same = []
    x = torch.ones(3, device="cuda")
    captured(lambda: same.append(probe(x) is x))
    assert same == [True, True]


def test_the_graph_computes_the_same_with_and_without():
    weight = torch.randn(64, 64, device="cuda")

    def run(probe):
        x = torch.ones(8, 64, device="cuda")
        out = torch.empty(8, 64, device="cuda")

        def step():
            hidden = probe(torch.relu(x @ weight))
            out.copy_(hidden @ weight)

        replay(captured(step), 2)
        return out

    plain = run(lambda x: x)
    probe = tap.Probe("hidden", [tap.RecordAction(), tap.Print(file=io.StringIO()), tap.Compare(torch.zeros(8, 64))])
    assert torch.equal(run(probe), plain)


# ---- the ring ----


def test_every_replay_is_recorded_in_order():
    counting = Counting(3)
    probe = tap.Probe("mid", [tap.RecordAction(capacity=8)])
    graph = captured(lambda: probe(counting()))
    start = counting.x[0].item()
    replay(graph, 5)
    assert [each.replay_index for each in probe.records()] == [0, 1, 2, 3, 4]
    assert values(probe) == [[start + i + 1] * 3 for i in range(5)]
    replay(graph, 2)
    assert [each.replay_index for each in probe.records()] == [0, 1, 2, 3, 4, 5, 6]


def test_queued_replays_beyond_the_capacity_are_counted():
    counting = Counting(2)
    probe = tap.Probe("mid", [tap.RecordAction(capacity=4)])
    graph = captured(lambda: probe(counting()))
    start = counting.x[0].item()
    replay(graph, 10)  # nobody reads meanwhile
    assert [each.replay_index for each in probe.records()] == [6, 7, 8, 9]
    assert values(probe) == [[start + i + 1] * 2 for i in range(6, 10)]
    status = probe.status()
    assert (status["published"], status["read"], status["overwritten"]) == (10, 4, 6)


def test_a_snapshot_is_not_torn_while_replays_go_on():
    counting = Counting(1 << 16)
    probe = tap.Probe("mid", [tap.RecordAction(capacity=2)])
    graph = captured(lambda: probe(counting()))
    for _ in range(50):
        for _ in range(20):
            graph.replay()
        for each in probe.records():
            assert each.tensor.min() == each.tensor.max()
    torch.cuda.synchronize()
    probe.records()
    status = probe.status()
    assert status["published"] == 1000
    assert status["read"] + status["overwritten"] >= 1000


def test_what_follows_in_the_graph_cannot_change_what_was_recorded():
    x = torch.ones(1 << 16, device="cuda")
    probe = tap.Probe("mid", [tap.RecordAction()])

    def step():
        y = x * 2
        probe(y)
        y.zero_()
        del y
        torch.full_like(x, 7)  # takes the memory

    graph = captured(step)
    replay(graph, 3)
    assert all((each.tensor == 2).all() for each in probe.records())


def test_records_can_be_cleared_and_drained():
    counting = Counting(1)
    probe = tap.Probe("mid", [tap.RecordAction()])
    graph = captured(lambda: probe(counting()))
    replay(graph, 2)
    probe.clear_records()
    assert probe.records() == []
    graph.replay()
    seen = []
    assert tap.drain_records(probe, seen.append) == 1  # waits for the GPU itself
    assert [each.replay_index for each in seen] == [2]
    assert probe.records() == []


def test_fingerprint_only_copies_no_payload():
    x = torch.randn(1000, device="cuda")
    probe = tap.Probe("mid", [tap.RecordAction(level="fingerprint")])
    replay(captured(lambda: probe(x)))
    (found,) = probe.records()
    assert found.tensor is None
    cpu = tap.Probe("mid", [tap.RecordAction()], mode="always")
    cpu(x.cpu())
    assert found.hash == cpu.records()[0].hash
    assert found.stats["mean"] == pytest.approx(cpu.records()[0].stats["mean"], rel=1e-12)


# ---- invocations, captures, shapes ----


def test_several_calls_in_one_capture():
    x = torch.ones(2, device="cuda")
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Print(file=out), tap.Compare(torch.ones(2))])

    def step():
        probe(x)
        probe(x * 2)
        probe((x * 3).double().float())

    replay(captured(step), 2)
    found = [(each.replay_index, each.invocation, each.tensor[0].item()) for each in probe.records()]
    assert found == [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 0, 1), (1, 1, 2), (1, 2, 3)]
    assert probe.status()["sites"] == 3
    with pytest.raises(tap.CompareFailed, match="'mid::call2': 4 of 6 comparisons failed") as caught:
        probe.assert_ok()
    assert (caught.value.replay_index, caught.value.invocation) == (0, 1)
    probe.close()
    assert sorted(line.split(" [")[0] for line in out.getvalue().splitlines()) == [
        "mid #0", "mid #1", "mid::call2 #0", "mid::call2 #1", "mid::call3 #0", "mid::call3 #1",
    ]  # fmt: skip


def test_calls_of_different_shapes_in_one_capture():
    probe = tap.Probe("mid", [tap.RecordAction()])

    def step():
        probe(torch.ones(2, device="cuda"))
        probe(torch.ones(3, 3, device="cuda", dtype=torch.float64))

    replay(captured(step))
    assert [each.shape for each in probe.records()] == [(2,), (3, 3)]


def test_a_second_capture_is_refused():
    x = torch.ones(2, device="cuda")
    probe = tap.Probe("mid", [tap.RecordAction()])
    first = captured(lambda: probe(x))
    with pytest.raises(RuntimeError, match="part of a graph already: make a second Probe"):
        captured(lambda: probe(x))
    replay(first)
    assert len(probe.records()) == 1


def test_prepared_for_one_shape_and_captured_with_another():
    probe = tap.Probe("mid", [tap.RecordAction()])
    probe.prepare(torch.ones(4, device="cuda"))
    with pytest.raises(ValueError, match=r"float32 \[5\] on cuda:0.*prepared for float32 \[4\]"):
        captured(lambda: probe(torch.ones(5, device="cuda")), warm=False)
    x = torch.ones(4, device="cuda")
    replay(captured(lambda: probe(x), warm=False))
    assert values(probe) == [[1, 1, 1, 1]]


def test_another_shape_or_dtype_than_expected_is_an_error_at_capture():
    x = torch.ones(2, device="cuda")
    for expected in (torch.ones(3), torch.ones(2, dtype=torch.float64)):
        with pytest.raises(ValueError, match="they must have the same dtype and shape"):
            captured(lambda expected=expected: tap.Probe("mid", [tap.Compare(expected)])(x), warm=False)


def test_non_contiguous_tensors():
    x = torch.arange(6.0, device="cuda").view(2, 3).t()
    with pytest.raises(ValueError, match="non_contiguous='copy'"):
        captured(lambda: tap.Probe("mid", [tap.RecordAction()])(x), warm=False)
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(x.cpu())], non_contiguous="copy")
    head = tap.Probe("head", [tap.Print(max_items=3, file=out)], non_contiguous="copy")
    every_second = tap.Probe("half", [tap.RecordAction(), tap.Compare(x.cpu()[::2])], non_contiguous="copy")
    replay(captured(lambda: (probe(x), head(x), every_second(x[::2]))))
    probe.assert_ok()
    every_second.assert_ok()
    assert values(probe) == [x.tolist()]
    assert values(every_second) == [x[::2].tolist()]
    head.close()
    assert "head #0 [3, 2] float32 cuda:0: [0, 3, 1, …]" in out.getvalue()


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_tensors_without_elements_or_dimensions(shape):
    x = torch.ones(shape, device="cuda")
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Print(file=out), tap.Compare(torch.ones(shape))])
    replay(captured(lambda: probe(x)), 2)
    assert [each.tensor.shape for each in probe.records()] == [shape, shape]
    probe.assert_ok()
    assert probe.status()["comparisons"] == 2
    probe.close()
    assert out.getvalue().count("\n") == 2


@pytest.mark.parametrize("name", TORCH_DTYPES)
def test_every_dtype(name):
    dtype = TORCH_DTYPES[name]
    host = (torch.arange(5 * dtype.itemsize, dtype=torch.uint8) % 2).view(dtype)
    device = host.view(torch.uint8).cuda().view(dtype)
    out = io.StringIO()
    good = tap.Probe("good", [tap.RecordAction(), tap.Compare(host)])
    wrong = host.view(torch.uint8).clone()
    wrong[-1] ^= 1 if dtype is torch.bool else 2
    bad = tap.Probe("bad", [tap.Print(file=out), tap.Compare(wrong.view(dtype), rtol=0, atol=0)])
    replay(captured(lambda: (good(device), bad(device)), warm=False))
    (found,) = good.records()
    assert torch.equal(found.tensor.view(torch.uint8), host.view(torch.uint8))
    good.assert_ok()
    with pytest.raises(tap.CompareFailed) as caught:
        bad.assert_ok()
    on_cpu = tap.Probe("cpu", [tap.RecordAction(), tap.Compare(wrong.view(dtype), rtol=0, atol=0)], mode="always")
    on_cpu(host)
    with pytest.raises(tap.CompareFailed) as same:
        on_cpu.assert_ok()
    for what in ("element", "actual", "expected", "differing", "largest"):
        assert repr(getattr(caught.value, what)) == repr(getattr(same.value, what)), what
    assert found.hash == on_cpu.records()[0].hash
    bad.close()
    assert "bad #0 [5]" in out.getvalue()


# ---- comparing ----


def test_the_first_failure_stays_though_later_replays_agree():
    x = torch.ones(2, 3, device="cuda")
    probe = tap.Probe("mid", [tap.Compare(torch.ones(2, 3))])
    graph = captured(lambda: probe(x * 1))
    replay(graph)
    probe.assert_ok()
    x[1, 1] = 1.5
    x[1, 2] = 9
    replay(graph)
    x.fill_(1)
    replay(graph, 2)
    for _ in range(2):
        with pytest.raises(tap.CompareFailed) as caught:
            probe.assert_ok()
    failed = caught.value
    assert (failed.replay_index, failed.element, failed.actual, failed.expected) == (1, (1, 1), 1.5, 1.0)
    assert (failed.differing, failed.elements, failed.largest) == (2, 6, 8.0)
    assert (failed.failures, failed.comparisons) == (1, 4)
    probe.close()
    with pytest.raises(tap.CompareFailed):
        probe.assert_ok()


def test_every_replay_is_compared_though_the_host_never_looks():
    counting = Counting(3)
    probe = tap.Probe("mid", [tap.Compare(torch.full((3,), -1.0))])
    graph = captured(lambda: probe(counting()))
    replay(graph, 500)
    status = probe.status()
    assert (status["comparisons"], status["failures"], status["overwritten"]) == (500, 500, 0)


def test_a_difference_in_the_last_element_of_a_large_tensor_is_found():
    x = torch.zeros((1 << 20) + 3, device="cuda", dtype=torch.bfloat16)
    x[-1] = 1
    x[777_777] = -3
    probe = tap.Probe("mid", [tap.Compare(torch.zeros((1 << 20) + 3, dtype=torch.bfloat16))])
    replay(captured(lambda: probe(x)), 3)
    with pytest.raises(tap.CompareFailed) as caught:
        probe.assert_ok()
    failed = caught.value
    assert (failed.element, failed.actual, failed.differing, failed.largest) == ((777_777,), -3.0, 2, 3.0)
    assert failed.failures == 3


def test_finite_against_infinite_is_a_mismatch_and_nan_agrees_on_request():
    inf, nan = float("inf"), float("nan")

    def agrees(actual, expected, **options):
        x = torch.tensor([actual], device="cuda")
        probe = tap.Probe("mid", [tap.Compare(torch.tensor([expected]), **options)])
        replay(captured(lambda: probe(x), warm=False))
        return probe.status()["failures"] == 0

    assert not agrees(1.0, inf, rtol=1e30)
    assert not agrees(inf, 1.0, atol=inf)
    assert not agrees(inf, -inf)
    assert agrees(inf, inf)
    assert not agrees(nan, nan)
    assert agrees(nan, nan, equal_nan=True)
    assert not agrees(2**62 + 1, 2**62, rtol=1, atol=9)


def test_rows_from_a_device_tensor():
    x = torch.arange(8.0, device="cuda").view(4, 2)
    expected = torch.arange(8.0).view(4, 2)
    expected[3] = -1
    for dtype in (torch.int32, torch.int64):
        rows = torch.tensor(3, device="cuda", dtype=dtype)
        probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(expected)], rows=rows)
        graph = captured(lambda probe=probe: probe(x))
        replay(graph)
        probe.assert_ok()
        rows.fill_(1)
        replay(graph)
        rows.fill_(99)
        replay(graph)
        rows.fill_(-5)
        replay(graph)
        assert [each.shape for each in probe.records()] == [(3, 2), (1, 2), (4, 2), (0, 2)]
        assert values(probe)[1] == [[0, 1]]
        with pytest.raises(tap.CompareFailed) as caught:
            probe.assert_ok()
        assert (caught.value.replay_index, caught.value.element, caught.value.elements) == (2, (3, 0), 8)
        assert probe.status()["failures"] == 1


def test_rows_as_a_number():
    x = torch.ones(4, 2, device="cuda")
    x[2:] = float("nan")
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.ones(4, 2))], rows=2)
    replay(captured(lambda: probe(x)))
    probe.assert_ok()
    assert values(probe) == [[[1, 1], [1, 1]]]


# ---- printing ----


def test_exactly_every_so_many_replays_are_printed():
    counting = Counting(1)
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.Print(every=3, file=out)])
    replay(captured(lambda: probe(counting())), 8)
    probe.flush()
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["#0", "#3", "#6"]


def test_lines_appear_though_nobody_asks():
    counting = Counting(1)
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.Print(file=out)])
    replay(captured(lambda: probe(counting())), 2)
    for _ in range(500):
        if out.getvalue().count("\n") == 2:
            break
        time.sleep(0.01)
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["#0", "#1"]
    probe.close()


def test_what_could_not_be_printed_is_said():
    counting = Counting(1)
    out = io.StringIO()
    probe = tap.Probe("mid", [tap.RecordAction(capacity=1), tap.Print(file=out)])
    graph = captured(lambda: probe(counting()))
    with probe._lock:  # nobody reads
        replay(graph, 5)
    probe.flush()
    assert out.getvalue().splitlines()[0] == "mid: 4 not printed: replays came faster than they were read"
    assert probe.status()["not_printed"] == 4
    probe.close()
