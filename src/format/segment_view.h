#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/layout.h"
#include "format/row_frames.h"
#include "ttap/record.h"
#include "ttap/result.h"

namespace ttap::format {

// The records of a segment, read in place. Every row that it hands out has been checked: its strings exist, its dtype
// and shape make sense, its bytes lie inside the file. What follows the first frame that does not hold is not shown.
// The bytes must outlive the view.
class SegmentView {
 public:
  // `bytes` must begin on a multiple of 64, as a mapped file does.
  // Fails with kNotThisFormat, kVersion, kTruncated or kCorrupt only when not even the file header can be used.
  static Result<SegmentView> parse(std::span<const std::byte> bytes);

  const FileHeader& header() const { return header_; }
  std::string_view begin_json() const { return begin_json_; }
  std::optional<std::string_view> end_json() const { return end_json_; }
  // How far the file is sound, and what was met there; empty when it ends well.
  uint64_t readable_bytes() const { return readable_bytes_; }
  const std::string& problem() const { return problem_; }
  bool has_index() const { return has_index_; }
  // Where the frames end that hold: readable_bytes() without a trailer.
  uint64_t frames_end() const { return frames_end_; }

  size_t event_count() const { return events_.row_count(); }
  EventRecord event(size_t index) const;
  // The row of one of its uses; index below the event's use_count.
  UseRow use_row(size_t event, size_t index) const;
  size_t tensor_count() const { return tensors_.row_count(); }
  TensorRecord tensor(size_t index) const;
  // The row behind tensor(index), for those who compare strings by number.
  TensorRow tensor_row(size_t index) const;
  // Empty when the row has no bytes.
  std::span<const std::byte> blob(size_t index) const;
  // The passes that rows say their bytes are in, each once.
  const std::set<uint32_t>& other_passes() const { return other_passes_; }

  size_t string_count() const { return strings_.size(); }
  std::string_view string(uint32_t number) const;

 private:
  // A frame of rows that not every tensor has; `first` is the number of the tensor that its first row is of.
  struct RowFrame {
    size_t first;
    size_t count;
    const std::byte* rows;
  };

  explicit SegmentView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool read_by_index();
  void read_by_scan();
  // Takes in the frame at `offset`; its length with padding, or why it does not hold.
  Result<uint64_t> take_frame(uint64_t offset);
  Status take_strings(std::span<const std::byte> payload, uint32_t count);
  Status take_events(std::span<const std::byte> payload, uint32_t count);
  Status take_tensors(std::span<const std::byte> payload, uint32_t count);
  Status take_calls(std::span<const std::byte> payload, uint32_t count);
  Status take_uses(std::span<const std::byte> payload, uint32_t count);
  Status take_groups(std::span<const std::byte> payload, uint32_t count);
  Status take_sketches(std::span<const std::byte> payload, uint32_t count);
  Status check(const TensorRow& row) const;
  std::optional<CallRow> call_of(size_t event) const;
  std::string_view group_of(size_t tensor) const;
  void set_sketch(size_t tensor, Fingerprint& fingerprint) const;
  std::span<const int64_t> numbers(uint32_t number) const;
  void forget_all();

  std::span<const std::byte> bytes_;
  FileHeader header_{};
  std::string_view begin_json_ = "{}";
  std::optional<std::string_view> end_json_;
  uint64_t readable_bytes_ = 0;
  std::string problem_;
  bool has_index_ = false;
  uint64_t frames_end_ = 0;
  std::vector<uint64_t> strings_{0};  // offset of each string's header; [0] stands for the empty string
  RowFrames events_, tensors_, calls_, uses_;
  std::vector<RowFrame> group_frames_;
  std::vector<RowFrame> sketch_frames_;
  std::vector<uint32_t> call_of_event_;  // see call_of(); empty while there are no calls
  std::set<uint32_t> other_passes_;
  uint64_t uses_taken_ = 0;      // the first that no call has
  uint64_t groups_taken_ = 0;    // the first tensor row that may still get a group
  uint64_t sketches_taken_ = 0;  // or a sketch
};

}  // namespace ttap::format
