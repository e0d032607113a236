"""The blocks of documents run, in order, and print what the documents say.

A ```python block is run in one namespace with the others, unless the line above it begins with `<!-- not run`, or with
`<!-- needs a GPU` where there is none; the ```text block behind it is what it prints. In a ```console block are `ttap`
commands on what was recorded before. README.md begins with what `readme_setup.py` makes, and shows little of what is
printed, from a machine of its own: there numbers are not compared, and what is not shown may be anything but an error.
`python tests/python/test_run_documents.py` writes what they print into the documents.
"""

import contextlib
import io
import linecache
import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

import pytest
import torch
from ttap_command import ROOT, TTAP

NAMES = ("recording.md", "diffing.md", "tracing.md", "coming-from-debugmode.md", "coming-from-torch-cudagraph-debug.md",
         "cuda-graphs.md", "graphs.md", "is-it-the-compiler.md", "coming-from-torchair.md", "quantization.md",
         "quant-formats.md", "coming-from-dumptensors.md", "rollouts.md", "blame.md",
         "nondeterminism.md", "grafting.md", "hunting.md")  # fmt: skip
README = ROOT / "README.md"
DOCUMENTS = [README, *(ROOT / "docs" / name for name in NAMES)]
BLOCK = re.compile(
    r"^(<!-- (?:not run|needs a GPU)[^\n]*-->\n)?```(python|console)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    re.M | re.S,
)


def settled(text, folder):
    """Without what is never the same twice."""
    text = text.replace(os.path.realpath(folder), "/home/you").replace(str(folder), "/home/you")
    text = re.sub(r"(?<=pid) ?\d+", lambda found: found[0].rstrip("0123456789") + "4711", text)
    # Stacks go on below the document, into whatever runs it.
    text = re.sub(r"^ *(# File:|# Forward:|from    ) (?!/home/you).*\n", "", text, flags=re.M)
    text = re.sub(r"^ *\.\.\. and \d+ more frames.*\n", "", text, flags=re.M)
    text = re.sub(r"(?<=\.py:)\d+", "12", text)
    text = re.sub(r"(?<=graph[ _])[0-9a-f]{12}", "777a677eefa2", text)  # PyTorch's graphs differ by version
    text = re.sub(r"thread \d+, [\d.]+ \w+ into the pass", "thread 4711, 1.20 ms into the pass", text)
    # A file knows its command line.
    return re.sub(r"( events?, )[\d.]+ \w+(?=$|, \.npy$)", r"\g<1>2.9 KiB", text, flags=re.M)


# Numbers whose last bits are the processor's: documents show those of one machine.
VARYING = [
    r"(ULP max )\d+(, 99 % within )\d+",
    r"(cosine 0\.0370407)\d+()",
    r"(B 0\.87586)\d()",
    r"(largest relative error is )[\d.e-]+(, in blocks\.)\S+",
    r"(error grew )[\d.e+]+( times)",
    r"(; A is )0\.\d+()",
    r"( )0\.\d+( times what rounding explains)",
]


def same_everywhere(text):
    """Without the numbers that another processor computes otherwise."""
    for pattern in VARYING:
        text = re.sub(pattern, r"\1…\2…", text)
    return text


def without_numbers(text):
    """Words, and columns as wide as the numbers."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.e+-]*", "N", text))


def run_python(code, line, module):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Lines are numbered as in the document, and so in the module's file: there the source of classes is found.
        exec(compile("\n" * line + code, module.__file__, "exec"), module.__dict__)
    return out.getvalue()


def run_commands(text):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    printed = ""
    for line in re.findall(r"^\$ ttap (.*)", text, re.M):
        words = shlex.split(line, comments=True)
        result = subprocess.run(
            [TTAP, *words],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert result.returncode in ([0] if words[0] == "run" else [0, 1]), result.stdout
        printed += result.stdout
    return printed


def examples(path, folder):
    """Runs every block of a document in the folder: (its match in the document, what it printed)."""
    document = path.read_text()
    module = types.ModuleType("document")
    module.__file__ = str(Path(folder) / "document.py")
    source = [""] * (document.count("\n") + 1)
    sys.modules["document"] = module
    with _inside(folder):
        if path == README:
            exec((ROOT / "tests/python/readme_setup.py").read_text(), module.__dict__)
        for block in BLOCK.finditer(document):
            excepted, language, code, _ = block.groups()
            if excepted and not ("needs a GPU" in excepted and torch.cuda.is_available()):
                continue
            line = document[: block.start(3)].count("\n")
            if language == "console":
                yield block, settled(run_commands(code), folder)
                continue
            source[line : line + code.count("\n")] = code.splitlines()
            Path(module.__file__).write_text("\n".join(source))
            linecache.checkcache(module.__file__)
            yield block, settled(run_python(code, line, module), folder)


@contextlib.contextmanager
def _inside(folder):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        logging.disable(logging.NOTSET)  # a document may have silenced a library


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_run_and_print_what_the_document_says(document, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TTAP_")]:
        monkeypatch.delenv(name)
    torch.compiler.reset()  # it remembers sizes by file and line, and all documents run as one file
    count = 0
    for block, printed in examples(document, tmp_path):
        count += 1
        _, language, code, shown = block.groups()
        expected = re.sub(r"^\$.*\n", "", code, flags=re.M) if language == "console" else shown or ""
        if document == README:
            assert without_numbers(printed).startswith(without_numbers(expected.removesuffix("  …\n"))), code
        else:
            assert same_everywhere(printed) == same_everywhere(expected), code
    assert count >= 4 or "<!-- needs a GPU -->" in document.read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_is_not_run_has_a_reason(document):
    text = document.read_text()
    assert text.count("<!-- not run") == len(re.findall(r"^<!-- not run: \w.* -->$", text, re.M))


def rewrite(path):
    with tempfile.TemporaryDirectory() as folder:
        text = document = path.read_text()
        for block, printed in examples(path, folder):
            whole, code = block[0], block[3]
            if block[2] == "console":
                filled = whole.replace(code, code.partition("\n")[0] + "\n" + printed)
            else:
                filled = whole.partition("\n```text\n")[0]
                filled += f"\n```text\n{printed}```\n" if printed else ""
            text = text.replace(whole, filled)
        if text != document:
            path.write_text(text)


if __name__ == "__main__":
    for path in set(DOCUMENTS) - {README}:
        rewrite(path)
