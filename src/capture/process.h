#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>

#include "ttap/api.h"

// What the recorder asks of the process it lives in.
namespace ttap {

// Grows on the child's side of every fork: the threads of a recorder do not exist there.
TTAP_API std::atomic<unsigned>& fork_count();

TTAP_API uint64_t steady_ns();
uint64_t unix_ns();
TTAP_API uint64_t thread_number();  // the operating system's

// Whether the program was interrupted (SIGINT) and wants its main thread back, on which this is asked; false on any
// other. Who embeds the recorder in a language says how to find out.
TTAP_API void set_interrupted(bool (*asked)());
bool is_interrupted();

// Signals are the program's: while this lives, threads are made that take none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace ttap
