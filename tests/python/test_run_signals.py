"""`ttap run` between a program and those who send signals to it: terminals, shells, other processes."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from ttap_command import TTAP

# Says its process id, counts the signal it is given for half a second, and exits with 40 + the count.
COUNTING = """
import os, signal, sys, time
number, count = int(sys.argv[1]), 0
def handler(*_):
    global count
    count += 1
signal.signal(number, handler)
print(os.getpid(), flush=True)
deadline = time.monotonic() + 20
while not count and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.5)
sys.exit(40 + count)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*words, **more):
    return subprocess.Popen(
        [TTAP, "run", "--", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


SENT = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT", "SIGALRM", "SIGWINCH", "SIGCONT", "SIGRTMIN"]


@pytest.mark.parametrize("name", SENT)
def test_what_a_process_sends_us_is_passed_on(name):
    number = getattr(signal, name)
    with started(sys.executable, "-c", COUNTING, str(int(number))) as process:
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(30) == 41


def test_a_program_that_signals_its_whole_group_hears_it_once():
    program = COUNTING.replace("deadline =", "os.kill(0, number)\ndeadline =")
    with started(sys.executable, "-c", program, str(int(signal.SIGUSR1)), start_new_session=True) as process:
        assert process.wait(30) == 41


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_program_that_does_not_listen_dies_and_so_do_we(name):
    number = getattr(signal, name)
    with started("sh", "-c", "echo ready; exec sleep 30") as process:
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(number)
        assert process.wait(10) == -number
        assert b"no process recorded anything" in process.stderr.read()


def test_a_program_outlives_us_when_we_are_killed(here):
    with started("sh", "-c", "echo ready; read line; echo $line >after") as process:
        process.stdout.readline()
        process.kill()
        assert process.wait(10) == -signal.SIGKILL
        process.stdin.write(b"on\n")
        process.stdin.close()
        deadline = time.monotonic() + 10
        while not (here / "after").exists() or not (here / "after").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert (here / "after").read_text() == "on\n"


def ignoring(*numbers):
    def prepare():
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    return prepare


@pytest.mark.parametrize(
    "prepare",
    [
        None,
        ignoring(signal.SIGPIPE),
        ignoring(signal.SIGCHLD),
        ignoring(signal.SIGHUP, signal.SIGINT),
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD}),
    ],
    ids=["nothing", "SIGPIPE ignored", "SIGCHLD ignored", "as nohup and & do", "some blocked"],
)
def test_a_program_gets_the_signals_as_we_were_given_them(prepare):
    # restore_signals=False: Python itself runs with SIGPIPE ignored, and would undo what `prepare` does.
    def status(*before):
        words = [*before, "grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status"]
        if prepare is None:
            return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        return subprocess.run(
            words, stdout=subprocess.PIPE, check=True, preexec_fn=prepare, restore_signals=False
        ).stdout

    assert status(TTAP, "run", "--quiet", "--") == status()


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def test_a_program_that_is_stopped_alone_does_not_stop_us():
    with started(sys.executable, "-c", COUNTING, str(int(signal.SIGUSR1))) as process:
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        assert (state_of(pid), state_of(process.pid)) == ("T", "S")
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGUSR1)
        assert process.wait(30) == 41


# A shell in miniature: the program in a group of its own, in the foreground of the terminal.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.tcsetpgrp(0, os.getpid())
    print("shell: stopped", flush=True)
    sys.stdin.readline()  # fg
    os.tcsetpgrp(0, pid)
    os.kill(-pid, signal.SIGCONT)
print("shell: ended with", os.waitstatus_to_exitcode(status), flush=True)
"""


class Terminal:
    """A terminal with that shell in it; `type` and `expect` are the user's hands and eyes."""

    def __init__(self, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", SHELL, str(TTAP), "run", "--quiet", "--", *words])
        self.received = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)  # hangs up, which ends what is left
        os.waitpid(self.pid, 0)

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        deadline = time.monotonic() + 30
        while text not in self.received:
            assert select.select([self.fd], [], [], deadline - time.monotonic())[0], (text, self.received)
            self.received += os.read(self.fd, 4096).decode()
        self.received = self.received.split(text, 1)[1]


def test_control_c_reaches_the_program_once_and_we_wait_for_its_answer():
    with Terminal(sys.executable, "-c", COUNTING, str(int(signal.SIGINT))) as terminal:
        terminal.expect("\n")
        terminal.type("\x03")
        terminal.expect("shell: ended with 41")


def test_control_z_stops_us_with_the_program_and_both_go_on():
    program = "print('ready', flush=True); print('read', input(), flush=True); raise SystemExit(6)"
    with Terminal(sys.executable, "-c", program) as terminal:
        terminal.expect("ready")
        for _ in range(2):
            terminal.type("\x1a")
            terminal.expect("shell: stopped")
            terminal.type("fg\n")
            time.sleep(0.3)
        terminal.type("hello\n")
        terminal.expect("read hello")
        terminal.expect("shell: ended with 6")


def test_control_z_does_not_stop_us_when_the_program_ignores_it():
    program = "import signal; signal.signal(signal.SIGTSTP, signal.SIG_IGN); print('ready', flush=True); print(input())"
    with Terminal(sys.executable, "-c", program) as terminal:
        terminal.expect("ready")
        terminal.type("\x1a")
        terminal.type("hello\n")
        terminal.expect("shell: ended with 0")
