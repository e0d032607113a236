"""Probes on the CPU, in mode "always": the same code and the same meaning as inside a CUDA graph."""

import io
import threading

import numpy as np
import pytest
import tensortap as tap
import torch
from tensortap.tensors.dtypes import TORCH_DTYPES


def always(*actions, **options):
    return tap.Probe("mid", actions, mode="always", **options)


def sample(dtype, shape=(2, 3)):
    """A tensor of any dtype, by its bytes; none of them is NaN or infinite."""
    count = int(np.prod(shape)) * dtype.itemsize
    return (torch.arange(count, dtype=torch.uint8) % 2).view(dtype).view(shape)


# ---- what it does to the model ----


def test_the_very_same_tensor_comes_back():
    x = torch.ones(3)
    probe = always(tap.RecordAction(), tap.Compare(x + 1))
    assert probe(x) is x
    assert torch.equal(x, torch.ones(3))


def test_outside_a_capture_it_does_nothing_by_default():
    probe = tap.Probe("mid", [tap.RecordAction(), tap.Compare(torch.ones(3))])
    for odd in (torch.ones(5), torch.ones(2, 3).t(), "no tensor", None):
        assert probe(odd) is odd
    assert probe.records() == []
    assert set(probe.status().values()) == {0}
    probe.assert_ok()


def test_with_every_action_disabled_it_does_nothing(tmp_path):
    off = [tap.Print(enabled=False), tap.RecordAction(to=tmp_path / "nowhere", enabled=False)]
    off += [tap.Compare(run=tmp_path / "missing", key="k", enabled=False)]
    threads = threading.active_count()
    probe = tap.Probe("mid", off, mode="always")
    thing = object()  # it looks at nothing, whatever it is given
    assert probe(thing) is thing
    assert probe.attach_grad(thing) is thing
    assert probe.attach_grad(thing, return_handle=True)[1].remove() is None
    probe.prepare(thing)
    probe.assert_ok()
    probe.clear_records()
    probe.close()
    assert probe.records() == []
    assert threading.active_count() == threads
    assert list(tmp_path.iterdir()) == []


def test_a_closed_probe_does_nothing():
    probe = always(tap.RecordAction())
    probe(torch.ones(1))
    probe.close()
    probe(torch.ones(2))
    probe.close()
    assert [each.shape for each in probe.records()] == [(1,)]


def test_it_works_in_compiled_code():
    probe = always(tap.RecordAction())
    torch._dynamo.reset()
    out = torch.compile(lambda x: probe(x * 2) + 1, backend="eager")(torch.ones(2))
    assert out.tolist() == [3, 3]
    assert probe.records()[0].tensor.tolist() == [2, 2]


# ---- recording ----


def test_snapshots_say_what_was_seen():
    x = torch.arange(6.0).view(2, 3)
    probe = always(tap.RecordAction())
    probe(x)
    x.add_(1)  # later changes do not show
    (found,) = probe.records()
    assert (found.probe_name, found.replay_index, found.invocation, found.eager) == ("mid", 0, 0, True)
    assert (found.shape, found.dtype, found.device) == ((2, 3), torch.float32, torch.device("cpu"))
    assert torch.equal(found.tensor, torch.arange(6.0).view(2, 3))
    assert found.stats["mean"] == 2.5
    assert len(found.hash) == 32


def test_the_last_ones_are_kept_and_those_nobody_saw_are_counted():
    probe = always(tap.RecordAction(capacity=2))
    for i in range(5):
        probe(torch.tensor([i]))
    assert [(each.replay_index, each.tensor.item()) for each in probe.records()] == [(3, 3), (4, 4)]
    assert probe.status()["overwritten"] == 3
    probe(torch.tensor([5]))  # pushes out one that was seen
    assert probe.status()["overwritten"] == 3


def test_records_can_be_cleared_and_go_on_counting():
    probe = always(tap.RecordAction())
    probe(torch.ones(1))
    probe.clear_records()
    assert probe.records() == []
    probe(torch.ones(1))
    assert [each.replay_index for each in probe.records()] == [1]


def test_at_level_fingerprint_there_are_no_bytes():
    probe = always(tap.RecordAction(level="fingerprint"))
    probe(torch.ones(4))
    (found,) = probe.records()
    assert found.tensor is None
    assert found.stats["l1"] == 4
    full = always(tap.RecordAction())
    full(torch.ones(4))
    assert found.hash == full.records()[0].hash


