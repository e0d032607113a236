"""The command, run as a user runs it: text, JSON and exit codes."""

import re
import subprocess
from pathlib import Path

import pytest
from ttap_command import MAKE, read_json, run

COMMANDS = ["ls", "log", "show", "check", "export", "recover", "blame", "replay"]


# The program itself


def test_version():
    result = run("--version")
    assert result.returncode == 0
    assert re.fullmatch(r"ttap \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command):
    result = run(command, "--help")
    assert result.returncode == 0
    assert "Examples:" in result.stdout
    assert f"  ttap {command} " in result.stdout
    assert f"Usage: ttap {command}" in result.stdout
    for option in ["RUN", "--json", "--color"]:
        assert option in result.stdout


def test_without_a_command_the_overview_goes_to_stderr():
    result = run()
    assert (result.returncode, result.stdout) == (2, "")
    for command in ["run", *COMMANDS]:
        assert f"  {command} " in result.stderr


def test_a_misspelt_command_is_corrected():
    result = run("chek", "somewhere")
    assert result.returncode == 2
    assert "did you mean 'check'?" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("ls",),
        ("ls", "{run}", "--no-such-option"),
        ("ls", "{run}", "--color", "sometimes"),
        ("ls", "{run}", "--pass", "x"),
        ("ls", "{run}", "--pass", "7"),
        ("ls", "{run}", "--filter", "("),
        ("ls", "/no/such/place"),
        ("check", "{run}", "--rank", "9"),
        ("log", "{run}", "--filter", "("),
        ("log", "{run}", "--around", "no.such.thing"),
        ("log", "{run}", "--stack=some"),
        ("log", "{run}", "--perfetto", "/no/such/place/trace.json"),
        ("log", "{run}", "--model-explorer", "/no/such/place/graph.json"),
        ("show", "{run}"),
        ("show", "{run}", "model.embed", "--bins", "0"),
        ("show", "{run}", "model.embed", "--index", "9"),
        ("show", "{run}", "model.embed", "--index", "1,"),
        ("export", "{run}", "--format", "zip", "-o", "/tmp/x"),
        ("export", "{run}", "--format", "pt"),
        ("recover", "/no/such/place"),
    ],
)
def test_an_error_says_what_and_what_to_do_on_stderr_and_exits_with_2(runs, words):
    result = run(*(word.format(run=runs("clean")) for word in words))
    assert (result.returncode, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first.startswith(f"ttap {words[0]}: error: ")
    assert second.startswith("  what to do: ")


def test_a_file_of_another_kind_is_an_error(tmp_path):
    stray = tmp_path / "notes.txt"
    stray.write_text("hello")
    result = run("ls", stray)
    assert result.returncode == 2
    assert str(stray) in result.stderr


# ls


def test_ls_of_one_pass_lists_its_tensors_in_execution_order(runs):
    lines = run("ls", runs("clean")).stdout.splitlines()
    assert lines[0] == "pass 0 of rank 0 (pid 4711): complete, 11 tensors, 6 events, 6.6 KiB"
    assert lines[2].split() == ["key", "dtype", "shape", "level", "size", "min", "max", "mean"]
    keys = [line.split()[0] for line in lines[3:]]
    assert keys[:3] == ["model.embed@in/0", "model.embed", "model.layers.0.mlp@in/0"]
    assert keys[-2:] == ["model.head::call2", "model.cache"]


def test_ls_takes_a_run_a_rank_or_a_pass(runs):
    whole = run("ls", runs("clean")).stdout
    assert run("ls", runs("clean") / "rank0_pid4711").stdout == whole
    assert run("ls", runs("clean") / "rank0_pid4711/pass00000.ttap").stdout == whole


def test_ls_of_several_passes_gives_a_line_each_and_a_hint(runs):
    text = run("ls", runs("several")).stdout
    assert "2 ranks, 6 passes" in text
    rows = [line.split() for line in text.splitlines() if re.match(r"\s+\d", line)]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (str(rank), str(number), "complete") for rank in range(2) for number in range(3)
    ]
    assert rows[4][-1] == "3"  # tensors with NaN or Inf
    assert f"ttap ls {runs('several')} --pass 0" in text
    assert "model.embed" not in text


