"""Ctrl-C at every third line of what hooks run: the next forwards are passes of their own, with all their operators."""

import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

torch.set_num_threads(1)
folder = Path(sys.argv[1])
package = Path(tap.__file__).parent
FILES = [str(package / name) for name in ("session/passes.py", "modules/taps.py", "modules/module_source.py",
                                          "modules/hooks.py", "session/tensor_capture.py", "ops/module_scopes.py",
                                          "session/session.py")]  # fmt: skip
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
x = torch.ones(1, 4)


def run_interrupted(at):
    """Runs the model; KeyboardInterrupt at the how-manieth line of ours. Whether there was one."""
    left = [at]

    def on_line(frame, event, argument):
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return on_line

    def on_call(frame, event, argument):
        return on_line if frame.f_code.co_filename in FILES else None

    sys.settrace(on_call)
    try:
        model(x)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left[0] <= 0


for options in ({}, {"ops": True}):
    with tap.record(model, folder / f"whole{len(options)}", report=False, **options):
        model(x)
    whole = tap.open(folder / f"whole{len(options)}").ranks[0].passes[0]
    expected = (len(whole), len(whole.events))
    for at in range(1, 2000, 3):
        run = folder / f"{len(options)}_{at}"
        with tap.record(model, run, report=False, **options):
            model(x)
            was_interrupted = run_interrupted(at)
            for _ in range(3):
                model(x)
        if not was_interrupted:
            break
        passes = list(tap.open(run).ranks[0].passes.values())
        found = [(len(recorded), len(recorded.events)) for recorded in passes]
        assert found[0] == expected and found[-3:] == [expected] * 3, f"line {at}, {options}: {found}, not {expected}"
    with tap.record(model, folder / f"after{len(options)}", report=False, ops=True, level="full"):
        model(x)
    assert tap.open(folder / f"after{len(options)}").ranks[0].passes[0].events, "operators stay suppressed"
