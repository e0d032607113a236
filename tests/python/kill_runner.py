"""Kills a recording program at a random moment, again and again, and reads what it left.

kill_runner.py FOLDER KILLS [SEED]: exit code 0 when after every kill all passes that had been flushed are whole, and
all that can be read is right. Every program is a fork of this one.
"""

import os
import random
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import tensortap as tap
import torch
from small_net import Net

FORMATS = ("ttap", "ttap", "ttap", "pt", "safetensors", "npy")


def record_until_killed(folder, format, told, every):
    """In the child. Tells how many passes were flushed."""
    torch.manual_seed(0)
    model = Net(64, 256)
    recording = tap.record(
        model, folder, ops=format == "ttap", roles=("in", "out", "grad_out"), format=format, report=False
    )
    number = 0
    while True:
        x = torch.full((100, 64), float(number % 7), requires_grad=True)
        with recording.step():
            model(x).sum().backward()
        number += 1
        if number % every == 0:
            recording.flush()
            os.write(told, b"%d\n" % number)


def expected_of(path):
    """What the model computes. In a child: a process that has used a library's threads must not fork."""
    child = os.fork()
    if child == 0:
        torch.manual_seed(0)
        model = Net(64, 256)
        torch.save([model(torch.full((100, 64), float(i))).detach() for i in range(7)], path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return torch.load(path)


def killed(folder, format, rng):
    """How many passes the program said were on the disk before it was killed."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        record_until_killed(folder, format, writable, rng.choice([1, 3, 10]))
    os.close(writable)
    if rng.random() < 0.8:  # else perhaps before it has written anything
        select.select([readable], [], [], 30)
    time.sleep(rng.uniform(0, 0.12))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(readable) as said:
        lines = said.read().split("\n")[:-1]
    return int(lines[-1]) if lines else 0


def read(folder, flushed, expected):
    """Every pass that was flushed is whole; every tensor that can be read is what the model computed."""
    whole = set()
    for rank in tap.open(folder).ranks:
        for number in rank.passes:
            one = rank.passes[number]
            if one.ending == "complete":
                whole.add(number)
            assert number >= flushed or one.ending == "complete", f"pass {number} of {flushed} is {one.ending}"
            for record in one.records:
                if not record.has_bytes or record.key != "down":
                    continue
                assert torch.equal(one[record.key], expected[number % 7]), f"pass {number}: {record.key} is wrong"
    missing = set(range(flushed)) - whole
    assert not missing, f"{len(missing)} of {flushed} flushed passes are lost, {sorted(missing)[:5]}"


def recover(run):
    """All but passes of which there is not a byte yet: those are to be deleted."""
    try:
        tap.recover(run)
    except tap.FormatError as error:
        if "the file is empty" not in str(error):
            raise
        for path in run.rglob("*.incomplete"):
            if path.stat().st_size == 0:
                path.unlink()
        tap.recover(run)


def main():
    torch.set_num_threads(1)
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 2**32
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    expected = expected_of(folder / "expected.pt")
    passes = 0
    for i in range(kills):
        format = rng.choice(FORMATS)
        run = folder / f"run{i}"
        flushed = killed(run, format, rng)
        passes += flushed
        try:
            if run.exists() and any(run.glob("rank*/pass*")):
                read(run, flushed, expected)
                recover(run)
                read(run, flushed, expected)
                left = [path.name for path in run.rglob("*.incomplete")]
                assert not left, f"recovering left {left}"
            else:
                assert flushed == 0, f"{flushed} passes were flushed, and there is nothing"
        except BaseException:
            print(f"kill {i}, {format}: {run}", file=sys.stderr)
            raise
        shutil.rmtree(run, ignore_errors=True)
    print(f"{kills} kills, {passes} flushed passes, none lost")


main()
