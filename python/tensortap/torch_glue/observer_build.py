"""Compiles the extension that observes operators where no installed one fits: once, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_PACKAGE = Path(__file__).parents[1]
_FILE = "_ops" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")
# Two files, compiled at the same time.
_PARTS = 2
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fno-plt", "-ffp-contract=off", "-w")
_BUILT_LIBRARY = "libttap.so*"


class CannotBuild(Exception):
    """The extension cannot be compiled here."""


@dataclass(frozen=True)
class _Sources:
    """Where the sources lie: installed with the package, or in the checkout that it is imported from."""

    root: Path  # holds src/ and include/
    nanobind: Path
    fmt: Path | None  # None: where the compiler looks by itself

    @property
    def files(self) -> list[Path]:
        return sorted((self.root / "src" / "torch").rglob("*.cpp"))


def built(version: str, torch: Path) -> Path:
    """The extension for the PyTorch in the folder `torch`, compiled if it is not in the cache.

    Raises
    ------
    CannotBuild
        Says why, as a part of a sentence.
    """
    sources = _find_sources()
    path = cached(version)
    if sources is None or path is None:
        raise CannotBuild("the sources of that part are not installed")
    if path.exists():
        return path
    compiler = find_compiler()
    if compiler is None:
        raise CannotBuild("there is no C++ compiler to build it: install g++ 12 or newer")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The processes of one program wait for the first of them.
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _compile(sources, compiler, version, torch, path)
    except OSError as error:
        raise CannotBuild(f"it cannot be built in {path.parent}: {error}") from error
    return path


def cached(version: str) -> Path | None:
    """Where the extension for a version of PyTorch is kept once it was compiled; None without its sources."""
    sources = _find_sources()
    if sources is None:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tensortap" / f"torch{version}-{_digest(sources)}" / _FILE


def find_compiler() -> str | None:
    """The C++ compiler that CXX names, else g++ or clang++."""
    named = os.environ.get("CXX")
    return shutil.which(named) if named else shutil.which("g++") or shutil.which("clang++")


def _find_sources() -> _Sources | None:
    installed = _PACKAGE / "observer_source"
    if installed.is_dir():
        return _Sources(installed, installed / "nanobind", installed / "fmt")
    checkout = _PACKAGE.parent.parent
    if not (checkout / "src" / "torch" / "module.cpp").exists():
        return None
    try:
        import nanobind  # of a source tree only
    except ImportError:
        return None
    return _Sources(checkout, Path(nanobind.__file__).parent, None)


def _digest(sources: _Sources) -> str:
    """Tells apart what another version of TensorTap has compiled: by the library that it must fit, and its sources."""
    digest = hashlib.sha256()
    for file in sorted((_PACKAGE / "lib").glob(_BUILT_LIBRARY)):
        digest.update(f"{file.name} {file.stat().st_size}".encode())
    for file in sources.files + sorted((sources.root / "src").rglob("*.h")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _compile(sources: _Sources, compiler: str, version: str, torch: Path, path: Path) -> None:
    library = next((_PACKAGE / "lib").glob(_BUILT_LIBRARY), None)
    if library is None:
        raise CannotBuild(f"there is no library in {_PACKAGE / 'lib'}: install TensorTap again")
    includes = [
        f"-I{sources.root / 'include'}",
        f"-I{sources.root / 'src'}",
        *(f"-isystem{folder}" for folder in _system_includes(sources, torch)),
    ]
    flags = [*_FLAGS, "-DFMT_HEADER_ONLY", "-DNB_COMPACT_ASSERTIONS", *includes]
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch_name:
        scratch = Path(scratch_name)
        units = [*_write_units(sources, scratch), sources.nanobind / "src" / "nb_combined.cpp"]
        objects = [scratch / f"{unit.stem}.o" for unit in units]
        with _Progress(f"building the observer of operators for PyTorch {version}, once", len(units) + 1) as progress:
            _run_all(
                [[compiler, *flags, "-c", str(unit), "-o", str(to)] for unit, to in zip(units, objects, strict=True)],
                progress.step,
            )
            made = scratch / _FILE
            link = [compiler, "-shared", "-o", str(made), *map(str, objects), f"-L{torch / 'lib'}", str(library)]
            link += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", "-Wl,--exclude-libs,ALL"]
            # _core has loaded it already, wherever it lies.
            _run_all([link], progress.step)
        os.replace(made, path)


def _system_includes(sources: _Sources, torch: Path) -> Iterator[Path]:
    yield torch / "include"
    yield torch / "include" / "torch" / "csrc" / "api" / "include"
    yield sources.nanobind / "include"
    yield sources.nanobind / "ext" / "robin_map" / "include"
    if sources.fmt is not None:
        yield sources.fmt
    yield Path(sysconfig.get_path("include"))


def _write_units(sources: _Sources, scratch: Path) -> list[Path]:
    """Files that include the sources, so that PyTorch's headers are read only so many times."""
    units = []
    for part in range(_PARTS):
        unit = scratch / f"observer{part}.cpp"
        heads = ["ATen/core/Tensor.h", "ATen/core/dispatch/Dispatcher.h", "ATen/record_function.h"]
        lines = [f"#include <{head}>" for head in heads]
        lines += [f'#include "{file}"' for file in sources.files[part::_PARTS]]
        unit.write_text("\n".join(lines) + "\n")
        units.append(unit)
    return units


def _run_all(commands: Sequence[Sequence[str]], step: Callable[[int], None]) -> None:
    """Runs them at the same time; raises with what the first that fails has to say."""
    running = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    try:
        waiting = list(running)
        while waiting:
            step(sum(process.poll() is not None for process in running))
            waiting[0].poll()
            try:
                output, _ = waiting[0].communicate(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            if waiting[0].returncode != 0:
                tail = "\n".join(output.splitlines()[:20])
                raise CannotBuild(f"the compiler refused it:\n{tail}\n")
            waiting.pop(0)
        step(len(running))
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


class _Progress:
    """A line on stderr that counts, on a terminal; elsewhere one line when it begins, and one when it is done."""

    def __init__(self, what: str, steps: int) -> None:
        self._what = what
        self._steps = steps
        self._before = 0
        self._done = 0
        self._begin = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        if not self._terminal:
            self._say(f"{self._what}\n")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        end = f"{self._what}: {'done' if kind is None else 'failed'} after {time.monotonic() - self._begin:.0f} s"
        self._say(f"\r\033[K{end}\n" if self._terminal else f"{end}\n")

    def step(self, done: int) -> None:
        if done < self._done:  # the next commands
            self._before += self._done
        self._done = done
        if self._terminal:
            seconds = time.monotonic() - self._begin
            self._say(f"\r{self._what}: {self._before + done} of {self._steps} steps, {seconds:.0f} s ")

    def _say(self, text: str) -> None:
        sys.stderr.write(f"tensortap: {text}" if not text.startswith("\r") else text)
        sys.stderr.flush()
