"""What a bound keeps out of a recording: fingerprints outlive the bytes, and what is lost is no clean answer."""

import re
import sys

import pytest
import tensortap as tap
import torch
from torch import nn
from ttap_command import read_json, run

# Turns NaN in its last step: the logarithm of a probability that has underflowed.
TRAINING = """
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(32, 64)
for step in range(40):
    p = torch.softmax(model(x) * (1 if step < 39 else 1e4), -1)
    loss = (p * torch.log(p)).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.fixture
def training(tmp_path):
    """Records it with --ops and a quota; gives the directory and what was said."""
    script = tmp_path / "train.py"
    script.write_text(TRAINING)

    def record(name, *options):
        result = run("run", "-o", tmp_path / name, "--ops", *options, "--", sys.executable, script)
        assert result.returncode == 0, result.stderr
        return tmp_path / name, result.stderr

    return record


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("pass*.ttap"))


def test_the_first_nan_is_found_though_the_quota_stopped_the_bytes_long_before(training):
    whole, _ = training("whole", "--level", "full")
    fingerprints, _ = training("fingerprints")
    quota = 4 * size_of(fingerprints) + (1 << 20)  # a quarter of it holds every fingerprint
    assert quota < size_of(whole) / 2
    bounded, said = training("bounded", "--level", "full", "--quota", str(quota))
    assert "dropped (quota" in said and "lost" not in said
    result = run("check", bounded)
    assert result.returncode == 1 and "aten::log" in result.stdout, result.stdout
    assert len(tap.open(bounded).ranks[0].passes) == len(tap.open(whole).ranks[0].passes)
    assert tap.check(bounded).first.key == tap.check(whole).first.key


def test_what_the_quota_made_vanish_is_no_clean_answer(training):
    fingerprints, _ = training("fingerprints")
    short, said = training("short", "--quota", str(size_of(fingerprints) // 2))
    assert re.search(r"\d+ passes lost: no file could be made", said)
    result = run("check", short)
    assert result.returncode == 1, result.stdout
    lost = r"inconclusive: \d+ whole passes and \d+ tensors were lost \(quota\); no NaN, no Inf in what is left"
    assert re.search(lost, result.stdout)
    document, code = read_json("check", short)
    assert code == 1 and document["conclusive"] is False and document["found"] == []
    kept = len(tap.open(short).ranks[0].passes)
    assert document["lost"]["passes"] + kept == len(tap.open(fingerprints).ranks[0].passes)
    found = tap.check(short)
    assert found.clean and not found.conclusive and not found.ok and "inconclusive" in repr(found)
    # A pass that lost nothing is judged by itself.
    assert run("check", short, "--pass", "0").returncode == 0
    assert "whole passes" in run("ls", short, "--coverage").stdout

    result = run("diff", short, short)
    assert result.returncode == 1, result.stdout
    lost = r"inconclusive: \d+ whole passes .* lost \(quota\) of A, and .* of B; \d+ tensors are identical"
    assert re.match(lost, result.stdout)
    assert run("diff", short, short, "--pass", "0").returncode == 0
    compared = tap.diff(short, short)
    assert compared.verdict == "inconclusive" and not compared.same
    assert compared.to_json()["a"]["lost"]["passes"] == document["lost"]["passes"]


def test_bytes_alone_that_were_dropped_lose_nothing(tmp_path):
    model = nn.Linear(64, 4096)
    with tap.record(model, tmp_path, quota="1M", report=False), torch.no_grad():
        for step in range(8):
            model(torch.full((32, 64), float(step)))
    assert tap.open(tmp_path).ranks[0].coverage["drops"]["quota"] > 0
    assert tap.check(tmp_path).ok and run("check", tmp_path).returncode == 0
    assert tap.diff(tmp_path, tmp_path).verdict == "identical"


# The level of operators


def test_operators_are_kept_as_sketches_unless_a_level_is_given(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def levels(name, **options):
        with tap.record(model, tmp_path / name, ops=True, report=False, **options), torch.no_grad():
            model(torch.ones(2, 4))
        recorded = tap.open(tmp_path / name)
        assert recorded.ranks[0].metadata["program"]["options"]["ops"]
        return {record.key: record.level for record in recorded.ranks[0].passes[0].records}

    assert set(levels("default").values()) == {"sketch"}
    assert set(levels("full", level="full").values()) == {"full"}
    ruled = levels("rules", level={"addmm": "full"})
    assert {level for key, level in ruled.items() if "addmm" in key} == {"full"}
    assert {level for key, level in ruled.items() if "addmm" not in key} == {"sketch"}
    with tap.record(model, tmp_path / "modules", report=False), torch.no_grad():
        model(torch.ones(2, 4))
    assert {record.level for record in tap.open(tmp_path / "modules").ranks[0].passes[0].records} == {"full"}


def test_ttap_run_keeps_operators_as_sketches_too(training):
    def levels(directory):
        return {record.level for record in tap.open(directory).ranks[0].passes[1].records}

    assert levels(training("default", "--steps", "1")[0]) == {"sketch"}
    assert levels(training("full", "--steps", "1", "--level", "full")[0]) == {"full"}
    assert levels(training("some", "--steps", "1", "--level", "aten::log=full")[0]) == {"full", "sketch"}


# How fast it grows

GROWS = r"tensortap: the recording grows by \d+\.\d MiB a pass, \d+\.\d GiB in 1,000 passes; .* are free in .*: keep"


def grow(directory, passes, capsys, **options):
    model = nn.Identity()
    with tap.record(model, directory, **options):
        for step in range(passes):
            model(torch.full((27 << 20,), float(step)))  # 108 MiB
    return capsys.readouterr().err


def test_a_recording_that_grows_fast_says_so_once(tmp_path, capsys):
    said = grow(tmp_path / "loud", 4, capsys)
    assert len(re.findall(GROWS, said)) == 1, said
    assert "level='sketch'" in said and "--quota" in said


@pytest.mark.parametrize(
    "options", [{"report": False}, {"quota": "10G"}, {"level": "fingerprint"}], ids=["quiet", "bounded", "small"]
)
def test_it_says_nothing_of_it(tmp_path, capsys, options):
    assert "grows" not in grow(tmp_path, 3, capsys, **options)


def test_one_large_pass_is_no_growth(tmp_path, capsys):
    assert "grows" not in grow(tmp_path, 1, capsys)


def test_ttap_run_says_it_unless_it_is_to_be_quiet(tmp_path):
    script = tmp_path / "grow.py"
    script.write_text("import torch; m = torch.nn.Identity()\nfor i in range(4): m(torch.full((27 << 20,), float(i)))")
    words = ("--", sys.executable, script)
    assert len(re.findall(GROWS, run("run", "-o", tmp_path / "loud", *words).stderr)) == 1
    assert run("run", "-o", tmp_path / "quiet", "--quiet", *words).stderr == ""
