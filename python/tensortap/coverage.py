"""What a recording did not see, and why: collected while it runs, explained at its end."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tensortap.names import NamedModule, unwrapped

_NAMED = 3  # names in a line of the short report


@dataclass
class Coverage:
    """Counts of one recording."""

    roots: list[dict[str, Any]] = field(default_factory=list)
    never_called: list[dict[str, str]] = field(default_factory=list)
    without_tensors: dict[str, int] = field(default_factory=dict)
    unsupported: dict[str, dict[str, Any]] = field(default_factory=dict)
    as_parts: dict[str, dict[str, Any]] = field(default_factory=dict)  # tensors of which there are only the parts
    outside_steps: int = 0
    late_gradients: int = 0
    late_recomputations: int = 0  # whose pass had ended, or is not known
    missing_gradients: int = 0  # of passes that have ended
    opaque: dict[str, int] = field(default_factory=dict)  # types that were not looked into
    failures: int = 0  # of our own: an exception that was kept from the model
    first_failure: str = ""
    notes: list[str] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)  # operators seen and not recorded, when they are
    strangers: list[str] = field(default_factory=list)  # types of modules that a model called and does not hold

    def note_stranger(self, name: str) -> None:
        """A module was called inside a model of which it was no part when the model was first called."""
        if name not in self.strangers:
            self.strangers.append(name)

    def count_root(self, name: str, modules: int, selected: int, passes: int) -> None:
        """A model of the program; those of one kind that it makes again and again are one."""
        for root in self.roots:
            if (root["name"], root["modules"], root["selected"]) == (name, modules, selected):
                root["passes"] += passes
                return
        self.roots.append({"name": name, "modules": modules, "selected": selected, "passes": passes})

    def unseen(self, place: Whereabouts, why: str) -> None:
        """A selected module was not seen."""
        entry = {"name": place.name, "type": place.type_name, "why": why}
        if entry not in self.never_called:
            self.never_called.append(entry)

    def cannot_record(self, why: str, key: str) -> None:
        """A tensor was met that cannot be read."""
        entry = self.unsupported.setdefault(why, {"why": why, "count": 0, "first": key})
        entry["count"] += 1

    def only_parts(self, why: str, key: str) -> None:
        """A tensor was recorded as the parts that it consists of, and its values are not known."""
        entry = self.as_parts.setdefault(why, {"count": 0, "first": key})
        entry["count"] += 1

    def note_once(self, note: str) -> None:
        """Something that is to be said, however often it happens."""
        if note not in self.notes:
            self.notes.append(note)

    def failed(self, what: str) -> None:
        """Recording something failed; the model goes on."""
        self.failures += 1
        self.first_failure = self.first_failure or what

    def as_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "roots": self.roots,
            "never_called": self.never_called,
            "without_tensors": [{"name": name, "calls": calls} for name, calls in self.without_tensors.items()],
            "unsupported": list(self.unsupported.values()),
            "outside_steps": self.outside_steps,
            "late_gradients": self.late_gradients,
            "notes": list(self.notes),
        }
        if self.ops:
            result["ops"] = self.ops
        result["notes"] += [
            f"{_count(count, one)} {what}"
            for count, one, what in (
                (self.missing_gradients, "gradient", "awaited, and not there when the pass ended"),
                (self.ops.get("outside_passes", 0), "operator", "that ran outside any pass"),
                (self.ops.get("failed", 0), "operator", "could not be recorded"),
                (self.ops.get("lost", 0), "tensor", "could not be fingerprinted on its GPU"),
                (self.late_recomputations, "recomputed call", "not recorded: its pass had ended"),
            )
            if count
        ]
        result["notes"] += [
            f"{_count(entry['count'], 'tensor')} recorded as parts, without the values: {why}, first {entry['first']}"
            for why, entry in self.as_parts.items()
        ]
        if self.opaque:
            kinds = ", ".join(f"{kind} ({count} times)" for kind, count in self.opaque.items())
            result["notes"].append(f"not looked into, there may be tensors in it: {kinds}")
        if self.strangers:
            kinds = ", ".join(self.strangers)
            result["notes"].append(f"called inside a model and no part of it, or added to it later: {kinds}")
        if self.failures:
            failures = _count(self.failures, "failure")
            result["notes"].append(f"{failures} while recording; the first: {self.first_failure}")
        return result


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The coverage of several recordings into one directory."""
    result: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name not in result:
                result[name] = value
            elif isinstance(value, dict):
                result[name] = {key: result[name].get(key, 0) + count for key, count in value.items()}
            else:
                result[name] = result[name] + value
    return result


# ---- why a module was not seen ----


