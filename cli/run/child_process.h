#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "ttap/result.h"

// A program that runs in our place: what it reads, writes, hears and how it ends are its own.
namespace ttap::cli {

struct Program {
  char* const* words = nullptr;  // as main() gets them: the name, its arguments, null
  std::vector<std::string> environment = {};
  // SIGPIPE as it was given to us, before we chose to ignore it.
  void (*sigpipe)(int) = SIG_DFL;
};

struct ProgramEnd {
  int exec_error = 0;  // errno when it could not be started at all
  int signal = 0;      // that killed it
  int exit_code = 0;   // when it was not killed
};

// Starts `program` and waits for its end. It has our process group and terminal, and the signal mask and dispositions
// that were given to us. While it runs:
//   - what the terminal sends (SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGWINCH, …) reaches it anyway and does nothing here;
//   - what a process sends to us (kill PID) is passed on to it;
//   - when it is stopped from the terminal we stop as well, so that the shell sees it, and go on with it.
// All those signals stay blocked afterwards, so that whatever is still to be done cannot change how we end.
// Fails when there can be no new process.
Result<ProgramEnd> run_program(const Program& program);

// Whether somebody wants us to end now, after the program has: SIGINT, SIGTERM, … are waiting.
bool is_stop_waiting();

// Ends this process by the signal, without a core dump of its own; with 128 + signal where that is not possible.
[[noreturn]] void end_by_signal(int signal);

}  // namespace ttap::cli
