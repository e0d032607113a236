"""What `ttap blame` and `ttap replay` do; the command has checked their options."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from tensortap.reading import FormatError
from tensortap.replaying.blame.blaming import blame
from tensortap.replaying.blame.one_call import replay_key
from tensortap.replaying.find_module import load_model
from tensortap.tensors.dtypes import TORCH_DTYPES

_FINE, _FINDING, _ERROR, _INTERRUPTED = 0, 1, 2, 130
_WAIT = 0.5  # seconds before work is long, and between two lines of progress


def main(words: Sequence[str]) -> int:
    """Run the command with these words; its exit code."""
    options = _options(words)
    return answered(options.command, lambda: _blame(options) if options.command == "blame" else _replay(options))


def answered(command: str, run: Callable[[], int]) -> int:
    """The exit code of a command: what `run` gives, or that of an error, which is printed."""
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `ttap blame RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FINE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        _fail(command, str(error))
    except (ValueError, LookupError, FormatError) as error:
        _fail(command, str(error.args[0]) if error.args else str(error))
    except Exception:  # a mistake of ours is no finding
        traceback.print_exc()
        return _ERROR


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    of_blame, of_replay = commands.add_parser("blame"), commands.add_parser("replay")
    for each in (of_blame, of_replay):
        each.add_argument("run")
        each.add_argument("--pass", dest="passes", default="")
        each.add_argument("--rank", dest="ranks", default="")
        each.add_argument("--device", default="cpu")
        each.add_argument("--json", action="store_true")
        each.add_argument("--color", default="auto")
    of_blame.add_argument("--top", type=int, default=10)
    of_blame.add_argument("--all", action="store_true")
    of_replay.add_argument("key")
    of_replay.add_argument("--dtype", default="")
    of_replay.add_argument("--model", default="")
    return parser.parse_args(words)


def _blame(options: argparse.Namespace) -> int:
    progress = Progress("replaying")
    found = blame(
        options.run,
        passes=options.passes,
        ranks=options.ranks,
        top=options.top,
        device=options.device,
        all=options.all,
        progress=progress.show,
    )
    progress.wipe()
    if found.judged == 0:
        reasons = found.reasons.most_common(1)
        _fail("blame", f"no operator could be judged: {reasons[0][0] if reasons else 'none makes a number'}")
    print_answer(found.to_json() if options.json else str(found), options.color)
    return _FINE if found.ok else _FINDING


def _replay(options: argparse.Namespace) -> int:
    precision = TORCH_DTYPES[options.dtype] if options.dtype else None
    model = load_model(options.model) if options.model else None
    found = replay_key(options.run, options.key, options.passes, options.ranks, options.device, precision, model)
    print_answer(found.to_json() if options.json else str(found), options.color)
    return _FINE if found.ok else _FINDING


def print_answer(what: object, color: str) -> None:
    """A text as it is, anything else as JSON."""
    if not isinstance(what, str):
        print(json.dumps(what, indent=1))
        return
    wanted = color == "always" or (color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    print(what.replace("blamed:", "\x1b[31mblamed:\x1b[0m", 1) if wanted and what.startswith("blamed:") else what)


def _fail(command: str, what: str) -> NoReturn:
    print(f"ttap {command}: error: {what}\n  what to do: see ttap {command} --help", file=sys.stderr)
    sys.exit(_ERROR)


class Progress:
    """One line on a terminal, only once the work has taken a while, and wiped away at the end."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _WAIT
        self._drawn = False

    def show(self, done: int, total: int) -> None:
        """So many calls are done."""
        if self._terminal and (now := time.monotonic()) >= self._next:
            self._next, self._drawn = now + _WAIT, True
            print(f"\r\x1b[K{self._label} {done} of {total} calls", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """The work is done."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
