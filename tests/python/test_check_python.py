"""tap.check(): what `ttap check` finds, as objects."""

import re
from typing import get_args

import pytest
import tensortap as tap
import torch
from tensortap import literals
from torch import nn
from ttap_command import ROOT, run


class Loss(nn.Module):
    def forward(self, p):
        return -p.log().mean()


@pytest.fixture(scope="module")
def log_of_zero(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log_of_zero") / "run"
    model = nn.Sequential(nn.ReLU(), Loss())
    with tap.record(model, folder, ops=True, level="full", stacks=True, report=False):
        model(torch.tensor([1.0, 2.0]))
        model(torch.tensor([1.0, -2.0]))
    return folder


def test_the_first_is_told_with_its_call_and_line(log_of_zero):
    found = tap.check(log_of_zero)
    assert not found.ok and not found.clean and found.complete
    first = found.first
    assert first is not None
    assert first.key == "1:aten::log" and first.pass_number == 1 and first.rank == 0
    assert (first.dtype, first.shape, first.neg_inf, first.nan, first.place) == ("f32", (2,), 1, 0, (1,))
    assert first.origin == "made" and first.fault and not first.inherited and first.inputs_finite is True
    assert first.call.startswith("aten::log(") and first.module == "1"
    assert "test_check_python.py" in first.stack[0] and "p.log()" in first.stack[0]
    assert "logarithm" in first.hints[0]
    assert found.found[0].key == first.key
    assert all(one.inherited and one.origin == "made" for one in found.found[1:] if one.key != "1")


def test_it_prints_what_the_command_prints(log_of_zero):
    found = tap.check(log_of_zero, all=True)
    assert str(found) == run("check", log_of_zero, "--all").stdout
    assert repr(found).startswith("<Check first in 1:aten::log, ")
    assert "<table>" in found._repr_html_() and "1:aten::log" in found._repr_html_()
    assert found.to_json()["first"]["key"] == found.first.key


def test_passes_ranks_and_filter_select(log_of_zero):
    assert tap.check(log_of_zero, passes=0).ok
    assert tap.check(log_of_zero, passes="0", ranks=[0]).ok
    assert not tap.check(tap.open(log_of_zero).ranks[0].passes[1]).ok
    assert tap.check(log_of_zero, filter="relu").ok
    assert tap.check(log_of_zero, filter=["relu", "nothing"]).ok
    asked = []
    found = tap.check(log_of_zero, filter=lambda key: asked.append(key) or "mean" in key)
    assert found.found and all("mean" in one.key for one in found.found) and len(asked) > found.judged > 0
    with pytest.raises(FileNotFoundError, match="passes 0-1"):
        tap.check(log_of_zero, passes=7)
    with pytest.raises(ZeroDivisionError):
        tap.check(log_of_zero, filter=lambda key: 1 / 0)


def test_a_module_alone_says_what_stands_beside_it(tmp_path):
    model = nn.Sequential(nn.ReLU(), Loss())
    with tap.record(model, tmp_path, roles=["in", "out"], report=False):
        model(torch.tensor([1.0, -2.0]))
    first = tap.check(tmp_path).first
    assert first is not None
    assert (first.key, first.call, first.module, first.inputs_finite, first.origin) == ("1", "1", "", True, None)


def test_what_cannot_be_judged_is_listed_and_damage_found(tmp_path):
    model = nn.Linear(64, 64)
    with tap.record(model, tmp_path / "meta", level="meta", report=False):
        model(torch.ones(64, 64))
    found = tap.check(tmp_path / "meta")
    assert found.clean and found.complete and found.judged == 0
    assert [one.key for one in found.unjudged] == ["Linear"] and found.unjudged[0].reason
    with tap.record(model, tmp_path / "full", report=False):
        model(torch.ones(64, 64))
    assert tap.check(tmp_path / "full", verify=True).ok
    (path,) = (tmp_path / "full").glob("*/pass00000.ttap")
    content = bytearray(path.read_bytes())
    content[path.stat().st_size // 2] ^= 1
    path.write_bytes(content)
    damaged = tap.check(tmp_path / "full", verify=True)
    assert not damaged.ok and (damaged.damaged or damaged.unreadable or not damaged.complete)


def test_the_words_of_origins_are_those_of_cpp():
    text = (ROOT / "src/analyze/check/origin.cpp").read_text()
    (words,) = re.findall(r"kKindNames = \{([^}]*)\}", text)
    assert set(re.findall(r'"(\w+)"', words)) == set(get_args(literals.Origin))
