"""Runs to look at, and a PyTorch that computes the same all the while."""

import signal
import subprocess
import warnings

import pytest
from ttap_command import MAKE


def settle_on_a_library() -> None:
    """Where a processor cannot multiply bf16 as oneDNN would, PyTorch gives that up with the first such product, for
    the rest of the process and for all dtypes: from then on the same float32 layer gives other bits than before."""
    try:
        import torch
    except ImportError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.nn.functional.linear(*(torch.ones(64, 64, dtype=torch.bfloat16) for _ in range(2)))


def hear_signals() -> None:
    """The tests may run under nohup, or in the background of a shell: what they start would ignore these too."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


settle_on_a_library()
hear_signals()


def pytest_collection_modifyitems(items):
    """What takes longest begins first, so that no process waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_wheel.py")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs by kind, made on demand and only read."""
    folder = tmp_path_factory.mktemp("runs")

    def sample(kind, *more):
        path = folder / kind
        if not path.exists():
            subprocess.run([MAKE, kind, path, *more], check=True)
        return path

    return sample


@pytest.fixture
def nothing_compiled():
    """By torch.compile, before the test and after it."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def fresh(tmp_path):
    """A run of its own, to change."""

    def sample(kind):
        subprocess.run([MAKE, kind, tmp_path / kind], check=True)
        return tmp_path / kind

    return sample
