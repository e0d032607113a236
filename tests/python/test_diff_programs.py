"""What is said of two programs of which one has an operator that the other has not."""

import torch

import tensortap as tap


def traced(program):
    with tap.trace(level="full") as trace:
        program()
    return trace


def test_a_division_that_was_forgotten_is_not_taken_for_the_ones_that_a_backward_begins_with():
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def step(parts):
        layer.zero_grad(set_to_none=True)
        loss = layer(x).pow(2).mean()
        (loss / parts if parts else loss).backward()

    found = tap.diff(traced(lambda: step(4)), traced(lambda: step(None)))
    assert found.sentence == "diverged: the error begins at backward:aten::div.Tensor, which only A has"
    found = tap.diff(traced(lambda: step(None)), traced(lambda: step(4)))
    assert found.sentence == "diverged: the error begins at backward:aten::div.Tensor, which only B has"