def test_ls_selects(runs):
    text = run("ls", runs("several"), "--pass", "1-2", "--rank", "1", "--filter", r"mlp$").stdout
    assert [line for line in text.splitlines() if line.startswith("pass")] == [
        "pass 1 of rank 1 (pid 4712): complete, 11 tensors, 6 events, 6.9 KiB",
        "pass 2 of rank 1 (pid 4712): complete, 11 tensors, 6 events, 6.6 KiB",
    ]
    assert text.count("model.layers.0.mlp ") == 2
    assert "model.embed" not in text
    assert "1 NaN, 1 +Inf, 1 -Inf" in text


def test_ls_says_when_a_filter_matches_nothing(runs):
    assert "no key matches 'zzz'" in run("ls", runs("clean"), "--filter", "zzz").stdout


def test_ls_limits(runs):
    text = run("ls", runs("clean"), "--limit", "2").stdout
    assert text.endswith("... and 9 more\n")
    document, _ = read_json("ls", runs("clean"), "--limit", "2")
    assert len(document["passes"][0]["tensors"]) == 2


def test_ls_shows_drops_endings_and_torn_tails(runs):
    text = run("ls", runs("trouble")).stdout
    assert re.search(r"0 +aborted .* 3 dropped \(quota 1, unsupported 2\)", text)
    assert re.search(r"1 +incomplete .* 37 bytes after byte \d+ are not readable: the file ends inside", text)
    assert "full, bytes dropped" in run("ls", runs("trouble"), "--pass", "0").stdout


def test_ls_goes_on_after_a_pass_that_cannot_be_opened(fresh):
    run_folder = fresh("several")
    (run_folder / "rank0_pid4711/pass00001.ttap").write_bytes(b"nonsense")
    result = run("ls", run_folder)
    assert result.returncode == 2
    assert "unreadable" in result.stdout
    assert result.stdout.count("complete") == 5
    assert "pass00001.ttap" in result.stderr
    document, code = read_json("ls", run_folder, "--passes")
    assert code == 2
    assert [("error" in each) for each in document["passes"]] == [False, True, False, False, False, False]


def test_ls_json(runs):
    document, code = read_json("ls", runs("broken"))
    assert code == 0
    (only,) = document["passes"]
    assert (only["rank"], only["pid"], only["pass"], only["ending"]) == (0, 4711, 0, "complete")
    assert (only["tensor_count"], only["event_count"], only["problem"]) == (11, 6, None)
    assert only["metadata"] == {"program": "train.py"}
    tensor = only["tensors"][6]
    assert tensor["key"] == "model.layers.1.mlp"
    assert (tensor["dtype"], tensor["shape"], tensor["strides"]) == ("f32", [2, 4, 8], [1, 2, 8])
    assert tensor["statistics"]["nan"] == 1
    assert tensor["statistics"]["max"] == pytest.approx(2.904762)
    assert only["tensors"][8]["statistics"]["mean"] == "nan"  # no finite value
    assert only["tensors"][10]["statistics"] is None


