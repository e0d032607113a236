#pragma once

#include <string>

#include "cli/arguments/selection.h"

namespace ttap::cli {

// The run that --against names: where the high-precision twins of quantized tensors are.
class Against {
 public:
  // An empty path is no run, and has no pass.
  static Result<Against> open(const std::string& path);

  // The pass of the same rank and number, or where there is only one, that; null when there is none. It lives until the
  // next one is asked for.
  Result<const Pass*> pass_for(const SelectedPass& selected);

 private:
  std::unique_ptr<const Run> run_;
  std::unique_ptr<const Pass> pass_;
};

}  // namespace ttap::cli
