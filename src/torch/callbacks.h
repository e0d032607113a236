#pragma once

#include "torch/observer.h"

namespace ttap::torch_source {

// PyTorch's callbacks are plain functions: each observer at work has a slot with functions of its own.
struct Callbacks {
  static constexpr int kSlots = 16;

  // Takes a free slot and registers its functions; -1: there is none.
  static int install(const std::shared_ptr<Observer::Link>& link, bool all_threads);
  static void remove(int slot);
  // Where remove() could not; does nothing where it still cannot.
  static void remove_late(int slot);
  // Whether it is of all threads, or of this one, or this one works for that (autograd).
  static bool sees_this_thread(int slot);
  // Of this thread in this slot.
  static Observer::ThreadState& state(int slot);
};

}  // namespace ttap::torch_source
