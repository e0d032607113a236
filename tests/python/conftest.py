"""Runs to look at."""

import subprocess

import pytest
from ttap_command import MAKE


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
def fresh(tmp_path):
    """A run of its own, to change."""

    def sample(kind):
        subprocess.run([MAKE, kind, tmp_path / kind], check=True)
        return tmp_path / kind

    return sample
