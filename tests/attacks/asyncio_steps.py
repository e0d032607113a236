"""Tasks of asyncio whose steps overlap: each tensor belongs to the pass of its own task."""

import asyncio
import sys

import tensortap as tap
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4))


async def task(recording, value):
    with recording.step() as number:
        for _ in range(3):
            model(torch.full((2, 4), float(value)))
            await asyncio.sleep(0.005)
    return number, value


async def main(recording):
    return await asyncio.gather(*[task(recording, value) for value in range(5)])


with tap.record(model, sys.argv[1], step="manual", roles="in", report=False) as recording:
    numbers = asyncio.run(main(recording))
passes = tap.open(sys.argv[1]).ranks[0].passes
for number, value in numbers:
    values = [float(passes[number][key][0, 0]) for key in passes[number]]
    assert values == [value] * 3, f"pass {number} holds {values}, not {value}"
