"""The outcomes of many pairs as tables."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from pairs import Outcome

OF_FAULTS = ["exact", "parent", "wrong", "pointed", "missed"]
OF_SOUND = ["same", "unsure", "alarm"]
BY = ("tool", "dtype", "surface", "level")


def counted(outcomes: Iterable[Outcome], by: tuple[str, ...], columns: list[str]) -> list[dict[str, Any]]:
    """One row for each value of these fields: how many pairs there are, and how many of each outcome."""
    groups: dict[tuple[str, ...], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    unsure: collections.Counter[tuple[str, ...]] = collections.Counter()
    for outcome in outcomes:
        key = tuple(getattr(outcome, field) for field in by)
        groups[key][outcome.outcome] += 1
        unsure[key] += outcome.outcome == "exact" and outcome.verdict == "unsure"
    return [
        {
            **dict(zip(by, key, strict=True)),
            "pairs": counts.total(),
            **{column: counts[column] for column in columns},
            **({"exact, unsure": unsure[key]} if "exact" in columns else {}),
            f"{columns[0]} %": round(100 * counts[columns[0]] / counts.total(), 1),
        }
        for key, counts in sorted(groups.items())
    ]


def aligned(rows: list[dict[str, Any]]) -> str:
    cells = [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
    words = [isinstance(cell, str) for cell in rows[0].values()]
    widths = [max(len(row[column]) for row in cells) for column in range(len(words))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        ).rstrip()
        for row in cells
    )


def tables(outcomes: list[Outcome]) -> dict[str, list[dict[str, Any]]]:
    """Of faults and of sound pairs, by setting and by what the pair is."""
    made = {}
    for title, columns in (("faults", OF_FAULTS), ("sound", OF_SOUND)):
        these = [each for each in outcomes if bool(each.module) == (title == "faults")]
        if any(each.outcome == "refused" for each in these):
            columns = [*columns, "refused"]
        if these:
            made[title] = counted(these, BY, columns)
            made[f"{title} by pair"] = counted(these, ("tool", "pair"), columns)
    return made


def told_otherwise(outcomes: Iterable[Outcome]) -> list[str]:
    """Pairs of which TensorTap says something else with `strict`."""
    by_tool: dict[str, dict[tuple[Any, ...], Outcome]] = {"tensortap": {}, "strict": {}}
    for each in outcomes:
        key = (each.architecture, each.dtype, each.surface, each.level, each.seed, each.pair, each.module)
        by_tool.get(each.tool, {})[key] = each
    return [
        f"{each.outcome:8} {strict.outcome:8} {each.architecture} {each.dtype} {each.surface} {each.level}: "
        f"{each.pair}{f' in {each.module}' if each.module else ''}\n"
        f"         {each.sentence}\n"
        f"         strict  {strict.sentence}"
        for key, each in by_tool["tensortap"].items()
        if (strict := by_tool["strict"].get(key)) is not None
        and (strict.outcome, strict.verdict, strict.named) != (each.outcome, each.verdict, each.named)
    ]


def lost_by_full(outcomes: Iterable[Outcome]) -> list[str]:
    """Faults that TensorTap names without the values, and not with them."""
    full: dict[tuple[Any, ...], Outcome] = {}
    without_values: list[tuple[tuple[Any, ...], Outcome]] = []
    for each in outcomes:
        if each.tool == "tensortap" and each.module:
            key = (each.architecture, each.dtype, each.surface, each.seed, each.pair, each.module)
            if each.level == "full":
                full[key] = each
            else:
                without_values.append((key, each))
    return [
        f"{other.outcome:8} {each.architecture} {each.dtype} {each.surface}: {each.pair} in {each.module}\n"
        f"         full         {other.sentence}\n"
        f"         {each.level:11}  {each.sentence}"
        for key, each in without_values
        if each.outcome == "exact" and (other := full.get(key)) is not None and other.outcome != "exact"
    ]
