"""What engines do that is no difference: handles, other arguments; and what carries a difference from step to step."""

import pytest
import tensortap as tap
import torch
from torch import nn


class WithHandle(nn.Module):
    """Hands a value on with an integer that some library made."""

    def __init__(self, handle):
        super().__init__()
        self.inner = nn.Identity()
        self.handle = nn.Identity()
        self.number = handle

    def forward(self, x):
        self.handle(torch.tensor(self.number))
        return self.inner(x)


def record(model, directory, *steps, **options):
    with tap.record(model, directory, report=False, **options), torch.no_grad():
        for step in steps:
            model(*step) if isinstance(step, tuple) else model(step)
    return directory


@pytest.mark.parametrize("level", ["full", "fingerprint"])
def test_addresses_are_others_in_every_process(level, tmp_path):
    x = torch.arange(4.0)
    record(WithHandle(0x55E4_1234_5670), tmp_path / "a", x, level=level)
    record(WithHandle(0x7F12_0000_0010), tmp_path / "b", x, level=level)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert found.verdict == "identical", found
    assert [tensor.note for tensor in found.tensors if tensor.key == "handle"] == [
        "addresses of memory, which are others in every process"
    ]
    # Without guesses an integer is an integer.
    assert tap.diff(tmp_path / "a", tmp_path / "b", strict=True).verdict in ("diverged", "inconclusive")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (5, 7),  # small
        (1_760_000_000_000, 1_760_000_000_016),  # milliseconds
        (1_760_000_000_000_000_000, 1_760_000_000_000_000_016),  # nanoseconds
        (0x7F12_0000_0010, 7),  # one of them only
        (0x7F12_0000_0011, 0x7F12_0000_0010),  # not aligned
    ],
)
def test_other_integers_are_no_addresses(a, b, tmp_path):
    x = torch.arange(4.0)
    record(WithHandle(a), tmp_path / "a", x)
    record(WithHandle(b), tmp_path / "b", x)
    assert tap.diff(tmp_path / "a", tmp_path / "b").first.key == "handle"


def test_what_differs_in_an_earlier_step_comes_first(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    record(model, tmp_path / "a", x, y)
    wrong = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    wrong.load_state_dict(model.state_dict())
    with tap.record(wrong, tmp_path / "b", report=False), torch.no_grad():
        wrong(x + 1)  # from here on, who knows what a cache holds
        wrong[1].weight.mul_(1.5)
        wrong(y)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert "1" in {tensor.key for tensor in found.introduced}  # in the second step
    assert found.first.key == "0"
    assert "the runs first differ at 0" in found.sentence


class Layer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, hidden):
        return self.inner(hidden)


class EngineLayer(Layer):
    def forward(self, positions, hidden):
        return self.inner(hidden)


def test_activations_are_not_compared_with_positions(tmp_path):
    torch.manual_seed(0)
    inner = nn.Linear(4, 4)
    x = torch.randn(3, 4)
    record(Layer(inner), tmp_path / "a", x, modules="all", roles=["in", "out"])
    record(EngineLayer(inner), tmp_path / "b", (torch.arange(3), x), modules="all", roles=["in", "out"])
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert all(tensor.verdict != "shape mismatch" for tensor in found.tensors), found
    assert found.verdict == "identical", found
