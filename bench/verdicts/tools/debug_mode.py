from __future__ import annotations

from typing import Any

from runs import Run
from torch.utils._debug_mode import DebugMode

from tools.interface import Answer, Refused, Tool

HASHES: dict[str, list[str]] = {"norm": ["norm"], "norm+hash": ["norm", "hash_tensor"]}


class DebugModeTool(Tool):
    """PyTorch's `DebugMode` with tensor hashes, and its `check_hash_mismatches`.

    Level `norm` has its default hash, the L1 norm; `norm+hash` both that it offers. It raises where the operators are
    not the same on both sides. At level `prefix` the adapter helps: it looks for the shortest beginning of the two logs
    that has a mismatch or raises, and names the operator there.
    """

    settings = (("ops", "norm"), ("ops", "norm+hash"), ("ops", "prefix"))

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.logs: dict[str, list[Any]] = {}

    def can_record(self, run: Run) -> bool:
        return run.samples is None

    def record(self, run: Run, name: str) -> None:
        hashes = HASHES.get(self.level, HASHES["norm+hash"])
        with (
            DebugMode(record_nn_module=not run.ops_only) as mode,
            DebugMode.log_tensor_hashes(hash_fn=hashes, hash_inputs=True),
        ):
            run()
        self.logs[name] = mode.logs

    def compare(self, a: str, b: str) -> Answer:
        ours, theirs = self.logs[a], self.logs[b]
        if self.level == "prefix":
            return self.first_of_prefixes(ours, theirs)
        try:
            mismatches = DebugMode.check_hash_mismatches(ours, theirs, compare_inputs=True)
        except ValueError as error:
            raise Refused(str(error)) from error
        if not mismatches:
            return Answer("same", "", "no mismatches")
        # A mismatch does not say where in the log it is.
        length = shortest(lambda n: bool(DebugMode.check_hash_mismatches(ours[:n], theirs[:n], True)), len(ours))
        return Answer("differs", module_at(theirs, length - 1), describe(mismatches[0]))

    def first_of_prefixes(self, ours: list[Any], theirs: list[Any]) -> Answer:
        said = ["no mismatches"]

        def differs(length: int) -> bool:
            try:
                found = DebugMode.check_hash_mismatches(ours[:length], theirs[:length], True)
            except ValueError as error:
                said[0] = str(error)
                return True
            if found:
                said[0] = describe(found[0])
            return bool(found)

        common = min(len(ours), len(theirs))
        if differs(common):
            length = shortest(differs, common)
            differs(length)
            return Answer("differs", module_at(theirs, length - 1), said[0])
        if len(ours) != len(theirs):
            longer = max(ours, theirs, key=len)
            return Answer("differs", module_at(longer, common), "one log goes on")
        return Answer("same", "", said[0])


def describe(mismatch: dict[str, Any]) -> str:
    of = "input" if mismatch["is_input_hash"] else "output"
    return f"{mismatch['call']} {of}{mismatch['pytree_path'] or ''}: hash diff {mismatch['rel_diff']:.2e}"


def shortest(holds: Any, longest: int) -> int:
    """The shortest length for which it holds; it holds for the longest, and for every one after the shortest."""
    low, high = 1, longest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def module_at(logs: list[Any], index: int) -> str:
    """The module that the operator runs in: the last that was entered one level above it."""
    depth = logs[index].call_depth
    for call in reversed(logs[: index + 1]):
        if getattr(call, "header", "") == "nn.Mod" and call.call_depth == depth - 1:
            return str(call.tag).partition(".")[2]  # begins with the class of the model
    return ""
