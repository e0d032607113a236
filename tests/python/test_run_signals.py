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

# Says its process id, takes the signal it is given until half a second goes by without one, and exits with 40 + their
# number. Handlers would run once for two signals that come close together.
COUNTING = """
import os, signal, sys
number, count = int(sys.argv[1]), 0
signal.pthread_sigmask(signal.SIG_BLOCK, {number})
print(os.getpid(), flush=True)
while signal.sigtimedwait({number}, 0.5 if count else 20):
    count += 1
    print("heard", flush=True)
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
    program = COUNTING.replace("while", "os.kill(0, number)\nwhile")
    with started(sys.executable, "-c", program, str(int(signal.SIGRTMIN)), start_new_session=True) as process:
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
    """A terminal with that shell in it, or without; `type` and `expect` are the user's hands and eyes."""

    def __init__(self, *words, shell=(sys.executable, "-c", SHELL)):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            words = [*shell, str(TTAP), "run", "--quiet", "--", *words]
            os.execv(words[0], words)
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
        before, self.received = self.received.split(text, 1)
        return before


def test_we_wait_for_the_programs_answer_to_control_c():
    with Terminal(sys.executable, "-c", COUNTING, str(int(signal.SIGINT))) as terminal:
        terminal.expect("\n")
        terminal.type("\x03")
        terminal.expect("shell: ended with 41")


def test_control_c_is_not_passed_on_for_the_program_has_it_already():
    with Terminal(sys.executable, "-c", COUNTING, str(int(signal.SIGINT)), shell=()) as terminal:
        terminal.expect("\n")
        os.kill(terminal.pid, signal.SIGSTOP)  # we are late
        terminal.type("\x03")
        terminal.expect("heard")
        os.kill(terminal.pid, signal.SIGCONT)
        assert os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOWAIT).si_status == 41


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


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[:2]  # state and parent


def test_a_program_that_is_stopped_alone_does_not_stop_us():
    with Terminal(sys.executable, "-c", COUNTING, str(int(signal.SIGUSR1))) as terminal:
        pid = int(terminal.expect("\n"))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        state, ttap = state_of(pid)
        assert (state, state_of(ttap)[0]) == ("T", "S")
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGUSR1)
        terminal.expect("shell: ended with 41")
