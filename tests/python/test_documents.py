"""The commands shown in docs/commands.md and docs/checking.md print what the documents say; each block of all documents
is run by a test, or says why not.

`python tests/python/test_documents.py` writes what the commands print into the documents.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_run_documents import DOCUMENTS as RUN_DOCUMENTS
from ttap_command import MAKE, ROOT, TTAP, run

DOCUMENTS = [ROOT / "docs/commands.md", ROOT / "docs/checking.md"]
RUNS = [
    *("broken", "several", "covered", "trouble", "damaged", "ops", "log_of_zero", "root_of_zero", "masked_row"),
    *("spread_nan", "lone_rank", "weights", "quantized"),
]
EXAMPLE = re.compile(r"(?<!-->\n)^```console\n\$ ttap (.*)\n((?:.*\n)*?)```$", re.MULTILINE)


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


# ---- every block of every document ----

EVERY_DOCUMENT = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
]  # fmt: skip
# The languages whose blocks a test runs; all others say above them why they are not run.
RUN_BY = {
    **{path: {"python", "console"} for path in RUN_DOCUMENTS},
    **{path: {"console"} for path in DOCUMENTS},
    ROOT / "docs/serving.md": {"python", "console"},  # test_serving.py
    ROOT / "docs/cpp.md": {"cpp", "cmake"},  # tests/install
    ROOT / "bench/verdicts/README.md": {"python"},  # test_verdicts.py
}
BLOCK = re.compile(r"^(<!-- [^\n]*-->\n)?```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
REASON = re.compile(r"<!-- (not run: \w.*|needs a GPU) -->\n")


def unexplained(document, text):
    """The blocks that nothing runs and that do not say why; ```text is what is printed, a picture or a list."""
    for above, language, code in BLOCK.findall(text):
        is_run = language in RUN_BY.get(document, ()) or (language == "text" and not code.startswith("$ "))
        if not is_run and not REASON.fullmatch(above):
            yield code


@pytest.mark.parametrize("document", EVERY_DOCUMENT, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_is_run_or_says_why_not(document):
    assert list(unexplained(document, document.read_text())) == []


def test_a_block_that_nothing_runs_is_noticed():
    for language in ("", "sh", "python", "console"):
        assert list(unexplained(ROOT / "HACKING.md", f"```{language}\n$ ttap ls run\n```\n")) == ["$ ttap ls run\n"]
    assert list(unexplained(ROOT / "HACKING.md", "<!-- not run: so -->\n```sh\nttap ls run\n```\n")) == []


def test_the_commands_of_ttap_run_have_options_that_are_there(tmp_path):
    lines = [
        line
        for path in EVERY_DOCUMENT
        for _, _, code in BLOCK.findall(path.read_text())
        for line in re.findall(r"^(?:\$ )?ttap run (.*)$", code, re.MULTILINE)
    ]
    assert len(lines) > 10
    for line in lines:
        line = re.sub(r"(?<=--graft )[^:]+", str(ROOT / "tests/golden/samples-1.0.ttap"), line)  # a run that is there
        words = shlex.split(re.split(r"(?:^| )-- ", line)[0], comments=True)
        result = subprocess.run([TTAP, "run", *words, "--", "true"], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, f"{line}: {result.stderr}"


def test_the_readme_and_the_guide_list_every_command():
    verbs = re.findall(r"^  (\w+)  ", run("--help").stdout.split("Subcommands:")[1].split("Examples:")[0], re.MULTILINE)
    assert len(verbs) >= 10
    listed = re.findall(r"^ttap (\w+)", (ROOT / "README.md").read_text().split("## The command")[1], re.MULTILINE)
    table = re.findall(r"^\| \[`ttap (\w+)", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    documents = re.findall(
        r"^\| `(\w+)` \| ", (ROOT / "docs/commands.md").read_text().split("## JSON")[1], re.MULTILINE
    )
    assert sorted(listed) == sorted(table) == sorted(verbs)
    assert sorted(["run", *documents]) == sorted(verbs)


def test_every_make_target_that_a_document_names_is_there():
    targets = set(" ".join(re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)).split())
    for path in EVERY_DOCUMENT:
        named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", path.read_text(), re.MULTILINE))
        assert named - targets == set(), path


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
