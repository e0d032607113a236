"""Compiled graphs to record, and what was recorded of them."""

import re

import pytest
import tensortap as tap
import torch
from small_models import passes_of


@pytest.fixture(autouse=True)
def compiled_afresh():
    """What another test compiled is forgotten."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def record(folder, function, *runs, grad=False, **options):
    """Compiles a function or module and calls it with each of `runs`; gives the backend and what came back."""
    options.setdefault("report", False)
    options.setdefault("strict", True)
    with tap.graph_backend(folder, **options) as backend, torch.set_grad_enabled(grad):
        compiled = torch.compile(function, backend=backend)
        results = [compiled(*run) for run in runs]
    return backend, results


def nodes_of(recorded):
    """The node events of a pass, by name without the percent sign; of several calls the last."""
    return {event.name.removeprefix("%"): event for event in recorded.events if event.kind == "node"}


def graphs_of(recorded):
    return [event for event in recorded.events if event.kind == "graph"]


def node_of_target(recorded, target):
    (found,) = [event for event in nodes_of(recorded).values() if re.search(target, event.notes.get("target", ""))]
    return found


def values_of(recorded, event, role="in"):
    """What the uses of an event held: the records they refer to, by path."""
    keys = list(recorded)
    return {use.path: recorded[keys[use.record]] for use in event.uses if use.role == role and use.record is not None}


def only_pass(folder):
    (recorded,) = passes_of(folder).values()
    return recorded
