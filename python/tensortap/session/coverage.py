"""What a recording did not see, and why: collected while it runs, explained at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    foreign_modules: list[str] = field(default_factory=list)  # types of modules that a model called and does not hold

    def note_foreign_module(self, name: str) -> None:
        """A module was called inside a model of which it was no part when the model was first called."""
        if name not in self.foreign_modules:
            self.foreign_modules.append(name)

    def count_root(self, name: str, modules: int, selected: int, passes: int) -> None:
        """A model of the program; those of one kind that it makes again and again are one."""
        for root in self.roots:
            if (root["name"], root["modules"], root["selected"]) == (name, modules, selected):
                root["passes"] += passes
                return
        self.roots.append({"name": name, "modules": modules, "selected": selected, "passes": passes})

    def unseen(self, name: str, type_name: str, why: str) -> None:
        """A selected module was not seen."""
        entry = {"name": name, "type": type_name, "why": why}
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
        if self.foreign_modules:
            kinds = ", ".join(self.foreign_modules)
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


# ---- the short report ----


def report_lines(
    directory: Path, totals: dict[str, Any], source: dict[str, Any], error: str | None, against_late_gradients: str
) -> list[str]:
    """What was recorded and what was not, in a few lines."""
    passes, tensors = totals["passes"], totals["tensors"]
    lines = [f"tensortap: {_count(passes, 'pass', 'passes')}, {_count(tensors, 'tensor')}, "
             f"{bytes_text(totals['tensor_bytes'])} in {directory}"]  # fmt: skip
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
    if lost := totals.get("lost_passes", 0):
        lines.append(f"  lost: {_count(lost, 'whole pass', 'whole passes')}: no file could be made")
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


def bytes_text(number: float) -> str:
    """As people read it: 12.3 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
