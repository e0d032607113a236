#pragma once

#include <ATen/record_function.h>

namespace ttap::torch_source {

// An observer of operators that asks for what ours asks for and does nothing with it: what being observed costs by
// itself, for benchmarks to measure against.
class EmptyObserver {
 public:
  EmptyObserver();
  ~EmptyObserver();
  EmptyObserver(const EmptyObserver&) = delete;
  EmptyObserver& operator=(const EmptyObserver&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace ttap::torch_source
