#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ttap::format {

// The frames that hold the rows of one table, one after the other, and which of them holds a row: each row of a large
// file is asked for many times.
class RowFrames {
 public:
  void add(size_t count, const std::byte* rows) {
    if (count == 0) return;
    for (size_t page = frame_at_.size(); page * kPage < rows_ + count; ++page)
      frame_at_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.push_back({rows_, count, rows});
    rows_ += count;
  }
  size_t row_count() const { return rows_; }

  // Where row `index` lies, which must be there.
  const std::byte* row(size_t index, size_t row_size) const {
    const Frame* frame = &frames_[frame_at_[index / kPage]];
    while (index - frame->first >= frame->count) ++frame;
    return frame->rows + (index - frame->first) * row_size;
  }

 private:
  struct Frame {
    size_t first;  // the number of its first row
    size_t count;
    const std::byte* rows;
  };
  static constexpr size_t kPage = 64;

  std::vector<Frame> frames_;
  std::vector<uint32_t> frame_at_;  // for every kPage-th row
  size_t rows_ = 0;
};

}  // namespace ttap::format