@pytest.mark.parametrize("name", TORCH_DTYPES)
def test_every_dtype(name):
    x = sample(TORCH_DTYPES[name])
    out = io.StringIO()
    probe = always(tap.Print(file=out), tap.RecordAction(), tap.Compare(x))
    probe(x)
    probe.assert_ok()
    (found,) = probe.records()
    assert found.dtype is x.dtype
    assert torch.equal(found.tensor.view(torch.uint8), x.view(torch.uint8))
    assert f"mid #0 [2, 3] {str(x.dtype).removeprefix('torch.')} cpu: [" in out.getvalue()


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_tensors_without_elements_or_dimensions(shape):
    x = torch.ones(shape)
    out = io.StringIO()
    probe = always(tap.Print(file=out), tap.RecordAction(), tap.Compare(x))
    probe(x)
    probe.assert_ok()
    assert probe.records()[0].tensor.shape == shape
    assert probe.status()["comparisons"] == 1
    assert out.getvalue().startswith(f"mid #0 {list(shape)} float32 cpu: [")


def test_a_shape_may_change_from_call_to_call():
    probe = always(tap.RecordAction())
    probe(torch.ones(2))
    probe(torch.ones(3, 3, dtype=torch.float64))
    assert [each.shape for each in probe.records()] == [(2,), (3, 3)]


def test_non_contiguous_is_an_error_or_looked_at_in_the_order_of_its_indices():
    x = torch.arange(6.0).view(2, 3).t()
    with pytest.raises(ValueError, match=r"non-contiguous tensor \(float32 \[3, 2\].*non_contiguous='copy'"):
        always(tap.RecordAction())(x)
    probe = always(tap.RecordAction(), tap.Compare(x), non_contiguous="copy")
    assert probe(x) is x
    probe.assert_ok()
    assert torch.equal(probe.records()[0].tensor, x)
    assert probe.records()[0].tensor.is_contiguous()


def test_a_conjugate_that_is_still_to_be_applied():
    x = torch.tensor([1 + 2j]).conj()
    with pytest.raises(ValueError, match="conjugation"):
        always(tap.RecordAction())(x)
    probe = always(tap.RecordAction(), non_contiguous="copy")
    probe(x)
    assert probe.records()[0].tensor.tolist() == [1 - 2j]


@pytest.mark.parametrize("rows", [2, torch.tensor(2), torch.tensor([2], dtype=torch.int32)])
def test_only_live_rows_are_looked_at(rows):
    x = torch.tensor([[1.0, 2], [3, 4], [float("nan"), 9]])
    expected = torch.tensor([[1.0, 2], [3, 4], [0, 0]])
    probe = always(tap.RecordAction(), tap.Compare(expected), rows=rows)
    probe(x)
    probe.assert_ok()
    (found,) = probe.records()
    assert (found.shape, found.stats["nan"]) == ((2, 2), 0)
    assert torch.equal(found.tensor, x[:2])


def test_more_rows_than_there_are_means_all_and_fewer_than_none_means_none():
    for rows, live in ((9, 3), (-1, 0)):
        probe = always(tap.RecordAction(), rows=rows)
        probe(torch.ones(3, 2))
        assert probe.records()[0].shape == (live, 2)
    with pytest.raises(ValueError, match="first axis"):
        always(tap.RecordAction(), rows=1)(torch.tensor(1.0))


# ---- printing ----


def test_a_line_says_what_is_in_the_tensor():
    out = io.StringIO()
    probe = always(tap.Print(max_items=3, file=out))
    probe(torch.tensor([1.0, float("nan"), float("-inf"), 4]))
    probe(torch.tensor([True, False]))
    assert out.getvalue() == (
        "mid #0 [4] float32 cpu: [1, nan, -inf, …] min 1 max 4 mean 2.5 nan 1 inf 1\n"
        "mid #1 [2] bool cpu: [True, False] min 0 max 1 mean 0.5 nan 0 inf 0\n"
    )


def test_every_so_many_are_printed_and_stderr_is_the_default(capsys):
    probe = always(tap.Print(every=3))
    for _ in range(7):
        probe(torch.ones(1))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["#0", "#3", "#6"]


def test_a_file_that_cannot_be_written_does_not_reach_the_model():
    closed = io.StringIO()
    closed.close()
    x = torch.ones(1)
    assert always(tap.Print(file=closed))(x) is x


