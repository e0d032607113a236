#pragma once

namespace ttap {

// The floating-point mode of a new program while it lives: PyTorch can make a thread treat subnormals as zero, and
// threads inherit it.
class DefaultFloatMode {
 public:
  DefaultFloatMode();
  ~DefaultFloatMode();
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  unsigned saved_;
};

}  // namespace ttap
