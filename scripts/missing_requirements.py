"""Print the requirements in the given files that this interpreter does not meet, one per line."""

import re
import sys
from importlib import metadata
from pathlib import Path


def is_met(requirement: str) -> bool:
    name = re.match(r"[\w.-]+", requirement).group()
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    # A PyTorch that setup did not install is the one to test against, whatever its version.
    ours = Path(".venv/made-with").exists() and Path(".venv").resolve() in Path(found.locate_file("")).resolve().parents
    if name == "torch" and not ours:
        return True
    try:
        from pip._vendor.packaging.requirements import Requirement  # no other parser is sure to be there
    except ImportError:
        return True
    return Requirement(requirement).specifier.contains(found.version, prereleases=True)


for path in sys.argv[1:]:
    for line in Path(path).read_text().splitlines():
        requirement = line.split("#")[0].strip()
        if requirement and not is_met(requirement):
            print(requirement)
