"""How long a large report page takes to open in Chromium, in a browser started for it."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/python"))

import browser
import sample_report

TENSORS, DETAILS, ROUNDS = 5000, 200, 5


def can_measure() -> bool:
    return bool(browser.BINARY and browser.DRIVER)


def measure(scratch: Path) -> tuple[float, float, float]:
    """Medians of the seconds until verdict, tree and table are there, and until the chart is; the page's bytes."""
    path = (scratch / "report.html").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    browser.write(sample_report.many(TENSORS, DETAILS), path)
    text, chart = [], []
    for _ in range(ROUNDS):
        driver = browser.start(logs=False)
        page = browser.Page(driver, path)
        text.append(page.js("return performance.getEntriesByName('ttap-text')[0].startTime") / 1e3)
        chart.append(page.js("return performance.getEntriesByName('ttap-ready')[0].startTime") / 1e3)
        driver.quit()
    return statistics.median(text), statistics.median(chart), path.stat().st_size
