"""Selective checkpointing counts the operators of forward and recomputation: the tap adds none."""

import sys
from functools import partial
from pathlib import Path

import tensortap as tap
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

torch.set_num_threads(1)
seen = []


def policy(context, operator, *_args, **_kwargs):
    seen.append((context.is_recompute, str(operator)))
    kept = operator in (torch.ops.aten.view.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)).view(2, 4))


def run(folder=None, **options):
    torch.manual_seed(0)
    model = Model()
    seen.clear()
    recording = tap.record(model, folder, report=False, **options) if folder is not None else None
    x = torch.ones(2, 4, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, policy)
    checkpoint(model, x, use_reentrant=False, context_fn=contexts).sum().backward()
    if recording is not None:
        recording.close()
        assert not recording.coverage.get("failures"), recording.coverage
    return x.grad.sum().item(), list(seen)


alone = run()
for number, options in enumerate(
    (
        {},
        {"roles": ("out", "grad_out")},
        {"roles": ("out", "grad_in")},
        {"roles": ("out", "in", "grad_out", "grad_in", "param"), "modules": "all"},
        {"roles": ("out", "grad_in"), "ops": True},
    )
):
    assert run(Path(sys.argv[1]) / str(number), **options) == alone, options
