"""A signal handler raises TimeoutError at random moments: it must reach the program every time, as without the tap."""

import random
import signal
import sys
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(10)])
x = torch.randn(8, 32)
fired = False


class Handler:
    def __call__(self, number, frame):
        global fired
        fired = True
        raise TimeoutError("time is up")


def plain_handler(*given):
    Handler()(*given)


chance = random.Random(0)
for number, options in enumerate([{}, {"modules": "all", "roles": ["in", "out"]}, {"ops": True}, {"level": "meta"}]):
    signal.signal(signal.SIGALRM, Handler() if number % 2 else plain_handler)
    with tap.record(model, Path(sys.argv[1]) / str(number), report=False, **options) as recording:
        for _ in range(60):
            fired = False
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.012))
            try:
                while not fired:
                    model(x)
                for _ in range(1000):  # raised a little later, when no operator is under way
                    pass
                raise AssertionError(f"{options}: the exception of the program's own handler did not come")
            except TimeoutError:
                pass
    failures = recording.coverage.get("failures")
    assert not failures, failures
    model(x)
