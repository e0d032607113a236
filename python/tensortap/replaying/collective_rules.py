"""What a collective makes of what the ranks gave to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import torch

from tensortap.replaying.operators import OpName


class Rule(Enum):
    """How a result follows from the contributions."""

    REDUCE = auto()  # all of them, element by element
    REDUCE_PART = auto()  # likewise, of which each rank gets a part
    COPY = auto()  # one of them
    JOIN = auto()  # one behind the other
    EXCHANGE = auto()  # of each the part for the rank that receives
    WAIT = auto()  # what another call makes, handed on


# By the name without the `_` of what is written in place.
_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("allreduce", "allreduce_coalesced", "all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter"),
        Rule.REDUCE,
    ),
    **dict.fromkeys(
        ("_reduce_scatter_base", "reduce_scatter_tensor", "reduce_scatter_tensor_out",
         "reduce_scatter_tensor_coalesced"), Rule.REDUCE_PART),
    **dict.fromkeys(("allgather", "gather", "broadcast", "scatter", "alltoall", "recv", "irecv"), Rule.COPY),
    **dict.fromkeys(
        ("_allgather_base", "all_gather_into_tensor", "all_gather_into_tensor_out", "all_gather_into_tensor_coalesced",
         "allgather_into_tensor_coalesced"), Rule.JOIN),
    **dict.fromkeys(("alltoall_base", "all_to_all_single"), Rule.EXCHANGE),
    **dict.fromkeys(("wait_tensor", "_wrap_tensor_autograd"), Rule.WAIT),
}  # fmt: skip

Reduction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# By the words of `ReduceOp`; AVG is a sum that is divided.
REDUCTIONS: dict[str, Reduction] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


@dataclass(frozen=True)
class Making:
    """How one result is made.

    Attributes
    ----------
    rule, reduction
        The latter is a key of REDUCTIONS; empty where nothing is reduced.
    numbers
        The contributions, in the order of the ranks, by the number that stands for a use.
    receiver, ranks
        The rank within the group that the result is of, and how many the group has.
    splits
        How many rows of each contribution go to each rank; empty for equal parts. Only to EXCHANGE.
    shape
        That of the result.
    """

    rule: Rule
    reduction: str
    numbers: tuple[int, ...]
    receiver: int
    ranks: int
    splits: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]


def rule_of(name: OpName) -> Rule | None:
    """The rule of a collective; None for one that is not known."""
    return _RULES.get(name.name.removesuffix("_"))


def made_of(making: Making, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The result. Raises ValueError where the shapes of the contributions do not fit."""
    if making.rule in (Rule.REDUCE, Rule.REDUCE_PART):
        made = _reduced(making, tensors)
    elif making.rule is Rule.EXCHANGE:
        parts = [_part(making, each, place) for place, each in enumerate(tensors)]
        made = torch.cat([part.reshape(-1) for part in parts])
    else:
        made = torch.cat([each.reshape(-1) for each in tensors])
    if made.numel() != torch.Size(making.shape).numel():
        raise ValueError(f"what the ranks gave makes {made.numel()} values, and not a result of {list(making.shape)}")
    return made.reshape(making.shape)


def _reduced(making: Making, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    if len({each.shape for each in tensors}) > 1:
        raise ValueError(f"what the ranks gave has the shapes {', '.join(str(list(each.shape)) for each in tensors)}")
    parts = [_part(making, each, 0) if making.rule is Rule.REDUCE_PART else each for each in tensors]
    made = parts[0].clone()
    for each in parts[1:]:
        made = REDUCTIONS[making.reduction](made, each)
    return made / len(parts) if making.reduction == "AVG" else made


def _part(making: Making, tensor: torch.Tensor, giver: int) -> torch.Tensor:
    """What of a contribution goes to the receiver: rows of its first axis."""
    splits = making.splits[giver] if making.splits else ()
    if not splits:
        if tensor.numel() % making.ranks:
            raise ValueError(f"what the ranks gave has {tensor.numel()} values, which {making.ranks} do not share")
        return tensor.reshape(-1).chunk(making.ranks)[making.receiver] if tensor.numel() else tensor.reshape(-1)
    if sum(splits) != tensor.shape[0]:
        raise ValueError(f"what the ranks gave has {tensor.shape[0]} rows, and its parts {sum(splits)}")
    return tensor.narrow(0, sum(splits[: making.receiver]), splits[making.receiver])
