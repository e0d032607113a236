"""`ttap run`: what the program sees, what it may do, and what is said at the end."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ttap_command import MAKE, ROOT, TTAP, run

LAUNCH = ROOT / "python/tensortap/launch"
NOTHING = "ttap run: no process recorded anything"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory, and an environment without anything of ours."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("TTAP_") and name != "TTAP_BIN"]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return folder


def python(program, *words):
    return ("--", sys.executable, "-c", program, *words)


def seen(*options, **environment):
    """The environment a program sees."""
    result = run("run", *options, *python("import json, os; print(json.dumps(dict(os.environ)))"), **environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# The environment


def test_a_program_is_told_where_to_record(here):
    variables = seen("-o", "out/../out/run/")
    assert variables["TTAP_DIR"] == str(here / "out/run")
    assert variables["TTAP_RUN"] == "1"
    assert variables["TTAP_OVERRIDE"] == "1"
    assert variables["TTAP_REPORT"] == "0"
    assert variables["PYTHONPATH"] == str(LAUNCH)
    assert "TTAP_FILTER" not in variables


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "{launch}"),
        ("/one:/two", "{launch}:/one:/two"),
        (":/one", "{launch}::/one"),
        ("{launch}:/one", "{launch}:/one"),  # a run within a run
        ("/one:{launch}", "{launch}:/one:{launch}"),
    ],
)
def test_the_launcher_comes_first_in_pythonpath_and_the_rest_is_kept(here, before, after):
    variables = seen(PYTHONPATH=before.format(launch=LAUNCH))
    assert variables["PYTHONPATH"] == after.format(launch=LAUNCH)


def test_an_installed_command_finds_its_launcher_beside_it(here, tmp_path):
    launch = tmp_path / "usr/share/ttap/launch"
    launch.mkdir(parents=True)
    (launch / "sitecustomize.py").write_text("import builtins; builtins.launched = True")
    (tmp_path / "usr/bin").mkdir()
    command = shutil.copy2(TTAP, tmp_path / "usr/bin/ttap")
    words = [command, "run", "--quiet", *python("import sys; print(sys.path[1]); assert launched")]
    result = subprocess.run(words, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"{launch}\n"), result.stderr


def test_another_launcher_can_be_named(here, tmp_path):
    (tmp_path / "other").mkdir()
    result = run("run", "touch", "ran", TTAP_LAUNCH_DIR=str(tmp_path / "other"))
    assert result.returncode == 2
    assert f"looked at {tmp_path}/other" in result.stderr
    assert list(here.iterdir()) == []
    (tmp_path / "other/sitecustomize.py").touch()
    assert seen(TTAP_LAUNCH_DIR=str(tmp_path / "other"))["PYTHONPATH"] == str(tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "variable", "value"),
    [
        (["--filter", "mlp"], "TTAP_FILTER", '["mlp"]'),
        (
            ["--filter", "[ab],c", '--filter=x="y"', "--filter", "größe"],
            "TTAP_FILTER",
            '["[ab],c","x=\\"y\\"","größe"]',
        ),
        (["--filter", "[ab]"], "TTAP_FILTER", '["[ab]"]'),
        (["--filter", "-x"], "TTAP_FILTER", '["-x"]'),
        (["--filter", ""], "TTAP_FILTER", '[""]'),
        (["--filter-fn", "package.module:wanted"], "TTAP_FILTER_FN", "package.module:wanted"),
        (["--level", "fingerprint"], "TTAP_LEVEL", "fingerprint"),
        (["--level", "z=full", "--level", "a=b=meta"], "TTAP_LEVEL", '{"z":"full","a=b":"meta"}'),
        (["--level", "meta", "--level", "head=full"], "TTAP_LEVEL", '{"head":"full",".*":"meta"}'),
        (["--steps", "0,3-5,10-"], "TTAP_STEPS", "0,3-5,10-"),
        (["--ranks", "0"], "TTAP_RANKS", "0"),
        (["--roles", "out,grad_in"], "TTAP_ROLES", "out,grad_in"),
        (["--modules", "leaf"], "TTAP_MODULES", "leaf"),
        (["--format", "safetensors"], "TTAP_FORMAT", "safetensors"),
        (["--staging", "256M"], "TTAP_STAGING_BYTES", "256M"),
        (["--quota", "20g"], "TTAP_QUOTA_BYTES", "20g"),
        (["--when-full", "drop"], "TTAP_WHEN_FULL", "drop"),
        (["--strict"], "TTAP_STRICT", "1"),
    ],
)
def test_an_option_becomes_a_variable(here, options, variable, value):
    assert seen(*options)[variable] == value
    assert seen(*options, **{variable: "of the user"})[variable] == value


def test_what_is_not_given_stays_as_the_environment_has_it(here):
    theirs = {f"TTAP_{name}": "of the user" for name in ["FILTER", "FILTER_FN", "LEVEL", "STEPS", "STRICT", "FORMAT"]}
    variables = seen("--steps", "1", **theirs)
    assert {name: variables[name] for name in theirs} == {**theirs, "TTAP_STEPS": "1"}


def test_a_filter_outweighs_the_other_kind_of_the_environment(here):
    assert "TTAP_FILTER_FN" not in seen("--filter", "x", TTAP_FILTER_FN="m:f")
    assert "TTAP_FILTER" not in seen("--filter-fn", "m:f", TTAP_FILTER="x")


def test_a_file_with_a_filter_function_is_named_for_programs_that_go_elsewhere(here):
    (here / "wanted.py").touch()
    assert seen("--filter-fn", "wanted.py:choose")["TTAP_FILTER_FN"] == f"{here}/wanted.py:choose"


@pytest.mark.parametrize(
    "options",
    [
        ["--no-such-option"],
        ["--filter", "("],
        ["--filter", b"\xff"],
        ["--filter", "x", "--filter-fn", "m:f"],
        ["--filter-fn", "module"],
        ["--filter-fn", "module:"],
        ["--filter-fn", ":function"],
        ["--filter-fn", "missing.py:function"],
        ["--level", "everything"],
        ["--level", "=full"],
        ["--level", "(=full"],
        ["--level", "x=none"],
        ["--level", "full", "--level", "meta"],
        ["--level", "x=full", "--level", "x=meta"],
        *(["--steps", text] for text in ["", "x", "5-3", "1,", "-", "1-,3", "-1", "1 2"]),
        ["--steps", "1", "--steps", "2"],
        ["--ranks", "all"],
        *(["--roles", text] for text in ["", "out,", "output", "out in"]),
        ["--modules", "some"],
        ["--format", "zip"],
        *(["--staging", text] for text in ["", "big", "1K", "-1", "1.5G", "64KB", "99999999999999999999", "99999999T"]),
        ["--quota", "half"],
        ["--when-full", "panic"],
        ["-o", ""],
        ["-o", "/dev/null/run"],
        ["-o", "/dev/null"],
    ],
)
def test_a_bad_value_is_an_error_before_anything_runs(here, options):
    result = run("run", *options, "--", "touch", "ran")
    assert (result.returncode, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first.startswith("ttap run: error: ")
    assert second.startswith("  what to do: ")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "words", [[], ["--"], ["--quiet"], ["-o", "out"], ["-o"], ["-o", "--", "true"], ["--steps", "1", "--"]]
)
def test_without_a_program_there_is_an_error(here, words):
    result = run("run", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("ttap run: error: ")
    assert list(here.iterdir()) == []


def test_help():
    text = run("run", "--help").stdout
    for expected in [
        "Examples:",
        "python train.py",
        "python -m",
        "torchrun --nproc-per-node 2",
        "--filter 'layers",
        "--quiet",
    ]:
        assert expected in text


# The words of the program


@pytest.mark.parametrize(
    ("words", "received"),
    [
        (["--", "echo", "-o", "x", "--steps"], "-o x --steps"),
        (["echo", "-o", "x", "--quiet", "--help"], "-o x --quiet --help"),
        (["echo", "--", "x", "--", "y"], "-- x -- y"),
        (["--", "echo", "--", "x"], "-- x"),
        (["--steps", "3", "echo", "a b", ""], "a b "),
        (["-oout", "--steps=3", "--strict", "echo", "x"], "x"),
        (["--output", "out", "--filter", "a", "--filter", "b", "echo", "x"], "x"),
    ],
)
def test_everything_from_the_program_on_is_its_own(here, words, received):
    result = run("run", *words)
    assert (result.returncode, result.stdout) == (0, f"{received}\n"), result.stderr


def test_a_program_may_be_called_like_a_command(here, tmp_path):
    (tmp_path / "check").write_text("#!/bin/sh\necho mine")
    (tmp_path / "check").chmod(0o755)
    assert run("run", "check", "x", PATH=f"{tmp_path}:{os.environ['PATH']}").stdout == "mine\n"


# Exit codes


@pytest.mark.parametrize("code", [0, 1, 2, 3, 126, 127, 255])
def test_the_exit_code_is_that_of_the_program(here, code):
    assert run("run", "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGABRT, signal.SIGRTMIN]
)
def test_a_program_killed_by_a_signal_takes_us_with_it(here, number):
    result = run("run", *python(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert result.returncode == -number
    assert NOTHING in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "mode", "code", "advice"),
    [
        ("no-such-program", None, 0, 127, "check the name and PATH"),
        ("./no-such-file", None, 0, 127, "check the name and PATH"),
        ("./script", "#!/no/such/interpreter\n", 0o755, 127, "the interpreter named in its first line is not"),
        ("./script", "#!/bin/sh\n", 0o644, 126, "chmod +x"),
        ("./train.py", "print(1)\n", 0o644, 126, "ttap run -- python ./train.py"),
        ("train.py", "print(1)\n", 0o644, 127, "ttap run -- python train.py"),
        (".", None, 0, 126, "chmod +x"),
    ],
)
def test_what_cannot_be_started_ends_as_in_a_shell(here, name, content, mode, code, advice):
    if content:
        (here / name).write_text(content)
        (here / name).chmod(mode)
    result = run("run", "--", name)
    assert result.returncode == code
    first, second = result.stderr.splitlines()
    assert first.startswith(f"ttap run: error: cannot run '{name}': ")
    assert advice in second
    assert not list(here.glob("ttap-run-*"))


# Input and output


def test_input_and_output_pass_untouched(here):
    content = bytes(range(256)) * 20_000
    result = subprocess.run([TTAP, "run", "--", "cat"], input=content, capture_output=True)
    assert result.returncode == 0
    assert result.stdout == content


def test_the_report_follows_the_programs_own_errors_and_stdout_is_left_alone(here):
    result = run("run", "--", "sh", "-c", "echo out; echo err >&2")
    assert result.stdout == "out\n"
    assert result.stderr.startswith(f"err\n{NOTHING}")


def test_a_reader_that_goes_away_ends_the_program_as_it_would_alone(here):
    with subprocess.Popen([TTAP, "run", "--", "yes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(4) == b"y\ny\n"
        process.stdout.close()
        assert process.wait(10) == -signal.SIGPIPE


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_a_report_that_cannot_be_written_changes_nothing(here, closed):
    assert subprocess.run(["sh", "-c", f"exec '{TTAP}' run -- sh -c 'exit 5' {closed}"]).returncode == 5


def test_a_report_nobody_reads_changes_nothing(here):
    with subprocess.Popen([TTAP, "run", "--", "sh", "-c", "sleep 0.2; exit 5"], stderr=subprocess.PIPE) as process:
        process.stderr.close()
        assert process.wait(10) == 5


# Where it goes


FRESH = re.compile(r"ttap-run-\d{8}-\d{6}(-\d+)?")
RECORD = ("--", "sh", "-c", f'"{MAKE}" "$0" "$TTAP_DIR"')


def test_a_fresh_directory_is_made_and_named(here):
    result = run("run", *RECORD, "clean")
    (made,) = here.iterdir()
    assert FRESH.fullmatch(made.name)
    assert result.stderr.startswith(f"ttap run: {made.name}: 1 rank, 1 pass, 11 tensors, 6.6 KiB\n")
    assert run("check", made).returncode == 0


def test_a_fresh_directory_takes_no_name_twice(here):
    now = time.time()
    for second in range(-1, 30):
        (here / time.strftime("ttap-run-%Y%m%d-%H%M%S", time.gmtime(now + second))).mkdir()
    shown = seen("--quiet")["TTAP_DIR"]
    assert re.fullmatch(FRESH.pattern + "-2", Path(shown).name)
    assert not Path(shown).exists()


def test_an_empty_fresh_directory_is_removed_and_that_is_said(here):
    result = run("run", *python("import os; print(os.path.basename(os.environ['TTAP_DIR']))"))
    assert f"  {result.stdout.strip()} was empty and has been removed\n" in result.stderr
    for reason in ["no PyTorch module", "-I, -E or -S", "not installed", "filter"]:
        assert reason in result.stderr
    assert list(here.iterdir()) == []


def test_whatever_a_program_left_in_it_stays(here):
    run("run", "--", "sh", "-c", 'mkdir "$TTAP_DIR/rank0_pid7"')
    assert len(list(here.glob("ttap-run-*/rank0_pid7"))) == 1


def test_a_directory_that_was_asked_for_stays(here):
    result = run("run", "-o", "a/b", "true")
    assert (here / "a/b").is_dir()
    assert "removed" not in result.stderr


# The report


def test_the_report_sums_up_what_was_and_what_was_not_recorded(here):
    result = run("run", "-o", "out", *RECORD, "covered")
    assert result.returncode == 0
    lines = result.stderr.splitlines()
    assert lines[0] == "ttap run: out: 2 ranks, 6 passes, 66 tensors, 39.8 KiB"
    for expected in [
        "what is missing of rank 1 (pid 4712) is not known, it has no coverage.json: its process was killed",
        "  3 dropped (quota 2, unsupported 1)",
        "  the pattern 'lm_head' matched none of 13 names",
        "  2 modules not recorded, never called: model.pooler, model.pooler.dense",
        "  1 module not recorded, called through .forward() at model.py:31: model.rotary",
        "  1 module called without a tensor in or out: model.sampler",
        "  1 not recorded, a sparse tensor: model.embed@grad_out",
        "  12 module calls outside any step",
        "  all of it: ttap ls out --coverage",
    ]:
        assert any(expected in line for line in lines), expected
    assert len(lines) == 10


def test_ranks_are_summed_and_what_they_share_is_said_once(here):
    for rank in range(5):
        folder = here / f"made/rank{rank}_pid{rank}"
        folder.mkdir(parents=True)
        modules = [{"name": f"layer{i}", "why": "never called"} for i in range(7)]
        source = {"never_called": modules, "outside_steps": 2, "notes": ["the same note"]}
        pattern = {"pattern": "x", "names": int(rank == 2)}
        content = {"drops": {"quota": 1}, "patterns": [pattern], "source": source}
        (folder / "coverage.json").write_text(json.dumps(content))
    text = run("run", "-o", "out", "--", "sh", "-c", 'cp -r made/* "$TTAP_DIR"').stderr
    assert "5 dropped (quota 5)" in text
    assert "7 modules not recorded, never called: layer0, layer1, layer2 and 4 more\n" in text
    assert "10 module calls outside any step" in text
    assert text.count("the same note") == 1
    assert "the pattern" not in text  # one rank matched it
    assert "no process recorded anything" in text
    assert "Python was started" not in text  # it was not: there are ranks


def test_how_passes_ended_is_said_unless_they_are_complete(here):
    text = run("run", "-o", "out", *RECORD, "trouble").stderr
    assert "1 pass aborted: pass 0 of rank 0 (pid 4711)" in text
    assert "1 pass incomplete: pass 1 of rank 0 (pid 4711)" in text
    assert "3 dropped (quota 1, unsupported 2)" in text
    assert "complete" not in run("run", "-o", "clean", *RECORD, "clean").stderr


def test_what_was_there_before_is_not_counted(here):
    run("run", "-o", "out", *RECORD, "clean")
    (here / "out/rank0_pid4711").rename(here / "out/rank0_pid1")
    text = run("run", "-o", "out", "--append", *RECORD, "several").stderr
    assert text.startswith("ttap run: out: 2 ranks, 6 passes, ")
    assert "not counted: 1 rank here before" in text
    assert run("run", "-o", "out", "--append", "true").stderr.startswith(NOTHING)


def test_a_directory_that_holds_a_run_gets_another(here):
    run("run", "-o", "out", *RECORD, "clean")
    text = run("run", "-o", "out", *RECORD, "several").stderr
    assert text.startswith("ttap run: out/run00002: 2 ranks, 6 passes, ")
    assert run("run", "-o", "out", "true").stderr.startswith(NOTHING)
    assert sorted(path.name for path in (here / "out").iterdir()) == ["rank0_pid4711", "run00002"]


def test_a_program_is_told_which_run_it_is(here):
    assert seen("-o", "out")["TTAP_RUN_NUMBER"] == "1"
    (here / "out/rank0_pid7").mkdir()
    variables = seen("-o", "out", TTAP_APPEND="1")
    assert variables["TTAP_DIR"] == str(here / "out/run00002")
    assert variables["TTAP_RUN_NUMBER"] == "1"
    assert "TTAP_APPEND" not in variables
    assert seen("-o", "out", "--append")["TTAP_DIR"] == str(here / "out")
    # One of several ranks that are started at once: they agree on it as they begin to record.
    variables = seen("-o", "out", WORLD_SIZE="2", RANK="1")
    assert variables["TTAP_DIR"] == str(here / "out")
    assert "TTAP_RUN_NUMBER" not in variables


@pytest.mark.parametrize("content", ["", "[[[[", '{"drops": 3}'])
def test_garbled_coverage_changes_no_exit_code(here, content):
    program = 'mkdir -p "$TTAP_DIR/rank0_pid7" && printf %s "$0" > "$TTAP_DIR/rank0_pid7/coverage.json"; exit 9'
    result = run("run", "-o", "out", "--", "sh", "-c", program, content)
    assert result.returncode == 9
    assert "coverage.json cannot be read" in result.stderr


def test_a_garbled_pass_changes_no_exit_code(here):
    program = 'mkdir -p "$TTAP_DIR/rank0_pid7" && echo nonsense > "$TTAP_DIR/rank0_pid7/pass00000.ttap"'
    result = run("run", "-o", "out", "--", "sh", "-c", program)
    assert result.returncode == 0
    assert "cannot be read: pass 0 of rank 0 (pid 7): " in result.stderr


def test_a_process_that_outlives_the_program_is_seen_at_work(here):
    # It records until its input ends.
    script = (
        f'exec 3<&0 4>log; "{MAKE}" being_written "$TTAP_DIR" <&3 >&4 & while ! grep -q ready log; do sleep 0.01; done'
    )
    words = [TTAP, "run", "-o", "out", "--", "sh", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(10) == 0
        _, text = process.communicate(timeout=300)
    assert b"1 pass incomplete, still being written" in text


def test_quiet(here):
    assert run("run", "--quiet", "true").stderr == ""
    assert run("run", "--quiet", "-o", "out", *RECORD, "covered").stderr == ""


def test_a_recording_killed_in_the_middle_is_reported(here):
    program = f'"{MAKE}" clean "$TTAP_DIR"; touch "$TTAP_DIR/rank0_pid4711/rank.json"; kill -9 $$'
    result = run("run", "-o", "out", "--", "sh", "-c", program)
    assert result.returncode == -signal.SIGKILL
    assert "1 rank, 1 pass, 11 tensors" in result.stderr
    assert "its process was killed" in result.stderr


def test_a_lock_that_is_held_means_at_work(here):
    folder = here / "out/rank0_pid7"
    program = 'mkdir "$TTAP_DIR/rank0_pid7"; touch "$TTAP_DIR/rank0_pid7/rank.json"; echo made; read line'
    with subprocess.Popen(
        [TTAP, "run", "-o", "out", "--", "sh", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"made\n"
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        _, text = process.communicate(b"\n", timeout=300)
        os.close(lock)
    assert b"its process is still recording" in text
