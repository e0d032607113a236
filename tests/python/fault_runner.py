"""Records three passes while one system call of the recording fails, for every case it is given.

fault_runner.py FOLDER: cases come as JSON lines [number, how, for_good] on stdin, `null` for a recording without a
fault; what each came to goes to stdout, a JSON line each. Run with faults.cpp preloaded. Every case is a fork.
"""

import ctypes
import errno
import json
import os
import shutil
import sys
import traceback
from pathlib import Path

import tensortap as tap
import torch
from small_net import Net

FAULTS = ctypes.CDLL(None)
FAULTS.ttap_faults_name.restype = ctypes.c_char_p
HOWS = {"short": -1, "stall": -2}
SECONDS = 60


def recorded(folder):
    """Three passes; what the model computed, and what the recording said."""
    torch.manual_seed(0)
    model = Net(16, 600)
    try:
        recording = tap.record(model, folder, ops=True, level="full", roles=("in", "out"), report=False)
    except OSError as error:  # it cannot begin, and says so to who asked for it
        return {"sums": sums_of(model), "said": [str(error)]}
    sums = sums_of(model)
    writer = recording._writer
    recording.close()
    report = writer.core.report() if writer is not None else {}
    return {
        "sums": sums,
        "said": [cause for cause, count in report.get("drops", {}).items() if count]
        + [text for text in (report.get("first_error"), recording._cannot_write) if text]
        + recording.coverage["notes"]
        + list(recording.coverage.get("failures", [])),
    }


def sums_of(model):
    return [model(torch.full((40, 16), float(i))).double().sum().item() for i in range(3)]


def run(folder, case):
    """In the child."""
    FAULTS.ttap_faults_watch(os.fsencode(folder))
    number, how, for_good = case or (-1, "EIO", False)
    FAULTS.ttap_faults_arm(ctypes.c_long(number), HOWS.get(how) or getattr(errno, how), int(for_good))
    try:
        result = recorded(folder)
    except BaseException:
        result = {"raised": traceback.format_exc()}
    if case is None:
        result["calls"] = [FAULTS.ttap_faults_name(i).decode() for i in range(FAULTS.ttap_faults_calls())]
    FAULTS.ttap_faults_arm(ctypes.c_long(-1), 0, 0)
    return result


def in_child(folder, case):
    """How it ended, and what it says."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        result = run(folder, case)
        with os.fdopen(writable, "w") as out:
            json.dump(result, out)
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return {"status": status, **(json.loads(text) if text else {})}


def contents(folder):
    """By pass and key, what is on the disk: the tensors' hashes and bytes; and what could not be read."""
    found, unreadable = {}, []
    try:
        ranks = tap.open(folder).ranks
    except FileNotFoundError as error:
        return found, [str(error)]
    for rank in ranks:
        for number in list(rank.passes):
            try:
                one = rank.passes[number]
                for record in one.records:
                    data = one[record.key].tolist() if record.has_bytes else None
                    found[f"{number} {record.key}"] = [str(record.hash), data]
            except (tap.FormatError, OSError) as error:
                unreadable.append(f"pass {number}: {error}")
        for name in ("coverage", "model", "metadata"):
            try:
                getattr(rank, name)
            except (tap.FormatError, OSError, ValueError) as error:
                unreadable.append(f"{name}: {error}")
    return found, unreadable


def bytes_of(found, key):
    return found[key][1] if key in found else None


def is_wrong(value, expected):
    """Bytes that were lost are not wrong."""
    return expected is None or value[0] != expected[0] or value[1] not in (None, expected[1])


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    reference = None
    for number, line in enumerate(sys.stdin):
        case = json.loads(line)
        run_folder = folder / f"run{number}"
        result = in_child(run_folder, case)
        found, unreadable = contents(run_folder)
        reference = reference if reference is not None else found
        result["unreadable"] = unreadable
        result["missing"] = sorted(key for key, (_, data) in reference.items() if data and not bytes_of(found, key))
        result["wrong"] = sorted(key for key, value in found.items() if is_wrong(value, reference.get(key)))
        result["tensors"] = len(found)
        print(json.dumps({"case": case, **result}), flush=True)
        shutil.rmtree(run_folder, ignore_errors=True)


main()
