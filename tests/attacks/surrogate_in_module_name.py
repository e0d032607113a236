"""A module whose name holds half of a surrogate pair, which UTF-8 cannot have: it is recorded under an escaped name."""

import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

model = nn.Sequential()
model._modules["a\ud800"] = nn.Linear(2, 2)
model._modules["a\ud800"]._parameters["w\udfff"] = nn.Parameter(torch.ones(2))
for number, options in enumerate(({}, {"ops": True}, {"roles": ("out", "param", "grad_out")})):
    folder = Path(sys.argv[1]) / str(number)
    with tap.record(model, folder, report=False, **options) as recording:
        model(torch.randn(2, 2)).sum().backward()
    assert not recording.coverage.get("failures"), recording.coverage
    (rank,) = tap.open(folder).ranks
    names = {record.name for each in rank.passes.values() for record in each.records}
    assert any("a\\ud800" in name for name in names), names
with tap.trace(model) as trace:
    model(torch.randn(2, 2)).sum().backward()
assert "a\\ud800" in str(trace), str(trace)
