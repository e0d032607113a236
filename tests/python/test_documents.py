"""The commands shown in docs/commands.md and docs/checking.md print what the documents say.

`python tests/python/test_documents.py` writes what they print into the documents.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ttap_command import MAKE, ROOT, TTAP

DOCUMENTS = [ROOT / "docs/commands.md", ROOT / "docs/checking.md"]
RUNS = [
    *("broken", "several", "covered", "trouble", "damaged", "ops", "log_of_zero", "root_of_zero", "masked_row"),
    *("weights", "quantized"),
]
EXAMPLE = re.compile(r"^```console\n\$ ttap (.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def printed(folder, words):
    """What the command prints in a folder with the sample runs, as a terminal would show it."""
    result = subprocess.run(
        [TTAP, *shlex.split(words)],
        cwd=folder,
        env={**os.environ, "TZ": "UTC"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.stdout


def make_runs(folder):
    for kind in RUNS:
        subprocess.run([MAKE, kind, folder / kind], check=True)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_the_examples_print_what_the_document_says(tmp_path, document):
    make_runs(tmp_path)
    examples = EXAMPLE.findall(document.read_text())
    assert len(examples) >= 3
    for words, shown in examples:
        assert printed(tmp_path, words) == shown, words


def rewrite():
    with tempfile.TemporaryDirectory() as name:
        make_runs(Path(name))

        def filled(match):
            return f"```console\n$ ttap {match[1]}\n{printed(name, match[1])}```"

        for document in DOCUMENTS:
            document.write_text(EXAMPLE.sub(filled, document.read_text()))


if __name__ == "__main__":
    sys.exit(rewrite())
