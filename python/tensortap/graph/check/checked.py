"""A compiled graph and the interpreted one, run on the same inputs and held against each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.fx
from torch.utils import _pytree as pytree

from tensortap.graph.check.bisect import Reduced, reduce_mismatch
from tensortap.graph.check.closeness import Verdict, compare
from tensortap.graph.check.difference import Difference, SearchLimits, Tolerance
from tensortap.graph.check.exact import exact_outputs
from tensortap.graph.check.inner import Backend, backend_name, compile_inner, depend_on, random_nodes
from tensortap.graph.check.inputs import InputCopies, writes_of
from tensortap.graph.check.mismatch import GraphMismatch, Mismatch
from tensortap.graph.check.random import RandomState
from tensortap.graph.check.script import write_script
from tensortap.graph.check.untouched import Untouched
from tensortap.tensors.snapshot import is_fake

_LIMITS = SearchLimits()
_WRITTEN = "was written to, which the graph does not do"


def report_on_stderr(line: str) -> None:
    """Print a line as TensorTap's, where there is somewhere to print to."""
    if sys.stderr is not None:
        print(f"tensortap: {line}", file=sys.stderr)


class Checked:
    """Runs a compiled graph and the interpreted one on the same inputs, and gives back what the compiled one gives.

    The interpreted graph runs first, without gradients, on copies of what it may write to, with the same random
    numbers. Outputs and written inputs are compared. At the first mismatch of a graph the smallest part that still
    shows it is looked for, and written as a program.

    Parameters
    ----------
    reference
        Runs the graph node by node.
    compiled
        What the backend made of it. None: have `inner` compile it, and where it cannot, run the interpreted graph only.
    module
        The graph, as it was before the backend had it.
    graph_id
        Its id, for messages and the name of the script.
    directory
        Where the script is written; None: nowhere.
    inner
        The backend, by its name or itself.
    tolerance
        What counts as close; the defaults of `tap.diff` by default.
    report
        Called with each line: a mismatch, a failure of the backend, what cannot be compared. Default: prints on stderr.
    inputs
        The inputs that the backend is given to compile; needed where `compiled` is None.
    stage
        Where in the compilation the graph was taken: "dynamo" or "aot".
    strict
        Raise GraphMismatch at a mismatch, and what the backend raises.
    limits
        How much may be spent on looking for the smallest part; None: it is not looked for.
    """

    def __init__(
        self,
        reference: Callable[..., Any],
        compiled: Callable[..., Any] | None,
        module: torch.fx.GraphModule,
        *,
        graph_id: str,
        directory: Path | None,
        inner: str | Backend,
        tolerance: Tolerance | None = None,
        report: Callable[[str], None] = report_on_stderr,
        inputs: Sequence[Any] = (),
        stage: str = "dynamo",
        strict: bool = False,
        limits: SearchLimits | None = _LIMITS,
    ) -> None:
        self.module = module
        self.mismatches: list[Mismatch] = []
        self.calls = 0
        self._reference, self._inner, self._stage = reference, inner, stage
        self._id, self._directory, self._tolerance = graph_id, directory, tolerance
        self._report, self._strict, self._limits = report, strict, limits
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._writes = writes_of(module)
        placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        self._names = placeholders
        self._written = {i for i, name in enumerate(placeholders) if name in self._writes.inputs}
        self._random = _outputs_by_chance(module)
        self._given_chance: Reduced | Literal[False] | None = None  # None: not looked for
        self._undisturbed = torch._dynamo.disable(self._run, recursive=True)
        self._compiled = compiled if compiled is not None else self._compile(inputs)

    def _compile(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        try:
            return compile_inner(self._inner, self.module, inputs, stage=self._stage)
        except Exception as error:
            if self._strict or isinstance(error, torch._dynamo.exc.RestartAnalysis):
                raise  # the latter asks Dynamo to begin again
            self._say(f"graph {self._id} is interpreted only: {backend_name(self._inner)} failed: {_first_line(error)}")
            return None

    def __call__(self, *inputs: Any) -> Any:
        """Run the graph both ways."""
        with self._lock:
            call, self.calls = self.calls, self.calls + 1
        if self._compiled is None:
            return self._reference(*inputs)
        if _nothing_to_compare(inputs):
            return self._compiled(*inputs)
        return self._undisturbed(call, inputs)

    def _run(self, call: int, inputs: tuple[Any, ...]) -> Any:
        states = _States(self.module, self._writes.attributes)
        before = InputCopies(inputs, self._written)
        given = InputCopies(inputs, self._written)
        random = RandomState.of(inputs)
        failure: Exception | None = None
        expected: Any = None
        try:
            with torch.no_grad():
                expected = self._reference(*given.values)
        except Exception as error:
            failure = error
        states.restore()
        random.restore()
        untouched = Untouched(inputs, given.copied, contents=call == 0)
        try:
            actual = self._compiled(*inputs)  # type: ignore[misc]
        except Exception as error:
            if failure is not None or self._strict:
                raise  # the model's own error, which both ways to run it show
            states.restore()
            random.restore()
            return self._replaced(error, inputs, before)
        if failure is not None:
            self._say(f"{self._about()} was not compared: interpreted it raised {_first_line(failure)}")
            return actual
        written = untouched.written()
        verdict = self._compared(expected, actual, given, inputs, before)
        verdict.differences += [Difference(f"input {self._name(i)}", _WRITTEN) for i in written]
        if verdict.differences:
            mismatch = self._mismatch(call, verdict, before.values)
            self.mismatches.append(mismatch)
            if self._strict:
                raise GraphMismatch(self._line(mismatch), mismatch)
        return actual

    def _compared(
        self, expected: Any, actual: Any, given: InputCopies, inputs: tuple[Any, ...], before: InputCopies
    ) -> Verdict:
        ours, theirs = pytree.tree_leaves(expected), pytree.tree_leaves(actual)
        if len(ours) != len(theirs):
            reason = f"are {len(theirs)}, and interpreted {len(ours)}"
            return Verdict([Difference("outputs", reason)])
        pairs = [(f"output {i}", ours[i], theirs[i]) for i in range(len(ours))]
        pairs += [(f"input {self._name(i)}", given.values[i], inputs[i]) for i in given.copied]
        verdict = compare(pairs, self._tolerance, lambda: exact_outputs(self.module, before.values))
        by_chance = [one for one in verdict.differences if one.place in self._random]
        if by_chance and not self._differs_without_chance(before.values):
            names = ", ".join(sorted({f"%{name}" for one in by_chance for name in self._random[one.place]})[:3])
            verdict.differences = [one for one in verdict.differences if one not in by_chance]
            places = ", ".join(one.place for one in by_chance)
            text = f"{places} cannot be compared: {names} draws random numbers, and the compiled graph may draw others"
            verdict.uncompared.append(text)
        for text in verdict.uncompared:
            self._say(f"{self._about()}: {text}")
        return verdict

    def _differs_without_chance(self, inputs: Sequence[Any]) -> bool:
        """Whether a part shows it that is given the random numbers; looked for once."""
        if self._limits is not None and self._given_chance is None:
            try:
                found = reduce_mismatch(self.module, inputs, self._inner, self._tolerance, self._limits)
            except Exception as error:
                self._say(f"{self._about()}: its parts could not be compared: {_first_line(error)}")
                found = None
            self._given_chance = found or False
        return bool(self._given_chance)

    def _mismatch(self, call: int, verdict: Verdict, inputs: Sequence[Any]) -> Mismatch:
        """At the first one of the graph, with the smallest part that shows it."""
        known = Mismatch(self._id, call, tuple(verdict.differences))
        if self.mismatches:
            return known
        reduced, script, note = None, None, ""
        if self._limits is not None:
            try:
                reduced = self._given_chance or reduce_mismatch(
                    self.module, inputs, self._inner, self._tolerance, self._limits, outputs=_places(verdict)
                )
                if reduced is None:
                    note = "compiled alone the graph does not show it"
                elif self._directory is not None:
                    script = write_script(reduced, self._directory, self._id, self._inner)
                else:
                    note = "with a directory it would be a script"
            except Exception as error:  # looking for the reason is no reason to stop the model
                note = f"its smallest part was not found: {_first_line(error)}"
        mismatch = Mismatch(self._id, call, known.differences, reduced, script, note)
        if not self._strict:  # then it is raised
            self._report(self._line(mismatch))
        return mismatch

    def _line(self, mismatch: Mismatch) -> str:
        name = backend_name(self._inner)
        text = f"{name} computes graph {self._id} otherwise than PyTorch: {mismatch.differences[0]}"
        if len(mismatch.differences) > 1:
            more = len(mismatch.differences) - 1
            text += f"; {more} more output{'s differ' if more > 1 else ' differs'}"
        if mismatch.reduced is not None:
            text += f"; {mismatch.reduced.words}"
        if mismatch.script is not None:
            text += f"; to see it: python {mismatch.script}"
        return text + (f"; {mismatch.note}" if mismatch.note else "")

    def _replaced(self, error: Exception, inputs: tuple[Any, ...], before: InputCopies) -> Any:
        """The compiled graph raised and the interpreted one did not: from now on it is interpreted."""
        self._compiled = None
        self._say(f"{self._about()} failed, and is interpreted from now on: {_first_line(error)}")
        with torch.no_grad():
            for i in before.copied:
                inputs[i].copy_(before.values[i])
        return torch.fx.Interpreter(self.module).run(*inputs)

    def _name(self, i: int) -> str:
        return self._names[i] if i < len(self._names) else str(i)

    def _about(self) -> str:
        return f"graph {self._id} compiled by {backend_name(self._inner)}"

    def _say(self, line: str) -> None:
        """Say it once."""
        with self._lock:
            if line in self._said:
                return
            self._said.add(line)
        self._report(line)


class _States:
    """Parameters and buffers that belong to the graph and that it may write to, as they were."""

    def __init__(self, module: torch.fx.GraphModule, names: set[str]) -> None:
        self._tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        with torch.no_grad():
            for name in sorted(names):
                found: Any = module
                for part in name.split("."):
                    found = getattr(found, part)
                tensors = [found] if isinstance(found, torch.Tensor) else []
                if isinstance(found, torch.nn.Module):
                    tensors = [*found.parameters(), *found.buffers()]
                self._tensors += [(tensor, tensor.detach().clone()) for tensor in tensors]

    def restore(self) -> None:
        with torch.no_grad():
            for tensor, was in self._tensors:
                tensor.copy_(was)


def _places(verdict: Verdict) -> list[int]:
    """The outputs that differ, by number."""
    words = [difference.place.partition("/")[0].split() for difference in verdict.differences]
    return [int(word[1]) for word in words if word[0] == "output"]


def _outputs_by_chance(module: torch.fx.GraphModule) -> dict[str, list[str]]:
    """The outputs that depend on random numbers, with the nodes that draw them."""
    found: dict[str, list[str]] = {}
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    leaves = pytree.tree_leaves(output.args[0])
    for node in random_nodes(module):
        touched = depend_on([node])
        for i, leaf in enumerate(leaves):
            if leaf in touched:
                found.setdefault(f"output {i}", []).append(node.name)
    return found


def _nothing_to_compare(inputs: tuple[Any, ...]) -> bool:
    """While a program is traced there are no values, and a CUDA graph that is captured computes none."""
    if any(isinstance(value, torch.Tensor) and is_fake(value) for value in inputs):
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
