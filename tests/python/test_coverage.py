"""`ttap ls --coverage`: what a rank's coverage.json says, whatever is in it."""

import fcntl
import json
import os
import re

import pytest
from ttap_command import read_json, run

SOURCE = {
    "roots": [{"name": "Bert", "modules": 103, "selected": 79, "passes": 3}],
    "never_called": [
        {"name": "pooler", "type": "Pooler", "why": "never called"},
        {"name": "rotary", "type": "Rotary", "why": "called through .forward() at model.py:31"},
        {"name": "pooler.dense", "type": "Linear", "why": "never called"},
    ],
    "without_tensors": [{"name": "sampler", "calls": 3}],
    "unsupported": [{"why": "a sparse tensor", "count": 2, "first": "embed@out"}],
    "outside_steps": 12,
    "late_gradients": 1,
    "notes": ["the first note", "another\nnote"],
}
RECORDED = {
    "passes": 2,
    "tensors": 20,
    "tensor_bytes": 4096,
    "deduplicated": 1,
    "file_bytes": 5000,
    "names": {"seen": 12, "recorded": 10},
    "patterns": [{"pattern": "mlp", "names": 6}, {"pattern": "^nothing", "names": 0}],
    "drops": {"staging_full": 3, "quota": 0, "disk_full": 0, "io_error": 0, "unsupported": 0, "events": 1},
    "first_error": "cannot write: no space",
    "staging_peak_bytes": 2048,
}


@pytest.fixture
def recorded(tmp_path):
    """A run with one rank, whose coverage.json is what is given: text, bytes, or something to write as JSON."""

    def make(content, rank=0):
        folder = tmp_path / f"run/rank{rank}_pid{100 + rank}"
        folder.mkdir(parents=True)
        (folder / "rank.json").write_text("{}")
        if isinstance(content, bytes):
            (folder / "coverage.json").write_bytes(content)
        elif content is not None:
            (folder / "coverage.json").write_text(json.dumps(content))
        return tmp_path / "run"

    return make


def listed(folder, *words):
    result = run("ls", folder, "--coverage", *words)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_the_whole_of_it_is_said(recorded):
    text = listed(recorded({**RECORDED, "source": SOURCE}))
    for expected in [
        r"^rank 0 \(pid 100\)\n",
        r"recorded +20 tensors \(4\.0 KiB\) in 2 passes",
        r"names +10 recorded of 12 seen",
        r"written +4\.9 KiB; the bytes of 1 tensor were there already",
        r"staging +2\.0 KiB",
        r"lost +4 dropped \(staging full 3, events 1\)",
        r"'mlp' matched 6 names",
        r"'\^nothing' matched none of the 12 names seen",
        r"first error +cannot write: no space",
        r"Bert +103 +79 +3",
        r"2 modules not recorded: never called\n    pooler  Pooler\n    pooler\.dense  Linear\n",
        r"1 module not recorded: called through \.forward\(\) at model\.py:31\n    rotary  Rotary\n",
        r"without a tensor in or out\n    sampler  3 calls\n",
        r"a sparse tensor: 2, the first embed@out",
        r"12 module calls outside any step",
        r"1 gradient that came after its step",
        r"notes\n    the first note\n    another%0Anote\n",
    ]:
        assert re.search(expected, text), expected


def test_nothing_is_left_out_of_a_long_list(recorded):
    modules = [{"name": f"layers.{i}", "type": "Linear", "why": "never called"} for i in range(3000)]
    text = listed(recorded({"source": {"never_called": modules}}))
    assert "3000 modules not recorded: never called" in text
    assert all(f"    layers.{i}  Linear\n" in text for i in range(3000))


@pytest.mark.parametrize(
    "content", [{}, {"source": {}}, {"source": {"never_called": [{}]}}, {"source": None, "drops": None}]
)
def test_any_member_may_be_missing(recorded, content):
    assert "recorded     0 tensors" in listed(recorded(content))


