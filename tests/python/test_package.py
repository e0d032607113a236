import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensortap

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_is_that_of_this_checkout():
    assert Path(tensortap.__file__).is_relative_to(ROOT / "python")


def test_one_version_for_package_and_library():
    cache = (ROOT / "build/dev/CMakeCache.txt").read_text()
    built = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", cache, re.MULTILINE).group(1)
    assert tensortap.__version__ == built


def test_the_package_is_typed():
    assert (Path(tensortap.__file__).parent / "py.typed").is_file()


def test_importing_needs_no_torch():
    program = "import sys; sys.modules['torch'] = None; import tensortap"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_library_says_why_it_reads_no_gpu():
    from tensortap import _core

    assert _core.cuda_available() == (_core.cuda_reason() == "")


@pytest.mark.parametrize("package", [tensortap, tensortap.quant], ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_is_listed(package):
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'recrod'"):
        package.recrod  # noqa: B018
