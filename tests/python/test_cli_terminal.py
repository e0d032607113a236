"""What the command writes where: odd names, pipes, terminals, colours, speed."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from ttap_command import TTAP, read_json, run


def test_odd_names_do_not_reach_the_terminal_and_can_be_shown(runs):
    result = subprocess.run([TTAP, "ls", runs("odd_names")], capture_output=True, check=True)
    text = result.stdout.decode()  # UTF-8 throughout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    keys = [re.split(r" {2,}", line)[0] for line in text.splitlines()[3:]]
    assert len(keys) == 7
    for key in keys:
        assert run("show", runs("odd_names"), key).returncode == 0, key
    document, _ = read_json("ls", runs("odd_names"))
    names = [each["name"] for each in document["passes"][0]["tensors"]]
    assert names[0] == "line\nbreak"
    assert names[2] == "bytes\ufffd\ufffd"
    assert document["passes"][0]["metadata"] is None  # nested too deep


@pytest.mark.parametrize("command", ["ls", "log", "check"])
def test_no_escape_codes_in_a_pipe(runs, command):
    result = run(command, runs("broken"))
    assert "\x1b" not in result.stdout + result.stderr
    assert max(map(ord, result.stdout)) < 128


def test_colour_when_asked_for(runs):
    assert "\x1b[1;31m" in run("check", runs("broken"), "--color", "always").stdout
    assert "\x1b[1;31m" in run("check", runs("broken"), "--color", "always", NO_COLOR="1").stdout


def on_terminal(*words, columns=80, **environment):
    """What a terminal of that width receives on stdout and stderr."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    variables.pop("NO_COLOR", None)
    with subprocess.Popen([TTAP, *words], stdout=other, stderr=other, env={**variables, **environment}) as process:
        os.close(other)
        received = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            received += piece
    os.close(main)
    return received.decode(), process.returncode


def visible(text):
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", text).replace("\r\n", "\n")


def test_on_a_terminal_lines_fit_and_colours_and_bars_are_drawn(runs):
    text, code = on_terminal("ls", runs("broken"), columns=60)
    assert code == 0
    assert "\x1b[" in text
    assert max(map(len, visible(text).splitlines()[2:])) <= 60
    assert "model.layers.1.mlp" in visible(text)
    text, _ = on_terminal("show", runs("broken"), "model.layers.1.mlp")
    assert "█" in text
    assert max(map(len, visible(text).split("statistics")[1].splitlines())) <= 80


def test_no_color_is_respected_on_a_terminal(runs):
    for environment in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
        assert "\x1b" not in on_terminal("ls", runs("broken"), **environment)[0]
    assert "\x1b" not in on_terminal("ls", runs("broken"), "--color", "never")[0]


def test_a_closed_pipe_is_no_error(runs):
    words = f"'{TTAP}' ls '{runs('large', '100000')}' | head -1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "0"


def test_a_full_disk_is_an_error(runs):
    with open("/dev/full", "w") as full:
        result = subprocess.run([TTAP, "ls", runs("clean")], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    assert "No space left" in result.stderr


def test_a_hundred_thousand_tensors_take_no_time(runs):
    folder = runs("large", "100000")
    for words in [("check", folder), ("show", folder, "model.layers.999.block.98.projection")]:
        begin = os.times().children_user
        run(*words)
        assert os.times().children_user - begin < 1.0