@dataclass(frozen=True)
class Whereabouts:
    """What is needed to explain why a module was not seen, when it may be gone already."""

    name: str
    type_name: str
    owners: tuple[type, ...]  # the classes of the modules above it, nearest first
    scripted: bool
    compiled: bool

    @classmethod
    def of(cls, entry: NamedModule, parents: dict[int, list[nn.Module]]) -> Whereabouts:
        above = _all_above(entry.module, parents)
        return cls(
            name=entry.names[0],
            type_name=type(entry.module).__name__,
            owners=tuple(dict.fromkeys(type(module) for module in above[1:])),
            scripted=any(isinstance(module, torch.jit.ScriptModule) for module in above),
            compiled=any(_is_compiled(module) for module in above),
        )


def _all_above(module: nn.Module, parents: dict[int, list[nn.Module]]) -> list[nn.Module]:
    """The module and all that hold it, nearest first."""
    above = [module]
    for known in above:
        above += [parent for parent in parents.get(id(known), []) if not any(parent is other for other in above)]
    return above


def explain(place: Whereabouts, module: nn.Module | None) -> str:
    """How it may have come about that a module was selected and not seen."""
    if place.scripted:
        return "scripted"
    if place.compiled or (module is not None and _is_compiled(module)):
        return "inside a compiled region"
    if place.owners and issubclass(place.owners[0], nn.MultiheadAttention):
        return "its parent uses its parameters without calling it"
    step = place.name.rpartition(".")[2]
    for owner in place.owners:
        if where := direct_forward(owner, step):
            return f"called through .forward() at {where}"
    return "never called, or inside a compiled region" if _compiled_something() else "never called"


def _compiled_something() -> bool:
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and utils.counters["stats"]["unique_graphs"] > 0


def _is_compiled(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None or "_orig_mod" in module._modules


def direct_forward(owner: type, child: str) -> str | None:
    """Where a method of `owner` calls the forward of the child of this name, or of one it does not name.

    Such a call passes by every hook.
    """
    found = _direct_forwards(owner)
    named = [place for name, place in found if name == child]
    unnamed = [place for name, place in found if name is None]
    return next(iter(named + unnamed), None)


@cache
def _direct_forwards(owner: type) -> list[tuple[str | None, str]]:
    if owner.__module__.startswith("torch.nn.modules"):
        return []
    try:
        lines, first = inspect.getsourcelines(owner)
        file = Path(inspect.getsourcefile(owner) or "?").name
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    found: list[tuple[str | None, str]] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "forward"):
            continue
        target = node.func.value
        if isinstance(target, ast.Call) or (isinstance(target, ast.Name) and target.id == "self"):
            continue  # super().forward(…), self.forward(…)
        place = f"{file}:{first + node.lineno - 1}"
        while isinstance(target, ast.Subscript):
            target = target.value
        found.append((target.attr if isinstance(target, ast.Attribute) else None, place))
    return found


# ---- the short report ----


def report_lines(
    directory: Path, totals: dict[str, Any], source: dict[str, Any], error: str | None, against_late_gradients: str
) -> list[str]:
    """What was recorded and what was not, in a few lines."""
    passes, tensors = totals["passes"], totals["tensors"]
    lines = [f"tensortap: {_count(passes, 'pass', 'passes')}, {_count(tensors, 'tensor')}, "
             f"{_bytes(totals['tensor_bytes'])} in {directory}"]  # fmt: skip
    reasons = defaultdict(list)
    for item in source.get("never_called", []):
        reasons[item["why"].split(" at ")[0]].append(item)
    for why, items in reasons.items():
        shown = ", ".join(
            item["name"] + (f" ({item['why'].partition(' at ')[2]})" if " at " in item["why"] else "")
            for item in items[:_NAMED]
        )
        lines.append(f"  not seen: {_count(len(items), 'module')} {why}: {shown}{_more(items)}")
    for item in source.get("unsupported", []):
        lines.append(f"  not recorded: {_count(item['count'], 'tensor')}: {item['why']}, first {item['first']}")
    if silent := source.get("without_tensors", []):
        names = ", ".join(item["name"] for item in silent[:_NAMED])
        lines.append(f"  without tensors: the outputs of {_count(len(silent), 'module')}: {names}{_more(silent)}")
    if outside := source.get("outside_steps", 0):
        lines.append(f"  not recorded: {_count(outside, 'module call')} outside any step: use `with rec.step():`")
    if late := source.get("late_gradients", 0):
        lines.append(
            f"  not recorded: {_count(late, 'gradient')} that came after their pass had ended: {against_late_gradients}"
        )
    lines += [f"  {note}" for note in source.get("notes", [])]
    lines += [
        f"  not recorded: {count}, {cause.replace('_', ' ')}"
        for cause, count in totals["drops"].items()
        if count and cause not in ("unsupported", "late")
    ]
    if error:
        lines.append(f"  first error: {error}")
    if len(lines) > 1:
        lines.append(f"  all of it: ttap ls --coverage {directory}")
    return lines


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _more(items: Sequence[object]) -> str:
    return f", and {len(items) - _NAMED} more" if len(items) > _NAMED else ""


def _bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def model_name(root: nn.Module, prefix: str) -> str:
    """What a root is called in reports."""
    return prefix or type(unwrapped(root)).__name__
