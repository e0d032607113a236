"""Graphs that draw random numbers, held against a backend: a mistake beside the numbers is found all the same."""

import torch
from checked_graphs import Checking, compiled
from torch.nn import functional


def elu_for_relu(module, inputs):
    for node in module.graph.nodes:
        if node.target is torch.relu:
            node.target = functional.elu
    module.recompile()
    return module.forward


def test_a_mistake_after_random_numbers_is_found_and_cut_down():
    backend = Checking(elu_for_relu)
    compiled(lambda x: torch.relu(functional.dropout(x, 0.5) - 1).sin(), backend)(torch.randn(8, 8))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["relu"]
    (line,) = backend.lines
    assert "output 0 differs" in line


def test_a_mistake_before_random_numbers_is_found():
    backend = Checking(elu_for_relu)
    compiled(lambda x: functional.dropout(torch.relu(x), 0.5), backend)(torch.randn(8, 8))
    (mismatch,) = backend.mismatches
    assert mismatch.reduced.nodes == ["relu"]


def test_other_random_numbers_are_no_mistake_however_often():
    def other_numbers(module, inputs):
        def run(*given):
            torch.rand(1)
            return module.forward(*given)

        return run

    backend = Checking(other_numbers)
    run = compiled(lambda x: functional.dropout(torch.relu(x), 0.5).sin(), backend)
    for _ in range(3):
        run(torch.randn(8, 8))
    assert backend.mismatches == []
    (line,) = backend.lines
    assert "cannot be compared: %dropout draws random numbers" in line
