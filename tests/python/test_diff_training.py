"""Two versions of a training step: an extra random draw, and an optimizer that treats a parameter differently."""

import pytest
import tensortap as tap
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, draws=0):
        super().__init__()
        self.draws = draws
        self.norm, self.fc, self.drop, self.head = (
            nn.LayerNorm(24),
            nn.Linear(24, 24),
            nn.Dropout(0.2),
            nn.Linear(24, 5),
        )

    def forward(self, x):
        x = self.fc(self.norm(x))
        for _ in range(self.draws):
            torch.rand(1)
        return self.head(self.drop(x))


def trained(directory, *, draws=0, decay=0.0, steps=1):
    torch.manual_seed(0)
    model = Model(draws)
    groups = [
        {"params": [model.norm.weight, model.norm.bias], "weight_decay": decay},
        {"params": [*model.fc.parameters(), *model.head.parameters()], "weight_decay": 0.1},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, foreach=False)
    x = torch.randn(6, 24)
    with tap.record(model, directory, ops=True, level="fingerprint", report=False) as recording:
        for _ in range(steps):
            with recording.step():
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
    return str(directory)


@pytest.mark.parametrize("sides", [(0, 1), (1, 0)], ids=["in B", "in A"])
def test_a_draw_that_only_one_side_makes_is_named_before_the_dropout_that_suffers(tmp_path, sides):
    a, b = (trained(tmp_path / str(i), draws=draws) for i, draws in enumerate(sides))
    found = tap.diff(a, b)
    assert found.verdict == "diverged"
    assert "aten::rand" in found.first.key, found.sentence
    assert f"which only {'AB'[sides[1] == 1]} has" in found.sentence
    assert f"only {'AB'[sides[1] == 1]} draws these random numbers" in found.first.reason


def test_draws_on_both_sides_are_not_blamed(tmp_path):
    a, b = (trained(tmp_path / str(i), draws=2) for i in range(2))
    assert tap.diff(a, b).verdict == "identical"


def test_the_parameter_that_an_optimizer_updates_is_told_by_the_module_that_used_it(tmp_path):
    a, b = trained(tmp_path / "a"), trained(tmp_path / "b", decay=0.1)
    found = tap.diff(a, b)
    assert found.verdict == "diverged"
    assert "mul_" in found.first.key, found.sentence
    assert any("argument 2 of norm:aten::native_layer_norm" in line for line in found.evidence), found.evidence
