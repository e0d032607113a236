"""`ttap replay` of a module, with a function that makes its model."""

import sys

import pytest
import torch
from module_recordings import recorded
from tensortap.commands.replay import main
from tensortap.replaying.find_module import load_model
from torch import nn
from ttap_command import read_json, run

MODEL = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    def forward(self, x, *, twice=False):
        x = self.down(torch.relu(self.up(x)))
        return x * 2 if twice else x
def make():
    return Net()
def number():
    return 3
def fails():
    raise OSError("no such checkpoint")
"""


@pytest.fixture
def net(tmp_path):
    """A file that makes a model, and a recording of it."""
    (tmp_path / "net.py").write_text(MODEL)
    torch.manual_seed(0)
    model = load_model(f"{tmp_path / 'net.py'}:make")
    recorded(model, tmp_path / "run", lambda: model(torch.ones(2, 8), twice=True))
    return tmp_path


def of_command(capsys, *words):
    """What the command prints, and its exit code."""
    code = main(["replay", *map(str, words)])
    return capsys.readouterr().out, code


def test_the_command_calls_a_module_with_its_model(net):
    words = ("--model", f"{net / 'net.py'}:make", "--dtype", "bf16", "--python", sys.executable)
    document, code = read_json("replay", net / "run", "Net", *words)
    assert (code, document["op"], document["call"]) == (0, "Net", "f32[2, 8], twice=True")
    assert (document["same_bits"], document["parameters"], document["from_model"]) == ({"": True}, "recorded", [])
    assert document["error"] is None  # no rounding bound is known
    (distance,), (narrow,) = document["distances"], document["in_precision"]
    assert 0 < distance["relative"] < 1e-6 < narrow["relative"] < 0.1
    assert narrow["recorded"] == distance["relative"]


def test_the_command_says_where_the_weights_are_from(net, capsys):
    text, code = of_command(capsys, net / "run", "down", "--model", f"{net / 'net.py'}:make")
    assert code == 0
    assert text.startswith("Linear(f32[2, 8])\n  where     rank 0, pass 0\n  weights   recorded\n")
    assert "of its size from the module in float64\n  worst at  [" in text
    model = load_model(f"{net / 'net.py'}:make")
    recorded(model, net / "bare", lambda: model(torch.ones(2, 8)), roles="in,out")
    text, code = of_command(capsys, net / "bare", "up", "--model", f"{net / 'net.py'}:make")
    assert (code, "  weights   of the model\n  result    other bits than recorded\n" in text) == (1, True)


def test_without_a_model_the_command_says_what_to_name(net, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(net / "run"), "up"])
    said = capsys.readouterr().err
    assert "up is a module" in said
    assert "name a function that makes its model, --model FILE.py:make, or record its operators" in said


@pytest.mark.parametrize(
    ("function", "what"), [("number", "gives a int"), ("fails", "no such checkpoint"), ("nothing", "has no nothing")]
)
def test_a_function_that_gives_no_model_is_refused(function, what, net):
    with pytest.raises(ValueError, match=what):
        load_model(f"{net / 'net.py'}:{function}")


def test_a_file_with_a_model_can_import_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "sizes_of_net.py").write_text("SIZE = 3")
    (tmp_path / "sized.py").write_text("""
from __future__ import annotations
import dataclasses, torch
from sizes_of_net import SIZE
@dataclasses.dataclass
class Config:
    size: int = SIZE
def make():
    return {"net": torch.nn.Linear(Config().size, 1)}
""")
    assert load_model(f"{tmp_path / 'sized.py'}:make")["net"].in_features == 3


def test_a_log_and_a_diff_show_calls_that_are_kept_as_others(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    recorded(model, tmp_path / "a", lambda: model(x), level={"^0$": "fingerprint"}, roles="in,out")
    text = run("log", tmp_path / "a").stdout
    assert "did not return" not in text
    assert "[nn.Mod] Sequential (Sequential)(t: f32[2, 4]) -> t: f32[2, 4]" in text
    nn.init.ones_(model[1].bias)
    recorded(model, tmp_path / "b", lambda: model(x), roles="in,out")
    difference = run("diff", tmp_path / "a", tmp_path / "b").stdout
    assert difference.startswith("diverged: 1 ")
    assert "call in" not in difference
