#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/layout.h"
#include "format/string_table.h"
#include "store/segment/disk_pace.h"
#include "store/segment/segment_file.h"
#include "ttap/record.h"
#include "ttap/result.h"

namespace ttap {

// While a segment is being written its name ends in this.
inline constexpr std::string_view kIncompleteSuffix = ".incomplete";

// Writes one segment. Rows and small blobs are collected and go to the file in one write, at flush(); a large blob is
// written piece by piece. What cannot be written is taken back, so the file is always sound up to the last flush.
// Used by one thread.
class SegmentWriter {
 public:
  struct Options {
    bool deduplicate = true;
    bool sync = false;         // fdatasync before the file gets its final name
    DiskPace* pace = nullptr;  // large blobs go round the page cache as it says; outlives the writer
  };

  // Creates `<path>.incomplete` and locks it; `path` must not exist.
  static Result<SegmentWriter> create(const std::filesystem::path& path, uint32_t pass_number, uint64_t started_unix_ns,
                                      std::string_view begin_json, const Options& options);
  SegmentWriter(SegmentWriter&&) noexcept = default;
  SegmentWriter& operator=(SegmentWriter&&) = delete;

  // `number` is the recorder's and counts up, perhaps with gaps; so is event.parent, and TensorRecord::event below. In
  // the file events are numbered without gaps, and an event that was lost is referred to by nobody.
  void add_event(uint32_t number, const EventRecord& event);

  // The end of an event, by the same numbers. A forward that was lost, or did not come before the event, is left out.
  // False: not added, because the event was lost, has an end already, or the file has 2^32 uses.
  struct Call {
    std::string_view arguments = {};
    std::string_view results = {};
    std::string_view notes = {};
    uint32_t forward = kNoEvent;
    uint64_t duration_ns = 0;
    std::span<const Use> uses = {};
  };
  bool add_call(uint32_t event, const Call& call);
  bool has_event(uint32_t number) const { return file_number_of(number) != kNoEvent; }

  // Adds a row. With has_bytes set, `bytes` (in C order, alive until the flush) are stored, or an earlier blob with
  // the same hash is referred to. Returns how many bytes of blob the row will cost. A large blob whose memory begins on
  // a multiple of kDirectAlignment can go round the page cache; so can the pieces below.
  uint64_t add_tensor(const TensorRecord& tensor, uint64_t time_ns, std::span<const std::byte> bytes);

  // A row whose bytes are those of a row of another pass of this rank, with the same hash; that pass has ended.
  void add_tensor_elsewhere(const TensorRecord& tensor, uint64_t time_ns, uint32_t pass);

  // The row added last once more under another name: the same event, and the same bytes whatever `deduplicate` says,
  // but no value, which stays that of one row.
  void add_alias_row(std::string_view name);

  // A blob too large to hold at once: begin, write its pieces in order, then add the row with add_tensor_of_large().
  // A failure takes the blob back; the row can then still be added without bytes. Nothing may be pending at begin.
  Status begin_large(uint64_t byte_count);
  Status write_large(std::span<const std::byte> piece);
  void add_tensor_of_large(const TensorRecord& tensor, uint64_t time_ns);
  void abandon_large();

  // What a flush could not keep.
  struct Outcome {
    uint64_t tensors_without_bytes = 0;  // the row is there, its bytes are not
    uint64_t tensors_lost = 0;
    uint64_t events_lost = 0;  // or, of an event that is in the file, its end
    std::optional<Error> error;
  };
  Outcome flush();
  size_t pending_rows() const { return tensors_.size() + events_.size() + calls_.size(); }
  uint64_t pending_blob_bytes() const { return blob_bytes_; }
  // How much the file would grow by a flush now, at most.
  uint64_t pending_bytes() const;
  // Whether add_tensor() would refer to bytes that are there already.
  bool has_blob(const Hash128& hash) const { return options_.deduplicate && blobs_.contains(hash); }
  // Whether bytes with this hash are in the file, when nothing is pending.
  bool holds(const Hash128& hash) const { return blobs_.contains(hash); }

  // Of what is in the file.
  uint64_t file_bytes() const { return position_; }
  uint64_t direct_bytes() const { return file_.direct_bytes(); }  // that went round the page cache
  uint64_t tensor_count() const { return tensor_count_; }

  // Ends the segment: end record, index, trailer, final name. `make_room` is called once when the disk is full.
  Status finish(std::string_view end_json, const std::function<void()>& make_room);

 private:
  SegmentWriter(std::filesystem::path path, SegmentFile file, Options options)
      : path_(std::move(path)), file_(std::move(file)), options_(options) {}
  Status write_pending();
  void strip_pending_blobs();
  void forget_pending();
  format::TensorRow row_of(const TensorRecord& tensor, uint64_t time_ns);
  void add_row(const format::TensorRow& row, const TensorRecord& tensor);
  uint32_t file_number_of(uint32_t event) const;
  uint64_t take_back_events();
  void lose_events(uint32_t begin, uint32_t end);

  std::filesystem::path path_;
  SegmentFile file_;
  Options options_;
  uint64_t position_ = 0;  // end of what is in the file
  uint64_t tensor_count_ = 0;
  uint64_t event_count_ = 0;
  uint64_t use_count_ = 0;
  // The recorder's event numbers: everything below next_event_ was seen; the ranges are those that are not in the file.
  struct LostEvents {
    uint32_t begin, end;
    uint32_t lost_before;  // in earlier ranges
  };
  uint32_t next_event_ = 0;
  uint32_t first_pending_event_ = 0;
  std::vector<LostEvents> lost_events_;  // in order; neighbours are merged, so a full disk does not make it grow
  std::vector<bool> ended_;              // events that have a call, by their number in the file
  format::StringTable strings_;
  std::vector<format::IndexRow> index_;
  std::unordered_map<Hash128, uint64_t> blobs_;  // where the bytes with this hash are

  // Collected since the last flush.
  std::vector<format::EventRow> events_;
  std::vector<format::TensorRow> tensors_;
  std::vector<format::UseRow> uses_;
  std::vector<format::CallRow> calls_;
  std::vector<format::GroupRow> groups_;
  std::vector<format::SketchRow> sketches_;
  struct Blob {
    uint64_t zeros_before;
    std::span<const std::byte> bytes;
  };
  std::vector<Blob> blob_parts_;
  std::vector<Hash128> new_hashes_;
  uint64_t blob_bytes_ = 0;  // with padding

  struct Large {
    uint64_t offset;  // of the blob in the file
    uint64_t byte_count;
    uint64_t written;
  };
  std::optional<Large> large_;  // being written behind position_
};

// The end record of a segment, as JSON and back.
struct EndRecord {
  Ending ending = Ending::kComplete;
  DropCounts drops = {};
  bool recovered = false;
};
std::string to_json(const EndRecord& end);
EndRecord end_record_from_json(std::string_view json);  // what cannot be read keeps its default, ending incomplete

// END, INDEX and trailer for a segment that ends at `position`: what finish() and recovery append.
std::vector<std::byte> make_segment_tail(uint64_t position, std::string_view end_json,
                                         std::vector<format::IndexRow> index);

}  // namespace ttap
