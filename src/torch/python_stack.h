#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/ops/text_table.h"

namespace ttap::torch_source {

// The Python stacks that calls were made from, by number. Taking one reads two pointers per frame; file, line and
// source text are looked up when the text is asked for. The GIL guards it.
class PythonStacks {
 public:
  // The number of this thread's stack, from 1; takes the GIL. 0 on a thread that Python does not know, which has no
  // frames to show and must not wait for the GIL. A stack that is new puts its text into `new_text`, unless null.
  uint32_t here(std::string* new_text, size_t own_frames = 0);
  // The text of this stack has reached whom it was for; until then it is new to every thread.
  void set_delivered(uint32_t number);

  // `FILE:LINE in FUNCTION\tSOURCE`, one frame per line, innermost last. Needs the GIL.
  std::string text(uint32_t number) const;
  size_t size() const { return stacks_.size(); }

  PythonStacks() = default;
  ~PythonStacks();  // needs the GIL
  PythonStacks(const PythonStacks&) = delete;
  PythonStacks& operator=(const PythonStacks&) = delete;

 private:
  struct Frame {
    void* code;  // a PyCodeObject; the table holds a reference
    int instruction;
    bool operator==(const Frame&) const = default;
  };

  // Looking up a source line runs Python, and so lets other threads add to it: what is there stays where it is.
  std::deque<std::vector<Frame>> stacks_;
  std::deque<std::atomic<bool>> delivered_;
  std::unordered_multimap<uint64_t, uint32_t> numbers_;  // by hash
};

}  // namespace ttap::torch_source
