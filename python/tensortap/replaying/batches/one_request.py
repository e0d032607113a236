"""A recorded call of a batch, made again for one request of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from tensortap.reading import Pass
from tensortap.records import EventRecord
from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.elements import moves_values
from tensortap.replaying.calling import Call, Refused, prepared
from tensortap.replaying.distance import distances, typical_size
from tensortap.replaying.double import NoDouble
from tensortap.replaying.operators import OpName, UnknownOperator, find_operator, returns_view
from tensortap.replaying.results import bits_of
from tensortap.replaying.sensitivity.flow import given, made

# Beside the size of the result: in float64, sums in another order differ by less, and rows that are mixed by more.
_SAME_VALUES = 1e-9


class NotSplit(Exception):
    """A call that is not made for one request; the message says why."""


@dataclass(frozen=True)
class OtherBits:
    """A result of which a request alone gets other bits.

    Attributes
    ----------
    number
        Of the use.
    request
        Which one.
    relative
        How far the values are apart, beside their size.
    unequal, count
        How many values of the request have other bits, of how many.
    """

    number: int
    request: int
    relative: float
    unequal: int
    count: int


class Batch:
    """The tensors of a pass that hold the requests one behind the other along their first dimension."""

    def __init__(self, kept: Pass, requests: int) -> None:
        self._kept = kept
        self._requests = requests
        self._records: set[int] = set()
        # What no call made of other tensors, and has a row for each request.
        for index, event in enumerate(kept.events):
            taken = [use.record for _, use in given(event) if use.record is not None]
            entering = [record for record in taken if kept.records[record].role == "in"]
            if not taken:
                entering += made(kept, index).values()
            self._records |= {record for record in entering if kept.records[record].shape[:1] == (requests,)}

    def takes(self, event: EventRecord) -> set[int]:
        """The arguments of a call that are of the batch, by the numbers of their uses."""
        return {number for number, use in given(event) if use.record in self._records}

    def hold(self, index: int) -> None:
        """What the call made is of the batch, as far as it can be split."""
        for record in made(self._kept, index).values():
            if self.splits(self._kept.records[record].shape):
                self._records.add(record)

    def splits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape has as many rows of each request."""
        return bool(shape) and shape[0] > 0 and shape[0] % self._requests == 0

    def rows(self, tensor: torch.Tensor, request: int) -> torch.Tensor:
        """Those of one request."""
        size = tensor.shape[0] // self._requests
        return tensor[request * size : (request + 1) * size].clone()


def only_moves(event: EventRecord) -> bool:
    """Whether its results show the memory of an argument: no bits can be other ones."""
    try:
        return returns_view(find_operator(OpName.of(event.name)))
    except UnknownOperator:
        return False


def other_bits(event: EventRecord, batch: Batch, requests: list[int], device: torch.device) -> OtherBits | None:
    """Of these requests the first that gets other bits alone; None where each has the same. Raises NotSplit."""
    try:
        call = prepared(event, device)
        double = DoubleCall(call)
        if moves_values(double):
            return None
        together = _made(call, call.tensors)
        for request in requests:
            split, alone = _for_one(call, double, batch, request)
            for number in split:
                if found := _compared(batch.rows(together[number], request), alone[number], number, request):
                    return found
    except (Refused, NoDouble) as reason:
        raise NotSplit(str(reason)) from reason
    return None


def _for_one(call: Call, double: DoubleCall, batch: Batch, request: int) -> tuple[list[int], dict[int, torch.Tensor]]:
    """The results that are split, and the call for one request. Raises NotSplit where rows are not made one by one."""
    for numbers in _choices(call, batch):
        of_one = {n: batch.rows(t, request) if n in numbers else t for n, t in double.tensors.items()}
        try:
            exact = double.made(double.arguments, of_one)
        except Refused:
            continue
        split = [n for n, whole in double.exact.items() if batch.splits(tuple(whole.shape)) and n in exact
                 and _same_values(batch.rows(whole, request), exact[n])]  # fmt: skip
        if split:
            tensors = {n: batch.rows(t, request) if n in numbers else t for n, t in call.tensors.items()}
            return split, _made(call, tensors)
    raise NotSplit("the rows of its result are not made one by one")


def _choices(call: Call, batch: Batch) -> Iterator[set[int]]:
    """Which arguments are cut to the rows of one request; the first choice that gives these rows is right."""
    of_batch = {n for n in batch.takes(call.event) if n in call.tensors and batch.splits(tuple(call.tensors[n].shape))}
    yield of_batch
    lengths = {call.tensors[n].shape[0] for n in of_batch}
    as_long = {n for n, tensor in call.tensors.items() if tensor.dim() and tensor.shape[0] in lengths}
    if as_long != of_batch:
        yield as_long
    if len(of_batch) > 1:
        yield from ({number} for number in sorted(of_batch))


def _made(call: Call, tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """What the call gives; it may write to its arguments."""
    copies = {id(tensor): tensor.clone() for tensor in tensors.values()}
    return call.made(call.arguments, {number: copies[id(tensor)] for number, tensor in tensors.items()})


def _same_values(whole: torch.Tensor, alone: torch.Tensor) -> bool:
    if whole.shape != alone.shape:
        return False
    if not (whole.is_floating_point() or whole.is_complex()):
        return torch.equal(whole, alone)
    apart = distances(whole, alone)
    size = whole.abs().nan_to_num(nan=0.0, posinf=0.0)
    return not apart.numel() or float(apart.max()) <= _SAME_VALUES * float(size.max())


def _compared(whole: torch.Tensor, alone: torch.Tensor, number: int, request: int) -> OtherBits | None:
    if not whole.numel() or torch.equal(bits_of(whole), bits_of(alone)):
        return None
    apart, size = distances(whole, alone), typical_size(whole)
    relative = float(apart.max()) / size if size > 0 else float(apart.max())
    return OtherBits(number, request, relative, int((apart > 0).sum()), whole.numel())
