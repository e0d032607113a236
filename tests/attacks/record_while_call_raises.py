"""Recordings begin and end while PyTorch walks the hooks of a call that has raised."""

import sys
import threading
from pathlib import Path

import tensortap as tap
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

folder = Path(sys.argv[1])
found = []


class Failure(Exception):
    """What the program raises."""


class Fails(nn.Module):
    def forward(self, x):
        raise Failure


def run(case, register, options, begins, ends):
    """A hook of the program's, put on before or after the recording, begins or ends recordings on another thread."""
    model = nn.Sequential(nn.ReLU(), Fails())
    recordings = []

    def begin():
        recordings.append(tap.record(model, folder / "run", report=False, **options))

    def change():
        for _ in range(ends):
            recordings.pop().close()
        for _ in range(begins):
            begin()

    def hook(module, args, output):
        if isinstance(module, Fails):
            thread = threading.Thread(target=change)
            thread.start()
            thread.join()

    handles = [register(model[1], hook)] if case == "before" else []
    for _ in range(ends + 1):
        begin()
    if case == "after":
        handles.append(register(model[1], hook))
    try:
        model(torch.ones(2))
    except Failure as error:
        if error.__context__ is not None:
            found.append((case, register.__name__, options, begins, ends, repr(error.__context__)))
    except Exception as error:
        found.append((case, register.__name__, options, begins, ends, repr(error)))
    for recording in recordings:
        recording.close()
    for handle in handles:
        handle.remove()


def of_module(module, hook):
    return module.register_forward_hook(hook, always_call=True)


def of_all(module, hook):
    return register_module_forward_hook(hook, always_call=True)


for case in "before", "after":
    for register in of_module, of_all:
        for options in {}, {"roles": ("in", "out")}, {"ops": True}:
            for begins, ends in (1, 0), (0, 1), (0, 2), (2, 2):
                run(case, register, options, begins, ends)
assert not found, f"{len(found)}: {found[:4]}"
