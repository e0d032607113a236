"""scripts/setup.sh on machines that lack something: one list, and exit code 2."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What setup.sh itself runs.
ITS_TOOLS = ("bash", "basename", "cat", "dirname", "env", "grep", "mkdir", "rm", "sed", "sha256sum", "tail", "true")


@pytest.fixture
def machine(tmp_path):
    """A checkout and a PATH with nothing on it but what the script runs and the tools named."""
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    shutil.copytree(ROOT / "python", checkout / "python", ignore=shutil.ignore_patterns("__pycache__"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ITS_TOOLS:
        (programs / name).symlink_to(shutil.which(name))

    def tool(name, body):
        (programs / name).write_text(f"#!{shutil.which('bash')}\n{body}\n")
        (programs / name).chmod(0o755)

    def setup(*words, **environment):
        return subprocess.run(
            [str(programs / "bash"), "scripts/setup.sh", *words],
            cwd=checkout,
            env={"PATH": str(programs), "HOME": str(tmp_path), **environment},
            capture_output=True,
            text=True,
        )

    setup.checkout, setup.tool = checkout, tool
    tool("id", "echo 0")
    # Every package of the lists is there, until a test says otherwise.
    tool("dpkg-query", installed(checkout))
    return setup


def installed(checkout, but=()):
    lines = "".join(path.read_text() for path in checkout.glob("scripts/apt-packages*.txt")).splitlines()
    packages = [line.split()[0] for line in lines if not line.startswith("#")]
    return "echo -n '" + " ".join(f"{p}:installed" for p in packages if p not in but) + " '"


def listed(result, kind):
    lines = [line.split()[2:] for line in result.stderr.splitlines() if line.startswith(f"  {kind} packages")]
    assert len(lines) <= 1, "one list, not a stack of errors"
    return lines[0] if lines else []


def test_nothing_missing_says_nothing(machine):
    result = machine()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_without_apt_there_is_one_list_of_apt_and_pip_packages(machine):
    machine.tool("dpkg-query", "exit 1")
    result = machine("test")
    assert result.returncode == 2
    assert {"cmake", "ninja-build", "g++"} <= set(listed(result, "apt"))
    assert {"torch==2.13.0", "nanobind>=2.4,<4"} <= set(listed(result, "pip"))
    assert "there is no apt-get" in result.stderr


def test_a_failing_apt_shows_the_end_of_its_log(machine):
    machine.tool("dpkg-query", installed(machine.checkout, but=("ninja-build",)))
    machine.tool("apt-get", "echo 'Could not resolve host'; exit 100")
    result = machine()
    assert result.returncode == 2
    assert listed(result, "apt") == ["ninja-build"]
    assert "build/logs/apt.log" in result.stdout
    assert "Could not resolve host" in result.stdout


def test_without_root_there_is_a_list(machine):
    machine.tool("id", "echo 1000")
    machine.tool("dpkg-query", installed(machine.checkout, but=("ninja-build",)))
    machine.tool("sudo", "exit 1")
    machine.tool("apt-get", "exit 0")
    result = machine()
    assert (result.returncode, listed(result, "apt")) == (2, ["ninja-build"])


def test_sudo_without_a_password_will_do(machine):
    machine.tool("id", "echo 1000")
    machine.tool("dpkg-query", installed(machine.checkout, but=("ninja-build",)))
    machine.tool("sudo", 'shift; exec "$@"')
    machine.tool("apt-get", "echo $* >>asked")
    assert re.fullmatch(r"setup: installing with apt: ninja-build\nsetup: done in \d+ s\n", machine().stdout)
    assert "install -y --no-install-recommends ninja-build" in (machine.checkout / "asked").read_text()


def test_only_the_clang_targets_ask_for_clang(machine):
    machine.tool("dpkg-query", installed(machine.checkout, but=("clang-14", "clang-tidy-14")))
    assert machine().returncode == 0
    assert listed(machine("clang"), "apt") == ["clang-14", "clang-tidy-14"]


def test_only_the_tests_ask_for_a_browser(machine):
    machine.tool("dpkg-query", installed(machine.checkout, but=("chromium", "chromium-driver")))
    assert machine().returncode == 0
    assert listed(machine("browser"), "apt") == ["chromium", "chromium-driver"]


def test_an_interpreter_that_has_everything_needs_no_network(machine):
    # That of this environment: torch and the rest come from it through a path file.
    environment = {"PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
    first = machine("test", **environment)
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.splitlines() == [f"setup: making .venv with {sys.executable}"]
    second = machine("test", **environment)
    assert (second.returncode, second.stdout) == (0, "")
    program = "import pytest, tensortap, torch; print(tensortap.__file__, torch.__version__)"
    python = machine.checkout / ".venv/bin/python"
    seen = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert Path(seen[0]).is_relative_to(machine.checkout)


def test_a_failing_pip_gives_the_list(machine):
    (machine.checkout / "python/requirements-test.txt").write_text("no-such-package-anywhere==1.0\n")
    result = machine("test", PYTHON=sys.executable, PIP_NO_INDEX="1")
    assert result.returncode == 2
    assert listed(result, "pip") == ["no-such-package-anywhere==1.0"]
    assert "build/logs/pip.log" in result.stdout


def test_an_environment_of_the_users_own_is_left_alone(machine):
    (machine.checkout / ".venv").mkdir()
    (machine.checkout / ".venv/precious").touch()
    result = machine("test", PYTHON=sys.executable)
    assert result.returncode == 2
    assert "please move it away" in result.stderr
    assert (machine.checkout / ".venv/precious").exists()
