"""Probes that compare, and probes that record into runs; on the CPU, in mode "always"."""

import subprocess
import sys

import numpy as np
import pytest
import tensortap as tap
import torch


def always(*actions, **options):
    return tap.Probe("mid", actions, mode="always", **options)


# ---- comparing ----


def test_the_first_failure_stays():
    expected = torch.tensor([[1.0, 2], [3, 4]])
    probe = always(tap.Compare(expected))
    probe(expected)
    probe.assert_ok()
    probe(expected + torch.tensor([[0, 0], [0.5, -2]]))
    probe(expected + 7)
    probe(expected)
    for _ in range(2):  # reading it does not clear it
        with pytest.raises(tap.CompareFailed, match=r"'mid': 2 of 4 comparisons failed, first replay 1") as caught:
            probe.assert_ok()
    failed = caught.value
    assert isinstance(failed, AssertionError)
    assert (failed.probe_name, failed.replay_index, failed.invocation) == ("mid", 1, 0)
    assert (failed.element, failed.actual, failed.expected) == ((1, 0), 3.5, 3.0)
    assert (failed.differing, failed.elements, failed.largest) == (2, 4, 2.0)
    assert (failed.failures, failed.comparisons) == (2, 4)
    probe.close()
    with pytest.raises(tap.CompareFailed):
        probe.assert_ok()


def agrees(actual, expected, **options):
    probe = always(tap.Compare(expected, **options))
    probe(actual)
    return probe.status()["failures"] == 0


def test_what_is_close():
    one = torch.tensor([1.0], dtype=torch.float64)
    assert agrees(one + 0.9e-5, one)
    assert not agrees(one + 1.2e-5, one)
    assert agrees(one + 0.4, one, rtol=0, atol=0.5)
    assert agrees(-0.0 * one, 0.0 * one, rtol=0, atol=0)


def test_finite_against_infinite_is_a_mismatch_whatever_the_tolerance():
    inf = torch.tensor([float("inf")])
    assert not agrees(torch.tensor([1.0]), inf, rtol=1e30)
    assert not agrees(inf, torch.tensor([1.0]), atol=float("inf"))
    assert not agrees(inf, -inf, rtol=1)
    assert agrees(inf, inf)


def test_nan_agrees_with_nan_on_request():
    nan = torch.tensor([float("nan")])
    assert not agrees(nan, nan)
    assert agrees(nan, nan, equal_nan=True)
    assert not agrees(nan, torch.tensor([0.0]), equal_nan=True)


def test_integers_are_compared_exactly():
    large = torch.tensor([2**62 + 1])
    assert not agrees(large, large - 1, rtol=1, atol=9)  # the same as doubles
    assert agrees(large, large.clone())
    with pytest.raises(tap.CompareFailed) as caught:
        probe = always(tap.Compare(torch.tensor([-(2**63)])))
        probe(torch.tensor([2**63 - 1]))
        probe.assert_ok()
    assert caught.value.actual == 2**63 - 1
    assert caught.value.largest == 2.0**64


def test_both_parts_of_a_complex_number_count():
    assert not agrees(torch.tensor([1 + 2j]), torch.tensor([1 + 3j]))
    assert not agrees(torch.tensor([2 + 3j]), torch.tensor([1 + 3j]))


def test_numpy_arrays_are_expected_too():
    expected = np.arange(3, dtype=np.float32)
    compare = tap.Compare(expected)
    expected += 1  # it was copied
    probe = always(compare)
    probe(torch.arange(3, dtype=torch.float32))
    probe.assert_ok()


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(2, 1), torch.ones(2, dtype=torch.float64)])
def test_another_shape_or_dtype_is_an_error(wrong):
    with pytest.raises(ValueError, match=r"'mid': the tensor is .*, the expected one float32 \[2\]"):
        always(tap.Compare(torch.ones(2)))(wrong)


# ---- runs ----


