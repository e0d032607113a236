"""Values that mean "masked" are compared as a mask, whatever number means it."""

import tensortap as tap
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self, lowest, first):
        super().__init__()
        self.lowest, self.first = lowest, first

    def forward(self, scores):
        return scores + torch.full((20, 20), self.lowest).triu(self.first)


def recorded(directory, dtype, first):
    torch.manual_seed(0)
    model = Masked(torch.finfo(dtype).min, first)
    with tap.record(model, directory, ops=True, level="full", report=False):
        model(torch.randn(20, 20))
    return directory


def test_scores_to_which_the_mask_of_a_narrow_dtype_was_added_are_masked(tmp_path):
    """In f32, where the mask of the other side is the lowest value and takes all of the score."""
    a = recorded(tmp_path / "a", torch.float32, 1)
    b = recorded(tmp_path / "b", torch.float16, 1)
    late = recorded(tmp_path / "c", torch.float16, 2)
    assert tap.diff(a, b)["Masked:aten::add.Tensor"].verdict in ("identical", "within tolerance")
    assert tap.diff(a, late)["Masked:aten::add.Tensor"].verdict == "diverged"