def test_what_is_not_known_is_printed_as_it_is(recorded):
    text = listed(
        recorded(
            {
                "clock": {"skew": [1, 2]},
                "drops": {"cosmic_rays": 7},
                "source": {"graph_breaks": 3, "roots": [{"name": "M", "dtype": "bf16\u001b[31m"}]},
            }
        )
    )
    assert 'clock: {"skew":[1,2]}' in text
    assert "drops.cosmic_rays: 7" in text
    assert "source.graph_breaks: 3" in text
    assert 'source.roots[0].dtype: "bf16\\u001b[31m"' in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"passes": 1',
        b'{"passes": 1} trailing',
        b'{"passes": "\xff\xfe"}',
        b"\x00" * 64,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"passes": 1e999}',
        b"{" + b",".join(b'"k%d":0' % i for i in range(200_000)) + b"}",
        [],
        "text",
        {"passes": -1},
        {"passes": 1.5},
        {"passes": 2**70},
        {"tensors": "many"},
        {"names": [1, 2]},
        {"drops": {"quota": "x"}},
        {"patterns": {"pattern": "x"}},
        {"patterns": ["x"]},
        {"first_error": 3},
        {"source": "x"},
        {"source": {"never_called": ["pooler"]}},
        {"source": {"notes": [1]}},
        {"source": {"notes": "x"}},
    ],
    ids=lambda content: repr(content)[:40],
)
def test_what_is_garbled_is_an_error_that_names_the_file(recorded, content):
    folder = recorded(content)
    result = run("ls", folder, "--coverage")
    assert result.returncode == 2
    assert "coverage.json cannot be read" in result.stdout
    first, second = result.stderr.splitlines()
    assert first.startswith(f"ttap ls: error: {folder}/rank0_pid100/coverage.json: ")
    assert second.startswith("  what to do: ")
    document, code = read_json("ls", folder, "--coverage")
    assert code == 2
    assert document["ranks"][0]["coverage"] is None
    assert document["ranks"][0]["error"]["code"] in {"corrupt", "too large"}


def test_a_rank_that_cannot_be_read_does_not_hide_the_others(recorded):
    recorded(b"{")
    result = run("ls", recorded(RECORDED, rank=1), "--coverage")
    assert result.returncode == 2
    assert "20 tensors" in result.stdout


def test_json_holds_the_document_as_it_is(recorded):
    content = {**RECORDED, "source": SOURCE, "new": [1, {"a": None}]}
    recorded(content)
    document, code = read_json("ls", recorded(None, rank=1), "--coverage")
    assert code == 0
    closed, killed = document["ranks"]
    assert (closed["rank"], closed["pid"], closed["missing"]) == (0, 100, None)
    assert closed["coverage"] == content
    assert (killed["rank"], killed["coverage"]) == (1, None)
    assert "killed" in killed["missing"]


def test_a_rank_without_one_was_killed_or_is_still_recording(recorded):
    folder = recorded(None)
    assert "no coverage.json: its process was killed" in listed(folder)
    lock = os.open(folder / "rank0_pid100", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "no coverage.json: its process is still recording" in listed(folder)
    finally:
        os.close(lock)


def test_what_tensortap_did_not_record_has_none(runs):
    assert "TensorTap did not record it here" in listed(runs("clean"))


def test_ranks_are_chosen_with_or_without_passes(recorded):
    recorded(RECORDED)
    folder = recorded({"tensors": 77}, rank=1)
    text = listed(folder, "--rank", "1")
    assert "77 tensors" in text
    assert "rank 0" not in text
    assert run("ls", folder, "--coverage", "--rank", "5").returncode == 2


@pytest.mark.parametrize("words", [("--pass", "0"), ("--filter", "x"), ("--passes",), ("--stats",), ("--limit", "3")])
def test_options_about_tensors_do_not_go_with_it(recorded, words):
    result = run("ls", recorded(RECORDED), "--coverage", *words)
    assert result.returncode == 2
    assert "--coverage" in result.stderr
