"""Where the package lies, for what is run from this folder by an interpreter that need not have it installed.

`ttap run` puts the folder in front of PYTHONPATH, so its files have names that no program's modules have.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def package_path():
    """As it was installed beside the command, or around this file."""
    try:
        with open(os.path.join(_HERE, "package-path")) as file:
            return file.read().strip()
    except OSError:
        return os.path.dirname(os.path.dirname(_HERE))


def import_package():
    """TensorTap, from there where the interpreter has none."""
    try:
        import tensortap  # may not be there
    except ModuleNotFoundError:
        sys.path.append(package_path())
        import tensortap  # is there now
    return tensortap
