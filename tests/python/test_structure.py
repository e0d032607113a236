"""The shape of the house: who may include whom, and what a file may be called and weigh."""

import ast
import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The folders each folder may use directly; what those may use, it may use as well.
USES = {
    "core": [],
    "fingerprint": ["core"],
    "quant": ["core"],
    "format": ["core", "fingerprint"],
    "store": ["fingerprint", "quant", "format"],
    "cuda": ["core", "fingerprint", "quant"],
    "capture": ["store", "cuda", "quant"],
    "analyze": ["core", "fingerprint", "quant", "store"],
    "viewer": [],
    "report": ["analyze", "viewer"],
    "torch": ["capture"],
    "python": ["capture", "report"],
    "cli": ["capture", "report"],
}

# The same for the Python package: folders, and the files beside them. `literals` and `typed_dicts` may be used by all.
PYTHON_USES = {
    "torch_glue": [],
    "quant": ["torch_glue"],
    "quant.libraries": ["quant"],
    "tensors": ["quant.libraries"],
    "session": ["tensors"],
    "ops": ["session"],
    "modules": ["ops"],
    "records": [],
    "reading": ["records", "session"],
    "comparing": ["session"],
    "checking": ["session"],
    "scoring": [],
    "converting": ["reading"],
    "recording": ["modules"],
    "tracing": ["ops", "comparing", "reading"],
    "probe": ["recording", "reading"],
    "graph.fx": ["tensors"],
    "graph.check": ["graph.fx", "comparing"],
    "graph": ["graph.check", "session"],
    "quant.dump": ["modules"],
    "replaying": ["reading", "torch_glue"],
    "replaying.bounds": ["replaying"],
    "replaying.blame": ["replaying.bounds"],
    "programs": [],
    "grafting": ["modules", "comparing", "replaying"],
    "replaying.right": ["replaying.blame", "comparing"],
    "replaying.sensitivity": ["replaying.blame"],
    "replaying.batches": ["replaying.sensitivity"],
    "repeating": ["programs", "replaying.batches"],
    "hunting": ["programs", "replaying.right", "grafting"],
    "commands": ["repeating", "hunting"],
    "launch": ["recording", "grafting", "commands"],
    "engines": ["recording"],
}
FOR_ALL = {"literals", "typed_dicts", "lazy_import", "html_table"}
PACKAGE = ROOT / "python/tensortap"

# Public headers stand alone but for these.
PUBLIC_NEEDS = {"dlpack.h": ["dlpack/dlpack.h"]}

LONGEST = 500
MOST_FILES = 25  # of code in a folder; a header and its source are one
# Folders that have more, each with its reason.
CROWDED: dict[str, str] = {}
# Files that are longer, each with its reason.
LONGER = {}

