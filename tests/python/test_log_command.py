"""`ttap log` as a user runs it; what a line says is in tests/report/log_test.cpp."""

import json
import subprocess

import pytest
from test_cli_terminal import on_terminal
from ttap_command import TTAP, read_json, run


def lines_of(*words):
    result = run("log", *words)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_a_pass_begins_with_how_it_ended_and_then_tells_what_ran(runs):
    header, empty, *lines = lines_of(runs("ops"))
    assert header == "pass 0 of rank 0 (pid 4711): complete, 10 events"
    assert empty == ""
    assert lines[0] == "[nn.Mod] model (Model)"
    assert lines[2].startswith("    aten::t(t$0: f32[2, 3]) -> t$1: f32[3, 2]  # ")


def test_several_passes_follow_one_another(runs):
    headers = [line for line in lines_of(runs("several"), "--rank", "0") if line.startswith("pass ")]
    assert headers == [f"pass {number} of rank 0 (pid 4711): complete, 6 events" for number in range(3)]
    assert len([line for line in lines_of(runs("several"), "--pass", "1") if line.startswith("pass ")]) == 2


def test_a_recording_of_modules_shows_their_tensors(runs):
    line = next(line for line in lines_of(runs("broken")) if "model.layers.1.mlp" in line)
    assert line.startswith(
        "    [nn.Mod] model.layers.1.mlp(t: f32[2, 4, 8]) -> t: f32[2, 4, 8]  # 263472eb, mean 0.007"
    )
    assert line.endswith("1 NaN, 1 +Inf, 1 -Inf")


def test_what_a_killed_process_left_is_told_with_its_trouble(runs):
    text = "\n".join(lines_of(runs("trouble")))
    assert "pass 0 of rank 0 (pid 4711): aborted" in text
    assert "3 dropped (quota 1, unsupported 2)" in text
    assert "37 bytes after byte 1088 are not readable" in text


def test_a_file_without_events_says_where_its_tensors_are(runs, tmp_path):
    assert run("export", runs("broken"), "--format", "safetensors", "-o", tmp_path).returncode == 0
    assert "no events here, only tensors: ttap ls lists them" in lines_of(tmp_path)


def test_around_looks_in_every_pass_and_suggests_what_is_similar(runs):
    lines = lines_of(runs("several"), "--rank", "1", "--around", "model.layers.1.mlp", "-n", "1")
    assert len([line for line in lines if line.startswith("> ")]) == 3
    result = run("log", runs("several"), "--around", "model.layer.1.mlp")
    assert result.returncode == 2
    assert "no event 'model.layer.1.mlp'" in result.stderr
    assert "did you mean model.layers.1.mlp" in result.stderr


def test_a_file_is_not_left_half_written(runs, tmp_path):
    result = run("log", runs("ops"), "--around", "no.such.thing", "--perfetto", tmp_path / "trace.json")
    assert result.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_pass_does_not_hide_the_others(fresh):
    run_folder = fresh("several")
    (run_folder / "rank0_pid4711/pass00001.ttap").write_bytes(b"nothing")
    result = run("log", run_folder, "--rank", "0")
    assert result.returncode == 2
    assert "pass00001.ttap" in result.stderr
    assert [line[:6] for line in result.stdout.splitlines() if line.startswith("pass ")] == ["pass 0", "pass 2"]
    document, code = read_json("log", run_folder, "--rank", "0")
    assert code == 2
    assert ["error" in each for each in document["passes"]] == [False, True, False]


def test_json_is_one_document_that_hears_the_options(runs):
    document, code = read_json("log", runs("ops"))
    assert code == 0
    (one,) = document["passes"]
    assert (document["command"], one["pass"], one["event_count"], len(one["events"])) == ("log", 0, 10, 10)
    document, _ = read_json("log", runs("ops"), "--module", "model.mlp")
    assert [event["name"] for event in document["passes"][0]["events"]] == [
        "model.mlp",
        "model.mlp:aten::t",
        "model.mlp:aten::mm",
        "model.mlp:backward:aten::mm",
    ]


def test_colours_on_a_terminal_only(runs):
    received, code = on_terminal("log", runs("ops"))
    assert code == 0
    assert "\x1b[1;31m1 -Inf\x1b[0m" in received
    assert max(len(line) for line in received.splitlines()) > 80  # a pager scrolls or wraps it


def test_a_reader_that_goes_away_is_no_error(runs):
    with subprocess.Popen(
        [TTAP, "log", runs("many_ops", "20000")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("kind", ["ops", "several", "broken"])
def test_files_for_viewers_are_whole(runs, tmp_path, kind):
    trace, graph = tmp_path / "trace.json", tmp_path / "graph.json"
    result = run("log", runs(kind), "--perfetto", trace, "--model-explorer", graph)
    assert result.returncode == 0, result.stderr
    passes = 6 if kind == "several" else 1
    assert result.stdout.splitlines() == [
        f"{path}: {passes} pass{'es' if passes > 1 else ''}" for path in (trace, graph)
    ]
    events = json.loads(trace.read_text())["traceEvents"]
    assert all({"ph", "pid", "tid", "name"} <= event.keys() for event in events)
    assert all(event["ts"] >= 0 for event in events if event["ph"] != "M")
    graphs = json.loads(graph.read_text())["graphs"]
    assert len({graph["id"] for graph in graphs}) == passes
    for each in graphs:
        ids = [node["id"] for node in each["nodes"]]
        assert ids
        assert len(set(ids)) == len(ids)
        edges = [edge for node in each["nodes"] for edge in node.get("incomingEdges", [])]
        assert {edge["sourceNodeId"] for edge in edges} <= set(ids)
    assert bool(edges) == (kind == "ops")
