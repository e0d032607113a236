#include "cli/run/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "store/files/posix_file.h"

namespace ttap::cli {
namespace {

// The terminal sends these to every process of the group.
constexpr std::array kOfTerminal = {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
// Only ever sent by a process or a timer. What reports our own faults (SIGSEGV, …) is not here.
constexpr std::array kOfProcesses = {SIGTERM,   SIGUSR1, SIGUSR2, SIGCONT, SIGALRM,
                                     SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGURG};

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : signals) ::sigaddset(&set, signal);
  return set;
}

// All that we wait for.
sigset_t heard_signals() {
  sigset_t set = set_of({SIGCHLD});
  for (int signal : kOfTerminal) ::sigaddset(&set, signal);
  for (int signal : kOfProcesses) ::sigaddset(&set, signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) ::sigaddset(&set, signal);
  return set;
}

bool has_terminal() { return FileDescriptor::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC).ok(); }

// A process that does nothing but stay in our process group and keep the signals that it gets: a signal that it has got
// too was sent to the whole group (scancel, systemd, `kill -- -PGID`), so the program has it already.
class GroupWitness {
 public:
  GroupWitness() {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()) != 0) return;
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) watch(ends_[1], parent);
    (void)::close(ends_[1]);
  }
  ~GroupWitness() {
    if (pid_ < 0) return;
    (void)::close(ends_[0]);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  GroupWitness(const GroupWitness&) = delete;
  GroupWitness& operator=(const GroupWitness&) = delete;

  bool has_got(int signal) const {
    constexpr int kPatienceMs = 200;  // it may have been stopped
    pollfd answers{ends_[0], POLLIN, 0};
    int answer = 0;
    return pid_ > 0 && ::send(ends_[0], &signal, sizeof signal, MSG_NOSIGNAL) == sizeof signal &&
           ::poll(&answers, 1, kPatienceMs) == 1 && ::recv(ends_[0], &answer, sizeof answer, 0) == sizeof answer &&
           answer == signal;
  }

 private:
  // In the new process, in which all of these signals are blocked: they wait to be asked for.
  [[noreturn]] static void watch(int end, pid_t parent) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int other = 0; other < 1024; ++other)  // whoever reads our output waits until all that hold it have ended
      if (other != end) (void)::close(other);
    int signal = 0;
    while (::getppid() == parent && ::recv(end, &signal, sizeof signal, 0) == sizeof signal) {
      const sigset_t asked = set_of({signal});
      const timespec now{};
      const int got = ::sigtimedwait(&asked, nullptr, &now) == signal ? signal : 0;
      (void)::send(end, &got, sizeof got, MSG_NOSIGNAL);
    }
    ::_exit(0);
  }

  pid_t pid_ = -1;
  std::array<int, 2> ends_{};
};

class Child {
 public:
  Child(pid_t pid, const GroupWitness& witness) : pid_(pid), witness_(witness) {}

  ProgramEnd wait() {
    const sigset_t heard = heard_signals();
    while (true) {
      siginfo_t info{};
      const int signal = ::sigwaitinfo(&heard, &info);
      if (signal == SIGCHLD) {
        if (const auto end = look()) return *end;
      } else if (signal > 0) {
        if (signal == SIGTSTP) suspended_ = true;
        const bool to_group = witness_.has_got(signal) && ::getpgid(pid_) == ::getpgrp();
        if (!to_group && is_to_be_passed_on(info)) (void)::kill(pid_, signal);
      }
    }
  }

 private:
  bool is_to_be_passed_on(const siginfo_t& info) const {
    const bool from_process = info.si_code <= 0;  // SI_USER, SI_QUEUE, SI_TKILL, …; the kernel's are positive
    // What the program sends to its whole group, it has sent to itself.
    if (from_process && info.si_pid == pid_) return false;
    return from_process || std::ranges::find(kOfTerminal, info.si_signo) == kOfTerminal.end();
  }