def test_records_go_to_a_run_directory_as_passes(tmp_path):
    with always(tap.RecordAction(capacity=1, to=tmp_path / "dump")) as probe:
        for i in range(3):
            probe(torch.full((2,), float(i)))
    (rank,) = tap.open(tmp_path / "dump").ranks
    assert [recorded["mid"].tolist() for recorded in rank.passes.values()] == [[0, 0], [1, 1], [2, 2]]
    assert [recorded.ending for recorded in rank.passes.values()] == ["complete"] * 3
    (event,) = rank.passes[0].events
    assert (event.name, event.kind) == ("mid", "probe")
    assert rank.coverage["tensors"] == 3
    assert probe.status()["overwritten"] == 0  # it is all in the run


def test_at_level_fingerprint_the_run_holds_fingerprints(tmp_path):
    with always(tap.RecordAction(level="fingerprint", to=tmp_path)) as probe:
        probe(torch.ones(2, 3))
    (record,) = tap.open(tmp_path).ranks[0].passes[0].records
    assert (record.level, record.has_bytes, record.shape) == ("fingerprint", False, (2, 3))
    assert record.stats["l1"] == 6
    assert record.hash == probe.records()[0].hash


def test_two_probes_share_a_run(tmp_path):
    first = tap.Probe("first", [tap.RecordAction(to=tmp_path)], mode="always")
    second = tap.Probe("second", [tap.RecordAction(to=str(tmp_path))], mode="always")
    first(torch.ones(1))
    first.close()
    second(torch.zeros(1))
    second.close()
    (rank,) = tap.open(tmp_path).ranks
    assert [list(recorded) for recorded in rank.passes.values()] == [["first"], ["second"]]


def test_an_open_recording_takes_them_too(tmp_path):
    model = torch.nn.Linear(2, 2)
    with tap.record(model, tmp_path, report=False) as recording:
        probe = always(tap.RecordAction(to=recording))
        model(probe(torch.ones(2)))
        probe.close()
    (rank,) = tap.open(tmp_path).ranks
    assert [recorded["mid"].tolist() for recorded in rank.passes.values() if "mid" in recorded] == [[1, 1]]
    assert len(rank.passes) == 2  # the forward is one of its own
    with pytest.raises(ValueError, match="closed"):
        always(tap.RecordAction(to=recording))


def test_a_recording_that_is_closed_first_is_said(tmp_path):
    with tap.record(torch.nn.Linear(2, 2), tmp_path, report=False) as recording:
        probe = always(tap.RecordAction(to=recording))
    probe(torch.ones(2))
    with pytest.warns(UserWarning, match="'mid': the recording it wrote to was closed before it"):
        probe.close()


def test_a_run_is_whole_though_nobody_closed_the_probe(tmp_path):
    code = """
import sys, torch, tensortap as tap
probe = tap.Probe("mid", [tap.RecordAction(to=sys.argv[1])], mode="always")
probe(torch.ones(2))
"""
    result = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    (rank,) = tap.open(tmp_path).ranks
    assert rank.passes[0]["mid"].tolist() == [1, 1]
    assert rank.coverage["tensors"] == 1


def test_compare_with_a_recorded_run(tmp_path):
    with always(tap.RecordAction(to=tmp_path)) as probe:
        probe(torch.ones(2))
        probe(torch.full((2,), 5.0))
    second = always(tap.Compare(run=tmp_path, key="mid", pass_number=1))
    second(torch.full((2,), 5.0))
    second.assert_ok()
    second(torch.ones(2))
    with pytest.raises(tap.CompareFailed):
        second.assert_ok()


def test_what_a_run_does_not_hold_is_said_at_once(tmp_path):
    with always(tap.RecordAction(level="fingerprint", to=tmp_path)) as probe:
        probe(torch.ones(2))
    with pytest.raises(KeyError, match=r"'mud' is not in .*near it: mid"):
        tap.Compare(run=tmp_path, key="mud")
    with pytest.raises(KeyError, match="no pass 7"):
        tap.Compare(run=tmp_path, key="mid", pass_number=7)
    with pytest.raises(ValueError, match="no rank 3"):
        tap.Compare(run=tmp_path, key="mid", rank=3)
    with pytest.raises(ValueError, match="record it at level full"):
        tap.Compare(run=tmp_path, key="mid")
