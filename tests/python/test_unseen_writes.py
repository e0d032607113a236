"""Programs that write to tensors without telling PyTorch, and `unseen_writes=True`."""

import pytest
import tensortap as tap
import torch
from small_models import passes_of
from torch import nn

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")),
]


def write_unseen(tensor, value):
    """As an extension does that has only the address."""
    if tensor.device.type == "cpu":
        tensor.numpy()[:] = value
    else:
        tensor.data.fill_(value)  # `.data` has a version counter of its own


def maxima(recorded, operator):
    """The largest element of the first argument of each call of the operator."""
    calls = [event for event in recorded.events if operator in event.name]
    return [recorded.records[call.uses[0].record].stats["max"] for call in calls]


def program(x):
    x * 1
    write_unseen(x, 5)
    x * 1


@pytest.mark.parametrize("device", DEVICES)
def test_every_argument_is_read_at_every_call(device, tmp_path):
    with tap.trace(hashes=True, unseen_writes=True, filter="mul") as trace:
        program(torch.ones(3, device=device))
    assert maxima(trace.recorded, "aten::mul") == [1.0, 5.0]
    model = nn.Identity()
    options = {"ops": True, "unseen_writes": True, "report": False, "step": "manual"}
    with tap.record(model, tmp_path, **options) as recording, recording.step():
        program(torch.ones(3, device=device))
    assert maxima(passes_of(tmp_path)[0], "aten::mul") == [1.0, 5.0]


def test_what_nobody_wrote_to_stays_the_value_that_it_was():
    x = torch.arange(6.0)
    with tap.trace(hashes=True, unseen_writes=True) as trace:
        y = x * 2
        y + x
    multiply, add = trace.events
    assert add.uses[0].record == multiply.uses[-1].record  # y, which the first call made
    assert add.uses[1].record == multiply.uses[0].record


def test_an_unseen_write_is_not_seen_by_default():
    with tap.trace(hashes=True, filter="mul") as trace:
        program(torch.ones(3))
    assert maxima(trace.recorded, "aten::mul") == [1.0, 1.0]


@pytest.mark.parametrize("device", DEVICES)
def test_modules_see_what_was_written_past_pytorch(device, tmp_path):
    model = nn.Identity()
    x = torch.ones(3, device=device)
    with tap.record(model, tmp_path, level="fingerprint", report=False):
        model(x)
        write_unseen(x, 5)
        model(x)
    first, second = (each.records[0] for each in passes_of(tmp_path).values())
    assert (first.stats["max"], second.stats["max"]) == (1.0, 5.0)