  std::optional<ProgramEnd> look() {
    int status = 0;
    pid_t changed = 0;
    while ((changed = ::waitpid(pid_, &status, WNOHANG | WUNTRACED)) == pid_) {
      if (WIFEXITED(status)) return ProgramEnd{.exit_code = WEXITSTATUS(status)};
      if (WIFSIGNALED(status)) return ProgramEnd{.signal = WTERMSIG(status)};
      if (WIFSTOPPED(status)) stop_too(WSTOPSIG(status));
    }
    // Somebody else has taken our child: there is nothing left to wait for.
    if (changed < 0 && errno == ECHILD) return ProgramEnd{.exit_code = 255};
    return std::nullopt;
  }

  // Whoever stops the program alone with SIGSTOP (a debugger, say) continues it alone: we must not sleep then.
  void stop_too(int signal) {
    const bool from_terminal = signal != SIGSTOP || suspended_;
    suspended_ = false;
    if (from_terminal && has_terminal()) (void)::kill(::getpid(), SIGSTOP);
  }

  pid_t pid_;
  const GroupWitness& witness_;
  bool suspended_ = false;  // a SIGTSTP has come since the program was last stopped
};

// In the new process, alone: nothing but system calls. Writes errno into `report` when there is no program.
[[noreturn]] void become(const Program& program, char* const* environment, const struct sigaction& sigchld,
                         const sigset_t& mask, int report) {
  struct sigaction sigpipe {};
  sigpipe.sa_handler = program.sigpipe;
  (void)::sigaction(SIGPIPE, &sigpipe, nullptr);
  (void)::sigaction(SIGCHLD, &sigchld, nullptr);
  (void)::sigprocmask(SIG_SETMASK, &mask, nullptr);
  (void)::execvpe(program.words[0], program.words, environment);
  const int error = errno;
  (void)!::write(report, &error, sizeof error);
  ::_exit(127);
}

Error cannot_start(const char* what) {
  return {.code = ErrorCode::kIo,
          .message = fmt::format("cannot {}: {}", what, std::strerror(errno)),
          .hint = "the program was not started; look for limits on processes, open files or memory (ulimit -a)"};
}

}  // namespace

Result<ProgramEnd> run_program(const Program& program) {
  std::vector<char*> environment;
  for (const std::string& variable : program.environment) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);

  std::array<int, 2> report{};  // closed by exec: when nothing comes through, the program runs
  if (::pipe2(report.data(), O_CLOEXEC) != 0) return cannot_start("make a pipe");

  // With SIGCHLD ignored, as some parents leave it, there would be no exit code to wait for.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  struct sigaction given_sigchld {};
  (void)::sigaction(SIGCHLD, &usual, &given_sigchld);
  const sigset_t heard = heard_signals();
  sigset_t given_mask;
  (void)::sigprocmask(SIG_BLOCK, &heard, &given_mask);

  const GroupWitness witness;
  const pid_t pid = ::fork();
  if (pid == 0) become(program, environment.data(), given_sigchld, given_mask, report[1]);
  const int fork_error = errno;
  (void)::close(report[1]);
  if (pid < 0) {
    (void)::close(report[0]);
    errno = fork_error;
    return cannot_start("start a process");
  }
  int exec_error = 0;
  ssize_t got = 0;
  do got = ::read(report[0], &exec_error, sizeof exec_error);
  while (got < 0 && errno == EINTR);
  (void)::close(report[0]);
  ProgramEnd end = Child(pid, witness).wait();
  if (got == sizeof exec_error) end.exec_error = exec_error;
  return end;
}

bool is_stop_waiting() {
  sigset_t waiting;
  ::sigemptyset(&waiting);
  (void)::sigpending(&waiting);
  return std::ranges::any_of(std::array{SIGINT, SIGQUIT, SIGTERM, SIGHUP},
                             [&](int signal) { return ::sigismember(&waiting, signal) == 1; });
}

void end_by_signal(int signal) {
  // A limit of no bytes does not keep a core dump from a program that collects them.
  (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const rlimit none{};
  (void)::setrlimit(RLIMIT_CORE, &none);
  (void)::signal(signal, SIG_DFL);
  const sigset_t only = set_of({signal});
  (void)::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  (void)::raise(signal);
  ::_exit(128 + signal);  // as process 1 of a container, which no such signal kills
}

}  // namespace ttap::cli