SAYS_NOTHING = {"util", "utils", "common", "helper", "helpers", "misc", "manager"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CODE = {".h", ".cpp", ".cu", ".cuh", ".py", ".js", ".css", ".ts", ".sh", ".cmake"}
CPP = {".h", ".cpp", ".cu", ".cuh"}


def all_files():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    else:  # an archive without its history
        ours = ("include", "src", "cli", "python", "tests", "fuzz", "bench", "examples", "scripts", "cmake", "viewer")
        paths = [path for top in ours for path in (ROOT / top).rglob("*")]
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


FILES = all_files()


# Targets of TtapDependencies.cmake: what is not ours.
PACKAGES = {"fmt", "pcre2", "yaml", "zlib"}


def cpp_files(*tops):
    return [path for path in FILES if path.suffix in CPP and path.relative_to(ROOT).parts[0] in tops]


def includes(path):
    return INCLUDE.findall(path.read_text())


def name_of(path):
    return str(path.relative_to(ROOT))


def folder_of(path):
    top, second = path.relative_to(ROOT).parts[:2]
    return second if top == "src" else top


def reach(folder):
    """All that `folder` may include: itself, and what it uses, directly or through another."""
    reached = {folder}
    for used in USES[folder]:
        reached |= reach(used)
    return reached


TORCH = re.compile(r"(torch|ATen|c10|caffe2|pybind11|nanobind)/|Python\.h$")


def may_include(folder, bracket, header):
    first = header.split("/")[0]
    if bracket == "<":  # for what is not ours
        if folder == "python" and first == "nanobind":
            return True
        return (folder == "torch" or not TORCH.match(header)) and (first == "torch" or first not in {*USES, "ttap"})
    if header.startswith(".."):
        return False
    return first == "ttap" or first in reach(folder) or "/" not in header


def wrong_includes(folder, found):
    """Those of the (bracket, header) pairs that `folder` may not include."""
    return [header for bracket, header in found if not may_include(folder, bracket, header)]


@pytest.mark.parametrize("path", cpp_files("src", "cli"), ids=name_of)
def test_includes_follow_the_direction(path):
    folder = folder_of(path)
    assert folder in USES, "a new folder needs a place in USES"
    assert wrong_includes(folder, includes(path)) == []


def test_a_wrong_direction_is_noticed():
    assert wrong_includes("core", [('"', "store/foreign/foreign.h")]) == ["store/foreign/foreign.h"]
    assert wrong_includes("store", [('"', "capture/ring.h")]) == ["capture/ring.h"]
    assert wrong_includes("capture", [('"', "analyze/align.h")]) == ["analyze/align.h"]
    assert wrong_includes("cli", [('"', "torch/op_source.h")]) == ["torch/op_source.h"]
    assert wrong_includes("cli", [("<", "torch/torch.h")]) == ["torch/torch.h"]
    assert wrong_includes("store", [("<", "core/crc32c.h")]) == ["core/crc32c.h"]
    assert wrong_includes("torch", [("<", "torch/torch.h"), ('"', "capture/ring.h")]) == []
    assert wrong_includes("store", [('"', "../core/crc32c.h")]) == ["../core/crc32c.h"]
    assert wrong_includes("analyze", [('"', "store/foreign/foreign.h"), ('"', "ttap/key.h"), ("<", "vector")]) == []


def test_one_file_includes_cli11():
    users = [p for p in cpp_files("src", "cli", "tests") if any(h.startswith("CLI/") for _, h in includes(p))]
    message = "CLI11 costs seconds of compile time in each file: use cli/arguments/command_line.h"
    assert [name_of(path) for path in users] == ["cli/arguments/command_line.cpp"], message


@pytest.mark.parametrize("path", [p for p in FILES if p.match("src/*/CMakeLists.txt")], ids=name_of)
def test_targets_follow_the_direction(path):
    lists = [text.split() for text in re.findall(r"\bUSES ([^)]*)", path.read_text())]
    used = {target.removeprefix("ttap_") for each in lists for target in each if target.startswith("ttap_")}
    assert used - PACKAGES <= reach(folder_of(path))


@pytest.mark.parametrize("path", cpp_files("include"), ids=name_of)
def test_public_headers_include_public_headers_and_the_standard_library_only(path):
    allowed = PUBLIC_NEEDS.get(path.name, [])
    for bracket, header in includes(path):
        public = bracket == '"' and header.startswith("ttap/") and (ROOT / "include" / header).is_file()
        standard = bracket == "<" and re.fullmatch(r"[a-z0-9_]+|std(def|int|bool)\.h", header)
        assert public or standard or header in allowed, header


def test_every_name_says_what_is_inside():
    names = {name_of(path): re.split(r"[/._]", name_of(path).lower()) for path in FILES}
    assert [name for name, words in names.items() if SAYS_NOTHING & set(words)] == []


def test_no_file_outgrows_its_reason():
    lengths = {name_of(p): len(p.read_text().splitlines()) for p in FILES if p.suffix in CODE}
    too_long = {name for name, length in lengths.items() if length > LONGEST}
    assert too_long == set(LONGER), "split the file, or give it a reason in LONGER (or take an old one out)"


# ---- the Python package ----


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES if path.is_relative_to(PACKAGE) and path.suffix == ".py"}


