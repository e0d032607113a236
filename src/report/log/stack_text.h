#pragma once

#include <string_view>
#include <vector>

#include "report/log/log.h"

namespace ttap {

// Whether a frame (`FILE:LINE in FUNCTION`) is the program's own, and not one of PyTorch, TensorTap or Python itself.
bool is_user_frame(std::string_view frame);

// Writes the stacks of one event after another, of each only what is new: from the first frame that the one before it
// did not have. The stacks must outlive it.
class StackText {
 public:
  // `label` says whose frames they are: "File".
  StackText(StackFrames frames, std::string_view label) : frames_(frames), label_(label) {}
  void write(std::string_view stack, std::string_view margin, Output& out);
  // The event has none, though those before it had: it must not be taken for one of theirs.
  void write_none(std::string_view margin, Output& out);

 private:
  struct Frame {
    std::string_view text;
    bool shown;
  };
  StackFrames frames_;
  std::string_view label_;
  std::string_view last_;
  std::vector<Frame> stack_;  // of the last event
  size_t last_shown_ = 0;     // frames of it
};

}  // namespace ttap
