"""Options, filters, levels, and the environment laid over them."""

import json
import re
import sys

import pytest
import tensortap as tap
import torch
from torch import nn


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.ModuleDict({"q_proj": nn.Linear(2, 2), "o_proj": nn.Linear(2, 2), "norm": nn.LayerNorm(2)})


def record(model, folder, **options):
    """The keys of a pass in which every part of the model was called, with their levels."""
    with tap.record(model, folder, step="manual", report=False, **options) as recording, recording.step():
        for part in model.values():
            part(torch.ones(1, 2))
    if not recording.options.directory.exists():
        return {}
    recorded = tap.open(recording.options.directory).ranks[0].passes[0]
    return {item.key: item.level for item in recorded.records}


def test_patterns_are_searched_for_and_any_counts(model, tmp_path):
    assert list(record(model, tmp_path / "a", filter=[r"proj$"])) == ["q_proj", "o_proj"]
    assert list(record(model, tmp_path / "b", filter=[r"^o_", "norm"])) == ["o_proj", "norm"]
    assert list(record(model, tmp_path / "c", filter=None)) == ["q_proj", "o_proj", "norm"]
    assert list(record(model, tmp_path / "d", filter=(re.compile("q"),))) == ["q_proj"]
    assert list(record(model, tmp_path / "e", filter="^o_")) == ["o_proj"]


def test_a_function_of_name_and_module_decides(model, tmp_path):
    keys = record(model, tmp_path, filter=lambda name, module: isinstance(module, nn.LayerNorm) or name == "q_proj")
    assert list(keys) == ["q_proj", "norm"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (7, TypeError, "list of patterns"),
        (["(", "x"], ValueError, r"'\(' is not a regular expression"),
        ([1], TypeError, "must be a string"),
    ],
)
def test_a_filter_that_makes_no_sense_is_an_error_at_once(given, error, message, model, tmp_path):
    with pytest.raises(error, match=message):
        tap.record(model, tmp_path / "run", filter=given)
    assert not (tmp_path / "run").exists()


def test_a_filter_that_matches_nothing_says_so_with_the_nearest_names(model, tmp_path):
    with pytest.warns(UserWarning, match=r"'\\.o_porj\$' matches none of 4 modules; near it: o_proj"):
        keys = record(model, tmp_path, filter=[r"\.o_porj$"])
    assert keys == {}
    with pytest.warns(UserWarning, match="selects none"):
        assert record(model, tmp_path, filter=[]) == {}


def test_a_filter_function_that_raises_is_the_callers_to_see(model, tmp_path):
    with pytest.raises(ZeroDivisionError):
        tap.record(model, tmp_path, filter=lambda name, module: 1 / 0)
    assert all(not part._forward_hooks for part in model.values())


