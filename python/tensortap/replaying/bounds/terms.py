"""What an operator's result was made of: the sizes beside which it rounds."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Terms:
    """Of one result, as docs/measures.md has it: an error of so many steps of the dtype of sums, times these sizes.

    Attributes
    ----------
    sizes
        S: for each element the sum of the magnitudes of its terms.
    count
        n: how many terms make one element.
    steps
        How many steps of the dtype of sums a single term may be off by, besides √n.
    own
        The sizes of what is also rounded to the result's own dtype on the way, however narrow that is.
    absolute
        What the result may be off by besides, whatever its size.
    """

    sizes: torch.Tensor
    count: float = 1.0
    steps: float = 8.0
    own: torch.Tensor | None = None
    absolute: torch.Tensor | float = 0.0


def most(*values: float) -> float:
    """The largest of these, at least 1."""
    return max(1.0, *values)


def rounded_sums(sizes: torch.Tensor, count: float) -> torch.Tensor:
    """`Terms.own` of a sum whose partial sums are each rounded to the dtype of the result.

    Partial sums that grow evenly to S, each rounded by up to half a step, leave S · √n / 3 half steps as the spread of
    their sum. Six spreads are granted.
    """
    return 2 * sizes * most(count) ** 0.5
