"""The stubs say what the extensions have, and the literals what the C++ side says."""

import ast
import importlib
import re
from typing import get_args

import pytest
import tensortap as tap
import torch
from tensortap import _core, literals, typed_dicts
from tensortap.graph import backend as graph_backend
from tensortap.quant.dump.config import TENSORS
from tensortap.quant.group import PARTS
from tensortap.session.options import LEVELS, ROLES
from tensortap.torch_glue import op_extension
from tensortap.tracing import VIEWS
from ttap_command import ROOT

MODULES = ("_core", "_ops")
op_extension.load()  # _ops is imported by nothing else


def stub_of(module):
    return ast.parse((ROOT / "python/tensortap" / f"{module}.pyi").read_text())


def named(body):
    """What a module or class of a stub has by name, private things apart."""
    found = {}
    for node in body:
        if isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
    return {name: node for name, node in found.items() if not name.startswith("_") or name.startswith("__")}


def built(holder):
    return {name: value for name, value in vars(holder).items() if not name.startswith("_")}


def is_property(node):
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def parameters(function):
    """Of a function of a stub: what each is called, and whether it may be left out."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = len(positional) - len(given.defaults)
    found = [(each.arg, index >= needed) for index, each in enumerate(positional)]
    found += [("*", False)] if given.kwonlyargs else []
    return found + [(each.arg, default is not None) for each, default in zip(given.kwonlyargs, given.kw_defaults)]


def built_parameters(function):
    ((signature, *_),) = function.__nb_signature__
    signature = re.sub(r"\\\d+", "None", signature.partition("(")[2])  # a default is written as its number
    signature = re.sub(r"ndarray\[.*?\]", "object", signature)
    return parameters(ast.parse(f"def f({signature}: ...").body[0])


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_has_the_names_of_its_module(module):
    extension = importlib.import_module(f"tensortap.{module}")
    assert set(named(stub_of(module).body)) == set(built(extension))


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_has_the_members_of_each_class(module):
    extension = importlib.import_module(f"tensortap.{module}")
    for name, node in named(stub_of(module).body).items():
        if not isinstance(node, ast.ClassDef):
            continue
        kept = getattr(extension, name)
        members = {each: member for each, member in named(node.body).items() if not each.startswith("__")}
        assert set(members) == set(built(kept)), name
        for each, member in members.items():
            there = vars(kept)[each]
            if isinstance(member, ast.AnnAssign):
                assert there.fset is not None, f"{name}.{each} is read-only"
            elif is_property(member):
                assert there.fset is None, f"{name}.{each} can be set"
            else:
                assert callable(getattr(kept, each)), f"{name}.{each}"


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_has_the_parameters_of_each_function(module):
    extension = importlib.import_module(f"tensortap.{module}")
    for name, node in named(stub_of(module).body).items():
        holder = getattr(extension, name)
        inside = named(node.body) if isinstance(node, ast.ClassDef) else {}
        functions = {name: (node, holder)} if isinstance(node, ast.FunctionDef) else {}
        functions |= {
            f"{name}.{each}": (member, getattr(holder, each))
            for each, member in inside.items()
            if isinstance(member, ast.FunctionDef) and not is_property(member)
        }
        for full, (written, function) in functions.items():
            assert parameters(written) == built_parameters(function), full


# ---- literals ----


def words_in(file, enum):
    """What a C++ function returns for the enumerators of a type."""
    return set(re.findall(rf'case {enum}::k\w+: return "([^"]*)";', (ROOT / "src" / file).read_text()))


@pytest.mark.parametrize(
    ("literal", "file", "enum"),
    [
        (literals.Verdict, "analyze/diff/result/verdict.cpp", "Verdict"),
        (literals.Cause, "analyze/diff/result/verdict.cpp", "Cause"),
        (literals.Evidence, "analyze/diff/result/verdict.cpp", "Evidence"),
        (literals.MatchedBy, "report/diff/diff_json.cpp", "MatchedBy"),
        (literals.Level, "core/record.cpp", "Level"),
        (literals.Ending, "core/record.cpp", "Ending"),
        (literals.Format, "store/run.cpp", "Format"),
    ],
)
def test_literals_are_the_words_of_cpp(literal, file, enum):
    assert set(get_args(literal)) == words_in(file, enum)


def test_dtypes_are_those_of_cpp():
    known = re.findall(r'^ *\{"(\w+)", DTypeKind::', (ROOT / "src/core/dtype.cpp").read_text(), re.M)
    assert set(get_args(literals.DType)) == set(known)


def test_what_fails_a_comparison_is_a_verdict_or_a_cause():
    core = tap.diff({"x": torch.ones(1)}, {"x": torch.ones(1)})._core
    with pytest.raises(ValueError, match="or one of ") as refused:
        core.is_same(["nonsense"])
    words = str(refused.value).rpartition("or one of ")[2].split(", ")
    assert set(words) == {*get_args(literals.Verdict), *get_args(literals.Cause)} - {""}


@pytest.mark.parametrize(
    ("option", "literal"), [("level", literals.Level), ("write", literals.Write), ("format", literals.Format)]
)
def test_options_of_a_recorder_take_the_words_of_their_literal(option, literal):
    with pytest.raises(ValueError, match="one of: ") as refused:
        setattr(_core.RecorderOptions(), option, "nonsense")
    assert set(str(refused.value).rpartition("one of: ")[2].split(", ")) == set(get_args(literal))


@pytest.mark.parametrize(
    ("field", "literal"),
    [
        ("element", literals.QuantElement),
        ("packing", literals.QuantPacking),
        ("scale_type", literals.ScaleType),
        ("scale_layout", literals.ScaleLayout),
        ("global_scale", literals.GlobalScale),
        ("zero_point", literals.ZeroPoint),
    ],
)
def test_fields_of_a_format_take_the_words_of_their_literal(field, literal):
    with pytest.raises(ValueError, match="one of ") as refused:
        setattr(_core.quant_format("nvfp4"), field, "nonsense")
    assert set(str(refused.value).rpartition("one of ")[2].split(", ")) == set(get_args(literal))


def test_literals_are_what_the_package_checks():
    assert get_args(literals.Role) == ROLES
    assert set(get_args(literals.Level)) == set(LEVELS)
    assert get_args(literals.View) == VIEWS
    assert get_args(literals.Stage) == graph_backend.STAGES
    assert get_args(literals.Parameters) == graph_backend.PARAMETERS
    assert get_args(literals.QuantPart) == PARTS
    assert {*ROLES, *TENSORS} < set(get_args(literals.TensorRole))
    assert set(get_args(literals.RunVerdict)) < set(get_args(literals.Verdict))


# ---- dicts ----


@pytest.fixture
def trace():
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with tap.trace(hashes=True, level="full") as made:
        model(x)
    return made


def keys_of(typed_dict):
    return set(typed_dict.__annotations__)


def test_dicts_have_the_keys_of_their_types(trace):
    recorded = trace.recorded
    assert set(recorded.records[-1].stats) == keys_of(typed_dicts.Stats) == set(get_args(literals.Statistic))
    assert set(recorded.info) == keys_of(typed_dicts.PassInfo)
    assert set(recorded.info["drops"]) == keys_of(typed_dicts.Drops)
    assert set(trace.counts) == keys_of(typed_dicts.TraceCounts)
    assert set(tap.Probe("it", [tap.RecordAction()]).status()) == keys_of(typed_dicts.ProbeStatus)
    (statistics,) = _core.quant_statistics(torch.ones(2, 16), [_core.quant_format("nvfp4")])
    assert set(statistics) == keys_of(typed_dicts.QuantStatistics)


def test_a_comparison_has_the_keys_of_its_types(trace):
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with tap.trace(hashes=True, level="full", stacks=True) as other:
        model(x)
    first = next(tensor for tensor in tap.diff(trace, other).tensors if tensor.measures is not None)
    assert set(first.measures) == keys_of(typed_dicts.Measures)
    assert set(first.measures["worst"]) == keys_of(typed_dicts.WorstElement)
    assert set(first.tolerance) == keys_of(typed_dicts.UsedTolerance)
    for name in first.measures:  # what TensorDiff has for type checkers, it has
        assert getattr(first, name) == first.measures[name] or name in ("worst", "p99_ulp", "max_ulp")
    introduced = tap.diff({"x": torch.zeros(2, 8)}, {"x": torch.eye(2, 8)}).tensors[0]
    assert set(introduced.axes[0]) == keys_of(typed_dicts.AxisError)