def test_a_pass_that_is_still_written_is_said_to_be(tmp_path):
    writer = subprocess.Popen([MAKE, "being_written", tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        writer.stdout.readline()
        assert "incomplete, still being written" in run("ls", tmp_path).stdout
        result = run("recover", tmp_path)
        assert result.returncode == 0
        assert "still writing" in result.stdout
    finally:
        writer.communicate()
    assert "still" not in run("ls", tmp_path).stdout
    assert "recovered" in run("recover", tmp_path).stdout


# show


def test_show_tells_all_about_a_tensor(runs):
    text = run("show", runs("broken"), "model.layers.1.mlp").stdout
    for expected in [
        r"pass +0 of rank 0 \(pid 4711\), complete",
        r"strides +\[1, 2, 8\] as captured",
        r"device +cuda:0",
        r"event +module model.layers.1.mlp, call 1, thread 4711",
        r"inside +model > model.layers.1",
        r"stack +train.py:10 in main\n +model.py:42 in forward",
        r"hash +[0-9a-f]{32}",
        r"count +64 ",
        r"NaN +1 ",
        r"values \[0, :, :\]",
        r"histogram \(61 finite values\)",
        r"\[0, 1, 5\] +NaN\n +\[0, 1, 6\] +\+Inf\n +\[1, 3, 7\] +-Inf\n +\[0, 0, 0\] +-3\n",
    ]:
        assert re.search(expected, text), expected


def test_show_names_keys_alike(runs):
    result = run("show", runs("clean"), "model.layer.0.mlp")
    assert (result.returncode, result.stdout) == (2, "")
    assert "did you mean model.layers.0.mlp" in result.stderr


def test_show_of_a_fingerprint_says_why_there_are_no_values(runs):
    result = run("show", runs("clean"), "model.layers.0.norm")
    assert result.returncode == 0
    assert "recorded at level 'fingerprint': its bytes were not kept" in result.stdout
    assert "histogram" not in result.stdout


def test_show_names_the_other_passes(runs):
    assert re.search(r"also in +pass 1-2 \(", run("show", runs("several"), "model.head").stdout)
    assert re.search(
        r"pass +2 of rank 1", run("show", runs("several"), "model.head", "--pass", "2", "--rank", "1").stdout
    )


def test_show_index_and_slices(runs):
    text = run("show", runs("values"), "matrix", "--index", "99,-1").stdout
    assert re.search(r"values \[99, -1\]\n +1\n", text)
    assert re.search(r"values \[-1, :\]\n", run("show", runs("values"), "matrix", "--index", "-1").stdout)
    assert re.search(r"values \[50, :\]\n", run("show", runs("values"), "matrix", "--index", "50").stdout)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("constant", r"histogram \(5 finite values\)\n +2.5 +5 #+\n\n"),
        ("all_nan", r"no finite value\n\nworst elements\n +\[0, 0\] +NaN"),
        ("empty", r"none: a dimension is 0"),
        ("scalar", r"values\n +42\n"),
        ("big_integers", r"-9223372036854775808 +0 +9223372036854775807"),
        ("bool", r"True False +True +True"),
        ("complex", r"1-2i 0.5\+NaNi"),
        ("fp4", r"\(0.5, 6\) +\(-6, 0\)"),
        ("matrix", r"\.\.\."),
    ],
)
def test_show_values_of_every_kind(runs, key, expected):
    result = run("show", runs("values"), key)
    assert result.returncode == 0
    assert re.search(expected, result.stdout), result.stdout
    read_json("show", runs("values"), key)


def test_show_json(runs):
    document, _ = read_json("show", runs("broken"), "model.layers.1.mlp", "--bins", "4", "--worst", "2")
    assert document["tensor"]["key"] == "model.layers.1.mlp"
    assert document["event"]["parent"] == "model.layers.1"
    assert document["statistics"]["pos_inf"] == 1
    assert len(document["histogram"]["bins"]) == 4
    assert sum(each["count"] for each in document["histogram"]["bins"]) == 61
    assert document["worst"]["nonfinite_count"] == 3
    assert document["worst"]["nonfinite"][0] == {"index": [0, 1, 5], "part": 0, "value": "nan"}
    assert document["worst"]["largest"][0] == {"index": [0, 0, 0], "part": 0, "value": -3.0}


def test_show_of_damaged_bytes_is_an_error_and_still_tells_the_rest(runs):
    result = run("show", runs("damaged"), "bad")
    assert result.returncode == 2
    assert "statistics" in result.stdout
    assert "do not match their hash" in result.stderr


# check


def test_check_of_a_clean_run(runs):
    result = run("check", runs("clean"))
    assert result.returncode == 0
    assert "no NaN, no Inf in 10 tensors of 1 pass" in result.stdout
    assert "'model.cache' was recorded at level 'meta'" in result.stdout  # nothing is skipped silently


def test_check_finds_the_first_and_every_later_one(runs):
    result = run("check", runs("broken"))
    assert result.returncode == 1
    text = result.stdout
    for expected in [
        r"^FIRST +model.layers.1.mlp\n",
        r"where +pass 0 of rank 0 \(pid 4711\), tensor 7 of 11",
        r"holds +1 NaN, 1 \+Inf, 1 -Inf of 64 values \(4.69 %\)",
        r"first at +\[0, 1, 5\] NaN",
        r"inside +model > model.layers.1",
        r"input +model.layers.1.mlp@in/0 .*finite",
        r"so +every recorded input of this call was finite: it arose here",
        r"then 2 more tensors",
        r"model.layers.1.norm .*\n.*model.head ",
        r"NaN or Inf in 3 of 10 tensors of 1 pass",
    ]:
        assert re.search(expected, text), expected
    # The command it proposes works.
    words = re.search(r"look +ttap (.*)", text).group(1).split()
    assert run(*words).returncode == 0


