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


class Engine(nn.Module):
    """The core holds what the model holds already: each projection has two names there."""

    def __init__(self, shared, factor=1.0):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)
        self.shared, self.factor = shared, factor
        if shared:
            self.core = nn.Module()
            self.core.up, self.core.down = self.up, self.down

    def forward(self, x):
        return self.down(self.up(x) * self.factor)


def test_a_module_of_two_names_is_not_left_over_under_the_other(tmp_path):
    x = torch.randn(3, 4)
    for name, shared in (("a", False), ("b", True)):
        torch.manual_seed(0)
        record(Engine(shared), tmp_path / name, x)
    keys = {tensor.key: tensor.verdict for tensor in tap.diff(tmp_path / "a", tmp_path / "b").tensors}
    assert keys == {"up": "identical", "down": "identical"}
    # Without a counterpart both names are told.
    record(nn.Sequential(nn.Identity()), tmp_path / "c", torch.arange(5))
    extra = {tensor.key for tensor in tap.diff(tmp_path / "c", tmp_path / "b").tensors if tensor.verdict == "extra"}
    assert extra == {"up", "core.up", "down", "core.down"}


def test_what_an_engine_computes_beside_a_module_is_a_result_of_it(tmp_path):
    torch.manual_seed(0)
    gate, x = nn.Linear(4, 6), torch.randn(3, 4)
    for roles in ("out", "in,out"):
        with tap.record({"gate": gate}, tmp_path / roles, report=False, roles=roles) as recording, recording.step():
            logits = gate(x)
            weights, experts = logits.softmax(-1).topk(2)
            recording.add_results(gate, [("/1", weights), ("/2", experts)])
            recording.add_results(nn.Linear(1, 1), [("/1", weights)])  # which nobody records
        (run,) = tap.open(tmp_path / roles).ranks
        assert sorted(key for key in run.passes[0] if "@" not in key) == ["gate", "gate/1", "gate/2"]
        assert torch.equal(torch.as_tensor(run.passes[0]["gate/2"]), experts)
        recording.add_results(gate, [("/1", weights)])  # it is over
