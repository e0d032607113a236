"""How runs, passes and diffs look in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

ROWS_SHOWN = 50


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> str:
    """A table of at most ROWS_SHOWN rows, and how many of the `count` are not shown."""
    lines = ["<table>", f"<caption>{html.escape(caption)}</caption>", _row("th", header)]
    shown = 0
    for row in rows:
        lines.append(_row("td", row))
        shown += 1
    if shown < count:
        lines.append(f'<tr><td colspan="{len(header)}">and {count - shown} more</td></tr>')
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(_text(cell))}</{tag}>" for cell in cells) + "</tr>"


def _text(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