def imports_of(name, source, known):
    """The modules of ours that a module imports, wherever in it: (module, line, inside a function)."""
    package = name if known.get(name, Path()).name == "__init__.py" else name.rpartition(".")[0]

    def targets(node):
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield from ((target, child.lineno, inside) for target in targets(child))
            yield from walk(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    return list(walk(ast.parse(source), False))


def python_imports(name):
    ours = [each for each in imports_of(name, MODULES[name].read_text(), MODULES) if each[0] in MODULES]
    # `from tensortap import _core` is an extension, which imports nothing.
    return [each for each in ours if each[0] != "tensortap" or name.startswith("tensortap.launch.")]


def python_folder(name):
    """`graph.check` of tensortap.graph.check.bisect; a file beside the folders is one by itself."""
    inner = name.removeprefix("tensortap").removeprefix(".")
    return inner.rpartition(".")[0] or inner


def python_reach(folder):
    reached = {folder}
    for used in PYTHON_USES[folder]:
        reached |= python_reach(used)
    return reached


def circle_in(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_import_closes_a_circle():
    graph = {name: {target for target, _, _ in python_imports(name) if target != name} for name in MODULES}
    assert circle_in(graph) is None


def test_a_circle_is_noticed():
    known = {"tensortap.a": Path("a.py"), "tensortap.b": Path("b.py")}
    sources = {"tensortap.a": "def f():\n    from tensortap import b", "tensortap.b": "if X:\n    import tensortap.a"}
    graph = {name: {each[0] for each in imports_of(name, source, known)} for name, source in sources.items()}
    assert set(circle_in(graph)) == {"tensortap.a", "tensortap.b"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_python_imports_follow_the_direction(name):
    folder = python_folder(name)
    # The face of a package shows what lies deeper.
    is_face = MODULES[name].name == "__init__.py" and "__getattr__" in MODULES[name].read_text()
    if is_face or folder in ("", "__main__", *FOR_ALL):
        return
    assert folder in PYTHON_USES, "a new folder needs a place in PYTHON_USES"
    used = {python_folder(target) for target, _, _ in python_imports(name)}
    assert used - python_reach(folder) - FOR_ALL - {""} == set()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_an_import_inside_a_function_says_why(name):
    lines = MODULES[name].read_text().splitlines()
    inside = [line for _, line, is_inside in imports_of(name, "\n".join(lines), MODULES) if is_inside]
    assert [lines[line - 1] for line in inside if "#" not in lines[line - 1]] == []


# ---- folders ----


def test_no_folder_is_crowded():
    folders = {}
    for path in FILES:
        if path.suffix in CODE and path.relative_to(ROOT).parts[0] in ("include", "src", "cli", "python"):
            folders.setdefault(name_of(path.parent), set()).add(path.stem)
    crowded = {folder for folder, names in folders.items() if len(names) > MOST_FILES}
    assert crowded == set(CROWDED), "make rooms, or give the folder a reason in CROWDED (or take an old one out)"


def test_folders_of_cpp_include_each_other_in_one_direction():
    graph = {}
    for path in cpp_files("src", "cli"):
        folder = name_of(path.parent)
        for bracket, header in includes(path):
            for there in (ROOT / "src" / header, ROOT / header):
                if bracket == '"' and there.is_file() and name_of(there.parent) != folder:
                    graph.setdefault(folder, set()).add(name_of(there.parent))
    assert circle_in(graph) is None


# ---- the walk through the house ----

# Where HACKING.md names every file; elsewhere the folder is enough.
WALKED = ["python/tensortap/", "src/analyze/diff/"]
WALKED_AS_A_WHOLE = "python/tensortap/quant/libraries/"  # one file per library


def test_every_file_on_the_way_is_in_hacking():
    words = set(re.findall(r"\w+", (ROOT / "HACKING.md").read_text()))
    names = {name_of(path) for path in FILES if path.suffix in {".py", ".h", ".cpp"}}
    on_the_way = {name for name in names if name.startswith(tuple(WALKED)) and not name.startswith(WALKED_AS_A_WHOLE)}
    assert len(on_the_way) > 200
    assert sorted(name for name in on_the_way if Path(name).stem not in words) == []


def test_every_file_that_hacking_names_is_there():
    text = (ROOT / "HACKING.md").read_text()
    named = set(re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|cpp|h|cuh|js|md|sh))`", text))
    names = {name_of(path) for path in FILES}
    assert len(named) > 100
    assert sorted(name for name in named if not any(f"/{known}".endswith(f"/{name}") for known in names)) == []
