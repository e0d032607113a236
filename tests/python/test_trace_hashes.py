"""Which changes of a tensor its hash tells, beside the two that DebugMode offers."""

import pytest
import tensortap as tap
import torch
from torch.utils._debug_mode import DebugMode

VALUES = torch.randn(6, 8, generator=torch.Generator().manual_seed(3))


def swapped_rows(x):
    return x[[0, 4, 2, 3, 1, 5]]


def permuted(x):
    return x.flatten()[torch.randperm(x.numel(), generator=torch.Generator().manual_seed(4))].view(x.shape)


def one_sign_flipped(x):
    y = x.clone()
    y[2, 3] = -y[2, 3]
    return y


def two_signs_flipped(x):
    y = one_sign_flipped(x)
    y[5, 1] = -y[5, 1]
    return y


# The change, and which of DebugMode's hashes tell it.
CHANGES = [
    (swapped_rows, set()),
    (permuted, set()),
    (two_signs_flipped, set()),
    (one_sign_flipped, {"hash_tensor"}),
    (torch.clone, set()),
]


def tap_hash(x):
    with tap.trace(hashes=True) as trace:
        x + 0
    (event,) = trace.events
    return [trace.recorded.records[use.record].hash for use in event.uses]


def debug_mode_hash(x, kind):
    with DebugMode() as mode, DebugMode.log_tensor_hashes(hash_fn=kind, hash_inputs=True):
        x + 0
    (call,) = [call for call in mode.operators if str(call.op) == "aten.add.Tensor"]
    return call.log["input_hash"][0][0], call.log["hash"]


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=lambda given: getattr(given, "__name__", None))
def test_a_change_of_order_or_sign_is_told(change, told):
    changed = change(VALUES)
    assert (tap_hash(changed) == tap_hash(VALUES)) == torch.equal(changed, VALUES)
    theirs = {
        kind for kind in ("norm", "hash_tensor") if debug_mode_hash(changed, kind) != debug_mode_hash(VALUES, kind)
    }
    assert theirs == told


def test_the_hash_is_that_of_the_values_whatever_the_strides():
    other_way = VALUES.t().contiguous().t()
    assert other_way.stride() != VALUES.stride()
    assert tap_hash(other_way) == tap_hash(VALUES)


@pytest.mark.parametrize("level", ["fingerprint", "full"])
def test_a_diff_finds_the_operator_that_swapped_rows(level):
    def run(rows):
        with tap.trace(level=level) as trace:
            VALUES.relu()[torch.tensor(rows)].sum(dim=0)
        return trace

    found = tap.diff(run([0, 1, 2, 3, 4, 5]), run([0, 4, 2, 3, 1, 5]), filter="index|sum")
    assert not found.same
    assert found.first.key == "aten::index.Tensor"
    if level == "full":
        assert found.first.verdict == "diverged"
        assert found["aten::sum.dim_IntList"].verdict != "diverged"
