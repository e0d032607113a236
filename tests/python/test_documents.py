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
    *("spread_nan", "lone_rank", "weights", "quantized"),
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


def test_every_promise_of_the_readme_has_its_tests():
    readme, hacking = ((ROOT / name).read_text() for name in ("README.md", "HACKING.md"))
    promised = " ".join(readme.split("## What you can rely on")[1].split("[docs/format.md]")[0].split())
    table = hacking.split("### What the README promises")[1].split("##")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    kept = " ".join(promise for promise, _ in rows)
    for item in promised.split("- **")[1:]:
        for sentence in re.split(r"(?<=\.) (?=[A-Z`])", item.split("**", 1)[1].strip()):
            assert sentence in kept, sentence
    named = re.findall(r"`(tests/[^`:]+)::([^`]+)`", table)
    assert len(named) >= 20
    missing = [f"{path}::{name}" for path, name in named if name not in (ROOT / path).read_text()]
    assert not missing


def rewrite():
    with tempfile.TemporaryDirectory() as name:
        make_runs(Path(name))

        def filled(match):
            return f"```console\n$ ttap {match[1]}\n{printed(name, match[1])}```"

        for document in DOCUMENTS:
            document.write_text(EXAMPLE.sub(filled, document.read_text()))


if __name__ == "__main__":
    sys.exit(rewrite())
