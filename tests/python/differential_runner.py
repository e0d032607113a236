"""Runs the programs of tests/differential, each in a forked process: `differential_runner.py SOURCE RESULTS NAME…`.

SOURCE is what the tap sees: none, record, ops or trace. For each program the file RESULTS gets a line of JSON: how it
ended, and what it printed.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch  # noqa: F401  # once, for all programs

FOLDER = Path(__file__).resolve().parents[1] / "differential"
PATIENCE = float(os.environ.get("DIFFERENTIAL_PATIENCE", "90"))  # seconds for one program


def programs():
    """Source by name: `threads: one thread`."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        for part in path.read_text().split("#: ")[1:]:
            name, _, source = part.partition("\n")
            found[f"{path.stem}: {name}"] = source
    return found


def wait(child):
    """How it ended: an exit code, or a negative signal; None when it did not."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def tap_of(source):
    if source == "none":
        return contextlib.nullcontext()
    import tensortap as tap

    if source == "trace":
        return tap.trace(hashes=True)
    return tap.record(None, "recorded", ops=source == "ops", report=False)


def main():
    source, results, *names = sys.argv[1:]
    if source != "none":
        import tensortap as tap

        _ = tap.record if source != "trace" else tap.trace  # imports the rest, once for all
    known = programs()
    with open(results, "a") as file:
        for name in names:
            folder = tempfile.mkdtemp(dir=Path(results).parent)
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                return folder, source, name, known[name]
            ended = wait(child)
            printed = {stream: Path(folder, stream).read_text(errors="replace") for stream in ("stdout", "stderr")}
            file.write(json.dumps({"name": name, "ended": ended, **printed}) + "\n")
            file.flush()
    return None


chosen = main()
if chosen is not None:  # in a process of its own, which ends as Python ends
    folder, source, name, text = chosen
    os.chdir(folder)
    for number, stream in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT, 0o644), number)
    namespace = globals()  # of __main__, where pickle looks for functions
    exec(compile((FOLDER / "prelude.py").read_text(), "prelude", "exec"), namespace)
    os.mkdir("work")
    os.chdir("work")
    tap_on = tap_of(source)
    if source == "trace":
        with tap_on:
            exec(compile(text, name, "exec"), namespace)
    else:  # left open, as programs do: it is closed at the end
        exec(compile(text, name, "exec"), namespace)
