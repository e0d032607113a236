"""Starts, stops, flushes and closes recordings from several threads and from signal handlers while models run.

chaos.py FOLDER SECONDS [SEED]: exit code 0 when every model computed what it computes alone, nothing of ours was raised
into one, nothing hung, and everything that was recorded can be read and is right.
"""

import contextlib
import faulthandler
import gc
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

import tensortap as tap
import torch
from torch import nn

warnings.simplefilter("ignore")  # recordings that share a directory
torch.set_num_threads(1)
sys.setswitchinterval(1e-4)
FOLDER = Path(sys.argv[1])
END = time.monotonic() + float(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 2**32
RECORDINGS_PER_FOLDER = 60
STUCK_SECONDS = 60

problems: list[str] = []
COUNTED = ("forwards", "backwards", "recordings", "traces", "signals", "timeouts", "read")
counts = dict.fromkeys(COUNTED, 0)
beats: dict[str, float] = {}  # by thread: when it last got somewhere


_ = (tap.record, tap.trace, tap.open, tap.FormatError)  # imports the rest, which no signal is to interrupt


class Timeout(Exception):
    """What the program's own signal handler raises."""


def make_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), nn.Linear(8, 4))


MODELS = [make_model(seed) for seed in range(4)]
INPUTS = [torch.randn(3, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
with torch.no_grad():
    EXPECTED = [model(x).clone() for model, x in zip(MODELS, INPUTS, strict=True)]


def beat():
    beats[threading.current_thread().name] = time.monotonic()


def going_on():
    beat()
    return time.monotonic() < END and not problems


def note(what):
    problems.append(f"{threading.current_thread().name}: {what}")


# ---- the program ----


def forward(i, rng):
    if rng.random() < 0.3:
        x = INPUTS[i].clone().requires_grad_()
        y = MODELS[i](x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        counts["backwards"] += 1
        if not torch.isfinite(grad).all():
            note(f"model {i}: a gradient is not finite")
    else:
        with torch.no_grad():
            y = MODELS[i](INPUTS[i])
    if not torch.equal(y.detach(), EXPECTED[i]):
        note(f"model {i} computed something else")
    counts["forwards"] += 1


def serve(i):
    rng = random.Random(SEED + i)
    while going_on():
        try:
            forward(i, rng)
        except BaseException:
            note(traceback.format_exc())


# ---- recordings ----


def options(rng):
    return {
        "ops": rng.random() < 0.4,
        "roles": rng.choice([("out",), ("in", "out"), ("out", "grad_out"), ("in", "out", "grad_in", "grad_out")]),
        "level": rng.choice(["full", "fingerprint", "meta"]),
        "staging": rng.choice(["256K", "4M"]),
        "step": rng.choice(["auto", "auto", "manual"]),
        "report": False,
    }


def one_recording(folder, rng):
    chosen = rng.sample(range(len(MODELS)), rng.choice([1, 1, 2]))
    models = {f"m{i}": MODELS[i] for i in chosen}
    recording = tap.record(models, folder, **options(rng))
    for _ in range(rng.randrange(4)):
        what = rng.random()
        if what < 0.3:
            recording.flush()
        elif what < 0.5:
            with recording.step():
                forward(chosen[0], rng)
        else:
            time.sleep(rng.random() * 0.01)
    recording.close()
    if rng.random() < 0.1:
        recording.close()
    counts["recordings"] += 1


def one_trace(i, rng):
    with tap.trace(hashes=rng.random() < 0.5) as trace:
        forward(i, rng)
    if len(trace) == 0:
        note("a trace is empty")
    counts["traces"] += 1


def check(folder):
    """Every pass that is whole can be read, and is right."""
    hashes = {}
    for rank in tap.open(folder).ranks:
        for number in list(rank.passes):
            beat()
            for record in rank.passes[number].records:
                if record.name in ("m0.3", "m1.3", "m2.3", "m3.3") and record.role == "out" and record.hash is not None:
                    hashes.setdefault(record.name, set()).add(record.hash)
                counts["read"] += 1
    for name, found in hashes.items():
        if len(found) != 1:
            note(f"{name} gave {len(found)} different results in {folder.name}")


def record(number, shared):
    rng = random.Random(SEED + 100 + number)
    for turn in range(10**9):
        folder = FOLDER / (f"shared{turn}" if shared else f"own{number}_{turn}")
        for _ in range(RECORDINGS_PER_FOLDER):
            if not going_on():
                return
            try:
                if rng.random() < 0.2:
                    one_trace(number % len(MODELS), rng)
                else:
                    one_recording(folder, rng)
            except BaseException:
                note(traceback.format_exc())
        if not shared:
            check(folder)
            beat()
            subprocess.run(["rm", "-r", folder], check=True)  # here each file would wait for the interpreter


def read_live():
    """Reads what is being written."""
    rng = random.Random(SEED + 200)
    while going_on():
        with contextlib.suppress(OSError, tap.FormatError):  # gone, or just being made
            runs = sorted(FOLDER.glob("*"))
            if runs:
                for rank in tap.open(rng.choice(runs)).ranks:
                    for number in list(rank.passes)[-3:]:
                        counts["read"] += len(rank.passes[number].records)
        gc.collect()
        time.sleep(0.02)


# ---- signals ----

handler_rng = random.Random(SEED + 300)
of_handler = []
is_interruptible = False  # by an exception of the handler


def on_signal(_number, _frame):
    counts["signals"] += 1
    what = handler_rng.random()
    if what < 0.3 and is_interruptible:
        raise Timeout
    if of_handler:
        of_handler.pop().close()
    elif what < 0.6:
        of_handler.append(tap.record(MODELS[3], FOLDER / "of_handler", report=False, staging="256K"))


def main_loop():
    """Runs a model that signals interrupt."""
    rng = random.Random(SEED + 400)
    signal.signal(signal.SIGALRM, on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.013)
    global is_interruptible
    while going_on():
        try:
            is_interruptible = True
            while going_on():
                forward(3, rng)
            is_interruptible = False
        except Timeout:
            is_interruptible = False
            counts["timeouts"] += 1
            torch.set_grad_enabled(True)  # an interrupt inside no_grad() itself leaves it on, with and without us
        except BaseException:
            is_interruptible = False
            note(traceback.format_exc())
        late = [name for name, at in list(beats.items()) if time.monotonic() - at > STUCK_SECONDS]
        if late:
            note(f"stuck for {STUCK_SECONDS} s: {late}")
            faulthandler.dump_traceback(all_threads=True)
    signal.setitimer(signal.ITIMER_REAL, 0)


def main():
    faulthandler.enable()
    faulthandler.dump_traceback_later(END - time.monotonic() + 3 * STUCK_SECONDS, exit=True)
    FOLDER.mkdir(exist_ok=True)
    threads = [threading.Thread(target=serve, args=(i,), name=f"serve{i}") for i in range(3)]
    threads += [threading.Thread(target=record, args=(i, i < 2), name=f"record{i}") for i in range(3)]
    threads.append(threading.Thread(target=read_live, name="read"))
    for thread in threads:
        thread.start()
    main_loop()
    for thread in threads:
        thread.join()
    for recording in of_handler:
        recording.close()
    for folder in sorted(FOLDER.iterdir()):
        check(folder)
    print(f"seed {SEED}:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    for problem in problems[:5]:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