def test_levels_by_pattern(model, tmp_path):
    assert record(model, tmp_path, level={"q_": "full", "norm": "meta", ".*": "fingerprint"}) == {
        "q_proj": "full",
        "o_proj": "fingerprint",
        "norm": "meta",
    }


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"level": "most"}, ValueError),
        ({"level": 3}, TypeError),
        ({"level": {"(": "full"}}, ValueError),
        ({"roles": "output"}, ValueError),
        ({"roles": ()}, ValueError),
        ({"modules": "some"}, ValueError),
        ({"step": "each"}, ValueError),
        ({"steps": "3-1"}, ValueError),
        ({"steps": "x"}, ValueError),
        ({"ranks": True}, TypeError),
        ({"ops": {"view": "leaf"}}, TypeError),
        ({"stacks": 1}, TypeError),
        ({"format": "zip"}, ValueError),
        ({"staging": "many"}, ValueError),
        ({"device_staging": "many"}, ValueError),
        ({"device_staging": 5}, ValueError),
        ({"staging": 5}, ValueError),
        ({"when_full": "wait"}, ValueError),
    ],
    ids=str,
)
def test_options_are_checked_before_anything_is_written(options, error, model, tmp_path):
    with pytest.raises(error):
        tap.record(model, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_what_is_not_a_module_is_an_error(tmp_path):
    with pytest.raises(TypeError, match=r"the model is a int, not a torch\.nn\.Module"):
        tap.record(3, tmp_path)
    with pytest.raises(TypeError, match="the model 'lm' is a str"):
        tap.record({"lm": "x"}, tmp_path)


def test_a_directory_that_cannot_be_made_is_an_error(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot make the directory"):
        tap.record(model, tmp_path / "file" / "run")


# ---- the environment ----


def test_the_directory_alone_switches_recording_on(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_DIR", str(tmp_path))
    assert len(record(model, None)) == 3


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_DIR", str(tmp_path / "b"))
    monkeypatch.setenv("TTAP_FILTER", json.dumps(["norm$"]))
    monkeypatch.setenv("TTAP_LEVEL", "fingerprint")
    monkeypatch.setenv("TTAP_ROLES", "in")
    monkeypatch.setenv("TTAP_STAGING_BYTES", "1M")


@pytest.mark.usefixtures("environment")
def test_what_the_program_passes_comes_before_the_environment(model, tmp_path):
    keys = record(model, tmp_path / "a", filter=["q"], level="full", roles="out")
    assert keys == {"q_proj": "full"}, "level='full' was chosen, though it is the default"
    assert not (tmp_path / "b").exists()
    assert record(model, tmp_path / "c", roles="out") == {"norm": "fingerprint"}, "the environment fills in the rest"
    assert record(model, None, filter=["q"]) == {"q_proj@in/0": "fingerprint"}
    assert (tmp_path / "b").exists()
    with tap.record(model, tmp_path / "d", staging="64M", report=False) as recording:
        assert recording.options.core.staging_bytes == 64 << 20, "chosen, though it is the default"


@pytest.mark.usefixtures("environment")
def test_the_environment_comes_first_with_ttap_override(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_OVERRIDE", "1")
    keys = record(model, tmp_path / "a", filter=["q"], level={".*": "full"}, roles="out")
    assert keys == {"norm@in/0": "fingerprint"}
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="'most'"):  # what is overridden is checked all the same
        tap.record(model, tmp_path / "a", level="most")
    monkeypatch.setenv("TTAP_OVERRIDE", "yes")
    with pytest.raises(ValueError, match="TTAP_OVERRIDE"):
        tap.record(model, tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("proj", ["q_proj", "o_proj"]), ('"o_"', ["o_proj"]), ('["q_", "norm"]', ["q_proj", "norm"]), ("  ", [])],
)
def test_a_filter_in_the_environment(text, expected, model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_FILTER", text)
    if not expected:
        with pytest.warns(UserWarning, match="selects none"):
            assert list(record(model, tmp_path)) == expected
    else:
        assert list(record(model, tmp_path)) == expected


@pytest.mark.parametrize("text", ["7", '{"a": 1}', "[1]"])
def test_other_json_is_no_filter(text, model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_FILTER", text)
    with pytest.raises(ValueError, match="TTAP_FILTER"):
        tap.record(model, tmp_path)


def test_levels_by_pattern_in_the_environment(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_LEVEL", '{"q_": "meta", ".*": "fingerprint"}')
    assert record(model, tmp_path) == {"q_proj": "meta", "o_proj": "fingerprint", "norm": "fingerprint"}


def test_steps_modules_format_and_sizes_in_the_environment(model, tmp_path, monkeypatch):
    for name, text in {"STEPS": "1", "MODULES": "all", "FORMAT": "pt", "STAGING_BYTES": "1M", "STEP": "auto",
                       "DEVICE_STAGING_BYTES": "2M"}.items():  # fmt: skip
        monkeypatch.setenv(f"TTAP_{name}", text)
    sequential = nn.Sequential(nn.ReLU())
    with tap.record(sequential, tmp_path, report=False) as recording:
        sequential(torch.ones(1))
        sequential(torch.ones(1))
    assert recording.options.core.staging_bytes == 1 << 20
    assert recording.options.core.device_staging_bytes == 2 << 20
    passes = tap.open(tmp_path).ranks[0].passes
    assert list(passes) == [1] and passes[1].path.suffix == ".pt"
    assert set(passes[1]) == {"0", "Sequential"}


def test_a_function_named_in_the_environment(model, tmp_path, monkeypatch):
    source = tmp_path / "choose.py"
    source.write_text("def keep(name, module):\n    return name.startswith('o')\nnumber = 3\n")
    monkeypatch.setenv("TTAP_FILTER_FN", f"{source}:keep")
    assert list(record(model, tmp_path / "a")) == ["o_proj"]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TTAP_FILTER_FN", "choose:keep")
    assert list(record(model, tmp_path / "b")) == ["o_proj"]
    sys.modules.pop("choose", None)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("no_colon", ValueError),
        ("/no/such/file.py:keep", FileNotFoundError),
        ("no_such_module_x:keep", ImportError),
        ("json:no_such_name", AttributeError),
        ("json:__name__", TypeError),
    ],
)
def test_a_function_that_cannot_be_had_is_an_error_of_the_fitting_type(spec, error, model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_FILTER_FN", spec)
    with pytest.raises(error, match=re.escape(spec)):
        tap.record(model, tmp_path)


def test_filter_and_function_together_are_an_error(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TTAP_FILTER", "x")
    monkeypatch.setenv("TTAP_FILTER_FN", "json:loads")
    with pytest.raises(ValueError, match="both set"):
        tap.record(model, tmp_path)


def test_only_the_chosen_ranks_record(model, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert not tap.record(model, tmp_path / "run", ranks="0,2-").recording
    assert not (tmp_path / "run").exists()
    with tap.record(model, tmp_path / "run", ranks=[1], report=False) as recording:
        assert recording.rank_directory.name.startswith("rank1_pid")


# ---- formats ----


def test_the_four_formats_load_to_equal_tensors(model, tmp_path):
    loaded = {}
    for form in ("ttap", "pt", "safetensors", "npy"):
        record(model, tmp_path / form, format=form)
        (rank,) = tap.open(tmp_path / form).ranks
        assert list(rank.passes) == [0]
        loaded[form] = tap.load_pass(rank.passes[0].path)
    assert list(loaded["ttap"]) == ["q_proj", "o_proj", "norm"]
    for form, tensors in loaded.items():
        assert set(tensors) == set(loaded["ttap"]), form
        for key, tensor in tensors.items():
            assert tensor.dtype == loaded["ttap"][key].dtype
            assert torch.equal(tensor, loaded["ttap"][key])
    (file,) = (tmp_path / "pt").glob("rank0_pid*/pass00000.pt")
    plain = torch.load(file)
    assert all(torch.equal(plain[key], tensor) for key, tensor in loaded["ttap"].items())


def test_load_pass_says_what_it_leaves_out(model, tmp_path):
    record(model, tmp_path, level={"norm": "full", ".*": "fingerprint"})
    (file,) = tmp_path.glob("rank0_pid*/pass00000.ttap")
    with pytest.warns(UserWarning, match="2 of 3 tensors"):
        assert list(tap.load_pass(file)) == ["norm"]


def test_a_key_that_is_not_there_names_those_near_it(model, tmp_path):
    record(model, tmp_path)
    recorded = tap.open(tmp_path).ranks[0].passes[0]
    with pytest.raises(KeyError, match="near it: o_proj"):
        recorded["o_prj"]
    with pytest.raises(KeyError, match="there is no pass 9"):
        tap.open(tmp_path).ranks[0].passes[9]
    with pytest.raises(FileNotFoundError):
        tap.open(tmp_path / "nothing")
