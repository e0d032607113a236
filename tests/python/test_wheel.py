"""The wheel, built from this checkout and used where nothing else of TensorTap is: no source tree, no build."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build/test-wheel"
# What every Linux has, and what a PyTorch brings.
ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"}
OF_TORCH = {"libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so"}

PROGRAM = """
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))
if "--wrong" in sys.argv:
    model[1].eps = 0.1
model(torch.ones(2, 8).cumsum(1))
"""

LIBRARY = """
import sys
import torch
import tensortap as tap

assert "site-packages" in tap.__file__ and tap.__file__.startswith(sys.prefix), tap.__file__
model = torch.nn.Linear(4, 4)
with tap.record(model, "recorded"):
    model(torch.ones(1, 4))
assert tap.open("recorded").ranks[0].passes[0]["Linear"].shape == (1, 4)
with tap.trace(hashes=True) as trace:
    torch.ones(3).exp()
print([event.name for event in trace.events])
"""


def output_of(*command, code=0, **options):
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=1200, check=False, **options
    )
    assert result.returncode == code, f"{command}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def wheel():
    """Built as a user would, but with the packages that are here already."""
    pytest.importorskip("scikit_build_core", reason="skipped: scikit-build-core is not installed")
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", WHEELS, "-v"]
    options += ["-C", "cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"]  # half the time of the usual -O2
    log = output_of(sys.executable, "-m", "pip", "wheel", ROOT, *options)
    (made,) = WHEELS.glob("tensortap-*.whl")
    assert "warning:" not in log
    return made


class Environment:
    """A virtual environment with the wheel in it, and perhaps a PyTorch."""

    def __init__(self, folder, wheel, torch):
        self.folder = folder
        self.work = folder / "work"
        output_of(sys.executable, "-m", "venv", folder / "env")
        self.python = folder / "env/bin/python"
        self.ttap = folder / "env/bin/ttap"
        output_of(self.python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
        self.work.mkdir()
        if torch:
            # The PyTorch of the tests, but nothing that lies in a path file beside it.
            (packages,) = (folder / "env/lib").glob("python3*/site-packages")
            self.packages = packages
            (packages / "borrowed.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")

    def run(self, *command, code=0, **environment):
        known = {name: os.environ[name] for name in ("HOME", "LANG", "CXX") if name in os.environ}
        known |= {"PATH": f"{self.folder / 'env/bin'}:/usr/local/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(self.work)}
        return output_of(*command, code=code, cwd=self.work, env={**known, **environment})


@pytest.fixture(scope="module")
def with_torch(wheel, tmp_path_factory):
    torch = pytest.importorskip("torch")
    return Environment(tmp_path_factory.mktemp("with-torch"), wheel, torch)


@pytest.fixture(scope="module")
def without_torch(wheel, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("without-torch"), wheel, None)


def test_it_is_small(wheel):
    assert wheel.stat().st_size < 40e6
    with zipfile.ZipFile(wheel) as archive:
        (command,) = [entry for entry in archive.infolist() if entry.filename.endswith("scripts/ttap")]
    assert command.file_size < 15e6


def test_it_needs_no_library_but_those_of_every_linux_and_of_pytorch(wheel, tmp_path):
    pytest.importorskip("auditwheel", reason="skipped: auditwheel is not installed")
    told = output_of(sys.executable, "-m", "auditwheel", "show", wheel)
    needed = set(re.findall(r"[\w+.-]+\.so(?:\.\d+)*", told.split("The following external")[-1]))
    assert needed <= ALLOWED | OF_TORCH | {"libttap.so.0.1"}, told
    # Beyond what auditwheel says of libraries: the command by itself.
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("scripts/ttap"))
        command = Path(archive.extract(name, tmp_path))
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", command)))
    assert needed <= ALLOWED


def test_it_knows_nothing_of_the_source_tree(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith((".so", "ttap", ".0.1")):
                assert str(ROOT).encode() not in archive.read(name), name


def test_a_program_is_recorded_compared_and_checked(with_torch):
    (with_torch.work / "program.py").write_text(PROGRAM)
    for name, more in (("right", []), ("wrong", ["--wrong"])):
        told = with_torch.run("ttap", "run", "-o", name, "--", "python", "program.py", *more)
        assert "not recorded" not in told
    assert "1 introduced the error" in with_torch.run("ttap", "diff", "right", "wrong", "--html", "page.html", code=1)
    assert (with_torch.work / "page.html").stat().st_size > 1e6
    assert "no NaN" in with_torch.run("ttap", "check", "right")


def test_the_library_records_and_traces(with_torch):
    assert "['aten::ones', 'aten::exp']" in with_torch.run(with_torch.python, "-c", LIBRARY)


def test_the_module_is_the_command(with_torch):
    assert with_torch.run(with_torch.python, "-m", "tensortap", "--version") == with_torch.run("ttap", "--version")
    (with_torch.work / "program.py").write_text(PROGRAM)
    with_torch.run(with_torch.python, "-m", "tensortap", "run", "-o", "by-module", "--", "python", "program.py")
    assert "tensors" in with_torch.run("ttap", "ls", "by-module")


def test_doctor_finds_that_everything_works(with_torch):
    told = with_torch.run("ttap", "doctor")
    assert "missing" not in told
    assert "an extension built for PyTorch" in told


def test_an_observer_that_does_not_fit_is_compiled_once(with_torch, tmp_path):
    observers = with_torch.packages / "tensortap/observers"
    hidden = observers.rename(tmp_path / "observers")
    try:
        told = with_torch.run("ttap", "doctor")
        assert "compiled at first use" in told
        program = "import torch, tensortap as tap\nwith tap.trace() as t: torch.ones(1)\nprint(t.events[0].name)"
        first = with_torch.run(with_torch.python, "-c", program)
        assert "building the observer of operators" in first
        assert "aten::ones" in first
        assert with_torch.run(with_torch.python, "-c", program).strip() == "aten::ones"
        assert "an extension compiled for PyTorch" in with_torch.run("ttap", "doctor")
    finally:
        hidden.rename(observers)


def test_without_a_compiler_it_says_what_works_and_what_to_install(with_torch, tmp_path):
    observers = with_torch.packages / "tensortap/observers"
    hidden = observers.rename(tmp_path / "observers")
    try:
        surroundings = {"CXX": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path)}
        program = "import tensortap as tap\nwith tap.trace(): pass"
        told = with_torch.run(with_torch.python, "-c", program, code=1, **surroundings)
        assert "no C++ compiler" in told
        assert "All but operators works" in told
        told = with_torch.run("ttap", "doctor", code=1, **surroundings)
        assert re.search(r"missing +operators .*install g\+\+", told)
        # Recording goes on.
        (with_torch.work / "program.py").write_text(PROGRAM)
        with_torch.run("ttap", "run", "-o", "no-compiler", "--", "python", "program.py", **surroundings)
        assert "tensors" in with_torch.run("ttap", "ls", "no-compiler")
    finally:
        hidden.rename(observers)


def test_without_pytorch_recordings_can_be_read_and_compared(with_torch, without_torch):
    (with_torch.work / "program.py").write_text(PROGRAM)
    with_torch.run("ttap", "run", "-o", "elsewhere", "--", "python", "program.py")
    run = with_torch.work / "elsewhere"
    assert "identical" in without_torch.run("ttap", "diff", run, run)
    program = "import sys, tensortap as tap\nprint(len(tap.open(sys.argv[1]).ranks), tap.diff(*sys.argv[1:]).verdict)"
    assert without_torch.run(without_torch.python, "-c", program, run, run).strip() == "1 identical"
    told = without_torch.run("ttap", "doctor", code=1)
    assert re.search(r"missing +PyTorch", told)
    told = without_torch.run(without_torch.python, "-c", "import tensortap as tap\ntap.trace()", code=1)
    assert "pip install torch" in told


def test_the_source_distribution_configures(tmp_path):
    pytest.importorskip("scikit_build_core", reason="skipped: scikit-build-core is not installed")
    make = f"from scikit_build_core.build import build_sdist; print(build_sdist({str(tmp_path)!r}))"
    output_of(sys.executable, "-c", make, cwd=ROOT)
    (made,) = tmp_path.glob("*.tar.gz")
    assert made.stat().st_size < 10e6
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.glob("tensortap-*/")
    settings = [f"-DPython_EXECUTABLE={sys.executable}", "-DTTAP_PYTHON=ON", "-DTTAP_CUDA=OFF", "-DTTAP_OBSERVER=ON"]
    output_of("cmake", "-S", folder, "-B", tmp_path / "build", "-G", "Ninja", *settings)
