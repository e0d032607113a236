"""A recorded call of a collective, made again from what all its ranks gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tensortap.reading import Pass, pass_of
from tensortap.records import EventRecord, TensorRecord, Use
from tensortap.replaying.call_tensors import BytesMissing, as_it_lay, with_bytes
from tensortap.replaying.call_text import CallArguments, ReduceOpWord, UnreadableText, parse_arguments
from tensortap.replaying.calling import Call, Refused, first_line
from tensortap.replaying.collective_rules import REDUCTIONS, Making, Rule, made_of, rule_of
from tensortap.replaying.double_kernels import Kernel
from tensortap.replaying.operators import OpName, UnknownOperator, find_operator
from tensortap.replaying.rank_passes import Given, RankPasses, ResultPlace, rank_passes_of

_NO_RULE = "a collective for which there is no rule of what it makes"
_NEEDED = "a collective is made again from the recordings of all its ranks, which lie in one run"


@dataclass(frozen=True)
class CollectiveCall(Call):
    """A collective that can be made again.

    `tensors` are what the ranks gave, by numbers behind those of the uses.

    Attributes
    ----------
    makings
        How each result is made, by the number of its use.
    places
        Where the call of each result is: for a wait, the call that it waits for.
    """

    makings: dict[int, Making]
    places: dict[int, ResultPlace]

    @property
    def in_any_order(self) -> bool:
        """Whether the recorded bits depend on the order in which the backend adds, which is not recorded."""
        return any(
            making.reduction in ("SUM", "AVG", "PRODUCT")
            and len(making.numbers) > 2
            and (self.tensors[making.numbers[0]].is_floating_point() or self.tensors[making.numbers[0]].is_complex())
            for making in self.makings.values()
        )

    def made(
        self,
        arguments: CallArguments,
        tensors: dict[int, torch.Tensor],
        kernel: Kernel | None = None,
        differentiable: bool = False,
    ) -> dict[int, torch.Tensor]:
        """Each result from these contributions. Raises Refused."""
        del arguments, kernel, differentiable  # a collective has none, and is not followed by autograd here
        found = {}
        for number, making in self.makings.items():
            try:
                found[number] = made_of(making, [tensors[each] for each in making.numbers])
            except (ValueError, RuntimeError) as error:
                raise Refused(f"what the ranks gave does not fit: {first_line(error)}") from error
        return found

    def recorded_result(self, number: int) -> tuple[TensorRecord, torch.Tensor | None]:
        """The result at the call, or where the program used it after it had waited. Raises BytesMissing."""
        try:
            return super().recorded_result(number)
        except BytesMissing as at_call:
            use = self.event.uses[number]
            if use.record is None or self.recorded.records[use.record].level != "meta":
                raise
            later = rank_passes_of(self.recorded).read_later(self.places[number], use)
            if later is None:
                raise BytesMissing(
                    "the program waited for its result later, and the recording has no use of all of it after that"
                ) from at_call
            found = self.recorded[later.key]
            shape = self.makings[number].shape
            return later, found.reshape(shape) if isinstance(found, torch.Tensor) else None


def prepared_collective(event: EventRecord, name: OpName, device: torch.device) -> CollectiveCall:
    """The call with what all ranks gave. Raises Refused."""
    recorded = pass_of(event)
    results = {number: use for number, use in enumerate(event.uses) if use.role in ("out", "after")}
    if not results:
        raise Refused("it leaves nothing on this rank")
    rule = rule_of(name)
    if rule is None:
        raise Refused(_NO_RULE)
    ranks = rank_passes_of(recorded)
    gathered = _Contributions(device, len(event.uses))
    places = {number: _place_of(ranks, event, use, rule) for number, use in results.items()}
    makings = {n: _making(ranks, places[n], _shape_of(recorded, use), gathered) for n, use in results.items()}
    operator = _operator(name)
    return CollectiveCall(
        event, recorded, name, operator, CallArguments(), gathered.tensors, device, makings=makings, places=places
    )


def _operator(name: OpName) -> Any:
    try:
        return find_operator(name)
    except UnknownOperator as error:
        raise Refused(str(error)) from error


def _place_of(ranks: RankPasses, event: EventRecord, use: Use, rule: Rule) -> ResultPlace:
    if rule is not Rule.WAIT:
        return ranks.passes[ranks.part][1].events.index(event), use.path
    place = None if use.record is None else ranks.place_behind(use.record)
    if place is None:
        raise Refused("it hands on what another call makes, and the recording does not say which")
    return place


def _shape_of(recorded: Pass, use: Use) -> tuple[int, ...]:
    if use.record is None:
        raise Refused(f"nothing of the result {use.path} was recorded")
    return recorded.records[use.record].shape


class _Contributions:
    """What ranks gave, each tensor once, by numbers behind those of the uses."""

    def __init__(self, device: torch.device, first: int) -> None:
        self.tensors: dict[int, torch.Tensor] = {}
        self._device = device
        self._first = first
        self._known: dict[tuple[int, str], int] = {}  # by group rank and key

    def add(self, given: Given, path: str, record: TensorRecord | None) -> int:
        """The number that stands for a tensor. Raises Refused."""
        try:
            found = with_bytes(given.kept, record, f"the argument {path}")
            known = given.group_rank, found.key
            if known not in self._known:
                number = self._known[known] = self._first + len(self._known)
                self.tensors[number] = as_it_lay(given.kept[found.key], found).to(self._device)
        except BytesMissing as error:
            raise Refused(f"of what rank {given.rank} gave, {error}") from error
        return self._known[known]


def _making(ranks: RankPasses, place: ResultPlace, shape: tuple[int, ...], gathered: _Contributions) -> Making:
    event, path = place
    call = ranks.core.call(ranks.part, event)
    if call is None or call["event"] != event:
        raise Refused("a part of another collective, which is judged in its place")
    problem, all_given = ranks.given_to(event, path)
    if problem:
        raise Refused(f"{problem}; {_NEEDED}")
    name = OpName.of(ranks.passes[ranks.part][1].events[event].name)
    rule = rule_of(name)
    if rule is None or rule is Rule.WAIT or not all_given:
        raise Refused(_NO_RULE)
    receiver, count = call["group_rank"], call["group_size"]
    if name.name == "reduce_" and receiver != _argument(all_given[0], "root_rank"):
        raise Refused("a reduction to another rank, which leaves nothing that is defined here")
    numbers = tuple(_number_of(each, path, gathered) for each in all_given)
    if len({gathered.tensors[each].dtype for each in numbers}) > 1:
        raise Refused("the ranks gave tensors of several dtypes")
    reduction = _reduction_of(all_given) if rule in (Rule.REDUCE, Rule.REDUCE_PART) else ""
    splits = tuple(_splits_of(each, count) for each in all_given) if rule is Rule.EXCHANGE else ()
    return Making(rule, reduction, numbers, receiver, count, splits, shape)


def _number_of(given: Given, path: str, gathered: _Contributions) -> int:
    """The tensor that a rank gave to this result: of a list, which goes into a list, the one at the same place."""
    last = path.rpartition("/")[2]
    place = int(last) if len(given.tensors) > 1 and last.isdecimal() else 0
    if place >= len(given.tensors):
        raise Refused(f"what rank {given.rank} gave was not recorded")
    return gathered.add(given, *given.tensors[place])


# ---- arguments that are no tensors ----


def _argument(given: Given, name: str) -> Any:
    """The argument of this name that the rank called with; None where it has none."""
    try:
        parsed = parse_arguments(given.event.arguments, objects=True)
    except UnreadableText as error:
        raise Refused(f"on rank {given.rank}, {error}") from error
    names = [argument.name for argument in _operator(OpName.of(given.event.name))._schema.arguments]
    return {**dict(zip(names, parsed.args, strict=False)), **parsed.kwargs}.get(name)


def _reduction_of(all_given: list[Given]) -> str:
    words = [_argument(given, "reduce_op") for given in all_given]
    found = sorted({each.name if isinstance(each, ReduceOpWord) else str(each).upper() for each in words})
    if len(found) > 1:
        raise Refused(f"the ranks ask for several reductions: {', '.join(found)}")
    if found[0] not in REDUCTIONS:
        raise Refused(f"a reduction of which not all is recorded: {found[0]}")
    return found[0]


def _splits_of(given: Given, ranks: int) -> tuple[int, ...]:
    splits = _argument(given, "input_split_sizes")
    if not splits:
        return ()
    if not (isinstance(splits, list) and len(splits) == ranks and all(isinstance(each, int) for each in splits)):
        raise Refused("the parts for each rank are not recorded")
    return tuple(splits)
