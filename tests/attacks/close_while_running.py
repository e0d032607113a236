"""Two threads run a model all the time while a third begins and closes recordings of it."""

import faulthandler
import sys
import threading
import time
import traceback
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

faulthandler.dump_traceback_later(100, exit=True)
torch.set_num_threads(1)
sys.setswitchinterval(1e-5)
folder = Path(sys.argv[1])
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(20)])
x = torch.randn(2, 8)
expected = model(x)
problems = []
done = False


def serve():
    while not done:
        try:
            if not torch.equal(model(x), expected):
                problems.append("another result")
        except Exception:
            problems.append(traceback.format_exc())


threads = [threading.Thread(target=serve) for _ in range(2)]
for thread in threads:
    thread.start()
end = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 4)
count = 0
while time.monotonic() < end:
    options = [{}, {"ops": True}, {"roles": ["in", "out", "param"], "modules": "all"}][count % 3]
    with tap.record(model, folder / "run", report=False, **options):
        time.sleep(0.002)
    with tap.trace(model, hashes=True):
        time.sleep(0.001)
    count += 1
done = True
for thread in threads:
    thread.join()
assert not problems, f"{len(problems)} problems in the model, the first: {problems[0]}"
hooks = [hook for module in model.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)]
assert not hooks, f"{len(hooks)} hooks are left"
assert count > 5
endings = {recorded.ending for recorded in tap.open(folder / "run").ranks[0].passes.values()}
assert endings <= {"complete", "aborted"}, endings
