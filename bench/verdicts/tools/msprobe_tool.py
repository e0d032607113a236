from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

from runs import Run

from tools.interface import Answer, Refused, Tool

MODULE = re.compile(r"Module\.(?:(?P<name>.+)\.)?\w+\.forward\.\d+(?:\..*)?$")
LEVELS = {"modules": "L0", "ops": "mix"}


class Msprobe(Tool):
    """`PrecisionDebugger` of mindstudio-probe and its `compare`, as configured by its own `config.json`.

    Surface `modules` is its level L0, `ops` its level mix, which has both modules and operators. What it calls an error
    is a difference, and what it calls a warning is unsure; the first of them in the order of execution is named.
    """

    settings = (("modules", "tensor"), ("modules", "statistics"), ("ops", "tensor"), ("ops", "statistics"))

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        from msprobe.pytorch import PrecisionDebugger  # only in the interpreter that has it

        config = self.scratch / "config.json"
        shape = {"scope": [], "list": [], "data_mode": ["all"]}
        config.write_text(
            json.dumps(
                {
                    "task": self.level,
                    "dump_path": str(self.scratch / "dumps"),
                    "rank": [],
                    "step": [],
                    "level": LEVELS[self.surface],
                    "statistics": {**shape, "summary_mode": "statistics"},
                    "tensor": shape,
                }
            )
        )
        self.debugger = PrecisionDebugger(config_path=str(config))
        self.steps: dict[str, int] = {}
        self.count = 0

    def record(self, run: Run, name: str) -> None:
        self.debugger.start(run.model)
        run()
        self.debugger.stop()
        self.debugger.step()
        self.steps[name], self.count = self.count, self.count + 1

    def dump_of(self, name: str) -> Path:
        (found,) = (self.scratch / "dumps" / f"step{self.steps[name]}").glob("*/dump.json")
        return found

    def compare(self, a: str, b: str) -> Answer:
        from msprobe.core.common.utils import CompareException  # as above
        from msprobe.pytorch.compare.pt_compare import pt_compare  # as above

        output = self.scratch / "results" / str(self.count)
        paths = {"npu_path": str(self.dump_of(b)), "bench_path": str(self.dump_of(a)), "is_print_compare_log": False}
        try:
            pt_compare(paths, str(output))
        except CompareException as error:
            raise Refused(str(error)) from error
        (table,) = output.glob("*.csv")
        csv.field_size_limit(sys.maxsize)
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for result, verdict in (("error", "differs"), ("warning", "unsure")):
            for row in rows:
                if row["Result"].lower() == result:
                    named = self.module_of(row["NPU Name"], b)
                    return Answer(verdict, named, f"{result}: {row['NPU Name']}: {row['Err_message']}")
        return Answer("same", "", "pass")

    def module_of(self, name: str, recording: str) -> str:
        """The module of a row; of an operator, the module that it runs in."""
        found = MODULE.match(name)
        if found is None:
            call = re.sub(r"(\.forward)\..*", r"\1", name)
            around = json.loads(self.dump_of(recording).with_name("construct.json").read_text())
            found = MODULE.match(around.get(call) or "")
        return (found["name"] or "") if found else ""