def test_check_goes_rank_by_rank_and_pass_by_pass(runs):
    document, code = read_json("check", runs("several"))
    assert code == 1
    assert (document["first"]["rank"], document["first"]["pass"]) == (1, 1)
    assert [each["key"] for each in document["found"]] == ["model.layers.1.mlp", "model.layers.1.norm", "model.head"]
    assert len(document["passes"]) == 6
    assert document["judged"] == 60
    assert len(document["unjudged"]) == 6
    assert run("check", runs("several"), "--rank", "0").returncode == 0


def test_check_filter_says_what_it_left_out(runs):
    result = run("check", runs("broken"), "--filter", r"layers\.0")
    assert result.returncode == 0
    assert "8 tensors were left out" in result.stdout


def test_check_warns_of_what_is_not_whole(runs):
    result = run("check", runs("trouble"))
    assert result.returncode == 0
    for expected in ["pass 0 of rank 0: aborted", "3 dropped", "pass 1 of rank 0: incomplete", "37 bytes after byte"]:
        assert expected in result.stdout


def test_check_verify_finds_damage(runs):
    assert run("check", runs("damaged")).returncode == 0
    result = run("check", runs("damaged"), "--verify")
    assert result.returncode == 1
    assert "damaged: bad in pass 0" in result.stdout
    document, _ = read_json("check", runs("damaged"), "--verify")
    assert [each["key"] for each in document["damaged"]] == ["bad"]
    assert document["verified"]["tensors"] == 1


# export


@pytest.mark.parametrize("form", ["pt", "safetensors", "npy"])
def test_export_can_be_read_back_by_every_command(runs, tmp_path, form):
    result = run("export", runs("broken"), "--format", form, "-o", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "8 tensors, 3 left out: no bytes were recorded" in result.stdout
    assert next(iter((tmp_path / "rank0_pid4711").iterdir())).name == "pass00000" + (
        "" if form == "npy" else f".{form}"
    )
    assert "model.layers.1.mlp" in run("ls", tmp_path).stdout
    assert "1 NaN, 1 +Inf, 1 -Inf" in run("ls", tmp_path, "--stats").stdout
    text = run("show", tmp_path, "model.layers.1.mlp").stdout
    assert re.search(r"\[0, 1, 5\] +NaN", text)
    checked = run("check", tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.startswith("FIRST  model.layers.1.mlp\n")


def test_export_overwrites_nothing(runs, tmp_path):
    words = ("export", runs("clean"), "--format", "safetensors", "-o", tmp_path)
    assert run(*words).returncode == 0
    result = run(*words)
    assert result.returncode == 2
    assert "is there already" in result.stderr


def test_export_selects(runs, tmp_path):
    words = ("export", runs("several"), "--format", "npy", "--pass", "1", "--filter", "mlp", "-o", tmp_path)
    document, code = read_json(*words)
    assert code == 0
    assert [each["tensors"] for each in document["exported"]] == [4, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0_pid4711", "rank1_pid4712"]


# recover


def test_recover_finishes_what_a_dead_process_left(fresh):
    run_folder = fresh("trouble")
    result = run("recover", run_folder)
    assert result.returncode == 0
    assert "pass00001.ttap: 1 tensor, 37 bytes of torn tail cut" in result.stdout
    assert not list(run_folder.rglob("*.incomplete"))
    assert "not readable" not in run("ls", run_folder).stdout
    assert "nothing to recover" in run("recover", run_folder).stdout


def test_recover_json_and_failures(fresh):
    run_folder = fresh("trouble")
    (run_folder / "rank0_pid4711/pass00002.ttap.incomplete").write_bytes(b"TTAP")
    document, code = read_json("recover", run_folder)
    assert code == 2
    assert [each["cut_bytes"] for each in document["recovered"]] == [37]
    assert [Path(each["path"]).name for each in document["failed"]] == ["pass00002.ttap.incomplete"]