# ---- gradients ----


def test_the_gradient_of_an_activation_and_of_a_parameter():
    weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    of_hidden, of_weight = always(tap.RecordAction()), always(tap.RecordAction())
    hidden = weight * torch.tensor([1.0, 10.0])
    assert of_hidden.attach_grad(hidden) is hidden
    of_weight.attach_grad(weight)
    (hidden * torch.tensor([5.0, 7.0])).sum().backward()
    assert of_hidden.records()[0].tensor.tolist() == [5, 7]
    assert of_weight.records()[0].tensor.tolist() == [5, 70]
    assert weight.grad.tolist() == [5, 70]  # as without


def test_a_hook_can_be_taken_off():
    weight = torch.nn.Parameter(torch.ones(2))
    probe = always(tap.RecordAction())
    same, handle = probe.attach_grad(weight, return_handle=True)
    assert same is weight
    handle.remove()
    weight.sum().backward()
    assert probe.records() == []


def test_what_has_no_gradient_cannot_be_attached_to():
    with pytest.raises(ValueError, match="requires no gradient"):
        always(tap.RecordAction()).attach_grad(torch.ones(2))


# ---- consumers ----


def test_drained_records_are_gone():
    probe = always(tap.RecordAction())
    for i in range(3):
        probe(torch.tensor([i]))
    seen = []
    assert tap.drain_records(probe, lambda each: seen.append(each.tensor.item())) == 3
    assert seen == [0, 1, 2]
    assert probe.records() == []


def test_when_the_consumer_fails_nothing_is_lost():
    probe = always(tap.RecordAction())
    probe(torch.ones(1))
    with pytest.raises(ZeroDivisionError):
        tap.drain_records(probe, lambda each: 1 / 0)
    assert len(probe.records()) == 1


# ---- mistakes ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tap.Probe("", []), "name"),
        (lambda: tap.Probe("p", [], mode="eager"), "capture, always"),
        (lambda: tap.Probe("p", [], non_contiguous="ok"), "error, copy"),
        (lambda: tap.Probe("p", [tap.RecordAction(), tap.RecordAction()]), "one of each kind"),
        (lambda: tap.Print(every=0), "every"),
        (lambda: tap.Print(max_items=-1), "max_items"),
        (lambda: tap.RecordAction(capacity=0), "capacity"),
        (lambda: tap.RecordAction(level="meta"), "full, fingerprint"),
        (lambda: tap.Compare(), "either the expected tensor"),
        (lambda: tap.Compare(torch.ones(1), run="r", key="k"), "either the expected tensor"),
        (lambda: tap.Compare(run="r"), "key="),
        (lambda: tap.Compare(torch.ones(1), rtol=-1), "not negative"),
        (lambda: tap.Compare(torch.ones(1, device="meta")), "on meta"),
        (lambda: always(tap.RecordAction())(torch.ones(1, device="meta")), "meta tensor has no values"),
        (lambda: always(tap.RecordAction())(torch.ones(1, 1).to_sparse()), "only dense tensors"),
        (lambda: tap.Probe("p", [tap.RecordAction()]).prepare(torch.ones(1)), "never part of a CUDA graph"),
    ],
)
def test_a_mistake_is_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_cuda_tensor_where_there_is_no_gpu_is_an_error_that_says_why():
    class OnGpu(torch.Tensor):
        is_cuda = True

    x = torch.ones(2).as_subclass(OnGpu)
    tap.Probe("mid", [tap.RecordAction()])(x)  # nothing is captured: nothing is asked
    for look in (tap.Probe("mid", [tap.RecordAction()]).prepare, always(tap.RecordAction())):
        with pytest.raises(RuntimeError, match=r"'mid': a CUDA tensor cannot be probed here: (no|built|the) "):
            look(x)


def test_what_is_no_tensor_is_said():
    with pytest.raises(TypeError, match="list is no tensor"):
        always(tap.RecordAction())([1, 2])
    with pytest.raises(TypeError, match="list is expected"):
        tap.Compare([1, 2])


def test_prepare_on_the_cpu_checks_the_tensor():
    always(tap.RecordAction()).prepare(torch.ones(2))
    with pytest.raises(ValueError, match="non-contiguous"):
        always(tap.RecordAction()).prepare(torch.ones(2, 3).t())
