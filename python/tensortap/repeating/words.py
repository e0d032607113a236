"""What is said of a difference: what it is, and what makes such differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensortap.literals import RepeatKind
from tensortap.repeating.calls import Call, PassCalls
from tensortap.repeating.facts import Facts
from tensortap.replaying.operators import is_collective

# Operators whose kernels for a GPU add up with atomics, or let the last writer win: torch.use_deterministic_algorithms.
_UNORDERED = ("index_add", "index_put", "index_copy", "index_reduce", "scatter", "put_", "bincount", "histc", "cumsum",
              "kthvalue", "median", "max_unpool", "_backward", "embedding", "interpolate", "upsample", "grid_sampler",
              "ctc_loss", "nll_loss2d", "replication_pad", "reflection_pad")  # fmt: skip
_PYTHON_READS = "a clock, Python's or NumPy's random numbers, the environment, id() or hash(), a file"
_ORDERS = "the order of a set or of files, hash() and id(), threads that end in another order"


class Said(NamedTuple):
    """A finding in words."""

    what: str
    hint: str


class Words:
    """The words for the differences of a pass of A and the one of B."""

    def __init__(self, a: PassCalls, b: PassCalls) -> None:
        self._a, self._b = a, b
        self.facts = Facts(a, b)

    def alone(self, of_a: bool, row: Sequence[Call]) -> Said:
        which, calls = ("first" if of_a else "second"), f"{len(row)} calls" if len(row) > 1 else "call"
        what = (
            f"only the {which} run makes this {calls}" if len(row) == 1 else f"only the {which} run makes these {calls}"
        )
        if row[0].draws:
            return Said(f"{what}: it draws random numbers, so each later draw differs", _PYTHON_READS)
        return Said(what, f"a branch or a loop that depends on {_PYTHON_READS}")

    def uninitialised(self, path: str) -> Said:
        return Said(
            f"its argument {path} is memory that no operator wrote to",
            "torch.empty and the like: write all of it before it is read, or use torch.zeros",
        )

    def partly_uninitialised(self, path: str) -> Said:
        said = self.uninitialised(path)
        return Said(f"a part of its argument {path} is memory that no operator wrote to", said.hint)

    def draw(self, call: Call, other: Call) -> tuple[RepeatKind, Said]:
        numbers_a, numbers_b = self.facts.draws
        mine, theirs = numbers_a[call.index], numbers_b[other.index]
        if mine != theirs:
            what = f"it is draw {mine} of its thread in the first run and draw {theirs} in the second"
            return "order", Said(what, f"draws come in another order, or a draw is extra: {_ORDERS}")
        seed = "give the generator a seed: torch.manual_seed(0), generator="
        if mine == 1:
            return "draw", Said("it draws other random numbers, and is the first draw of its thread", seed)
        what = f"it draws other random numbers; {mine - 1} came before on its thread"
        return "draw", Said(what, f"{seed}; or something that is not recorded drew between")

    def race(self) -> Said:
        return Said(
            "it made other bits from the same bits, and another thread writes to one of its tensors meanwhile",
            "a race: let one thread wait for the other, or give each its own tensor",
        )

    def other_bits(self, call: Call, *, is_rounding: bool) -> tuple[RepeatKind, Said]:
        what = "it made other bits from the same bits"
        name, on_gpu = call.name, self._on_gpu(call)
        if is_collective(name):
            return "kernel", Said(f"{what}, and so do all ranks", "a collective that adds up in another order")
        if on_gpu and any(word in name.name for word in _UNORDERED):
            hint = "its kernel writes with atomics, in no fixed order: torch.use_deterministic_algorithms(True)"
            return ("rounding" if is_rounding else "kernel"), Said(what, hint)
        if is_rounding:
            atomics = "atomics, an algorithm that is chosen by its speed" if on_gpu else "a race"
            return "rounding", Said(
                f"{what}, no farther apart than rounding",
                f"it adds up in another order: another number of threads (torch.set_num_threads), {atomics}",
            )
        return "kernel", Said(what, "a race in its kernel, memory that it reads before writing, or state that it keeps")

    def arguments(self, call: Call, other: Call) -> Said:
        if call.given.keys() != other.given.keys():
            what = f"it takes {len(call.given)} tensors in the first run and {len(other.given)} in the second"
            return Said(what, f"a branch or a loop that depends on {_PYTHON_READS}")
        mine, theirs = _split(call.event.arguments), _split(other.event.arguments)
        for number, (one, another) in enumerate(zip(mine, theirs, strict=False)):
            if one != another:
                what = f"its argument {number} is {one} in the first run and {another} in the second"
                return Said(what, _PYTHON_READS)
        return Said(f"it has {len(mine)} arguments in the first run and {len(theirs)} in the second", _PYTHON_READS)

    def other_maker(self, call: Call, other: Call, path: str, of_a: Sequence[Call], of_b: Sequence[Call]) -> Said:
        what = f"its argument {path} is what {_makers(of_a)} made in the first run, and {_makers(of_b)} in the second"
        elsewhere = [one for one in of_a if one.event.thread != call.event.thread]
        elsewhere += [one for one in of_b if one.event.thread != other.event.thread]
        if elsewhere:
            return Said(what, "a race: which thread comes first is not fixed")
        return Said(what, f"the same calls in another order: {_ORDERS}")

    def data_elsewhere(self, path: str) -> Said:
        return Said(
            f"its argument {path}, which no recorded operator made, is one that the other run has elsewhere",
            f"the same data in another order: {_ORDERS}, a loader that shuffles",
        )

    def data(self, path: str, *, past_pytorch: bool) -> Said:
        if past_pytorch:
            what = f"its argument {path} was written to past PyTorch's operators"
            return Said(what, "NumPy, a kernel of the program's own, another thread or process")
        what = f"its argument {path} has other values, and no recorded operator made it"
        return Said(what, f"data of the program: {_PYTHON_READS}, a loader that shuffles, another process")

    def _on_gpu(self, call: Call) -> bool:
        records = (self._a.records[use.record] for use in call.made.values() if use.record is not None)
        return any(record.device.startswith("cuda") for record in records)


def _makers(calls: Sequence[Call]) -> str:
    last = calls[-1]
    where = f" ({last.line.partition(' in ')[0]})" if last.line else f" (event {last.index})"
    return f"{last.name.op}{where}"


def _split(arguments: str) -> list[str]:
    """The arguments of a call, as text: `%0, [1, 2], dim=1` are three."""
    found, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]
