#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "format/segment_view.h"
#include "format/value_index.h"
#include "store/files/mapped_file.h"
#include "store/files/posix_file.h"
#include "store/segment/segment_writer.h"
#include "store/sources/pass_source.h"
#include "store/sources/sibling_passes.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

class SegmentSource final : public Pass::Source {
 public:
  SegmentSource(std::shared_ptr<const MappedFile> file, format::SegmentView view)
      : file_(std::move(file)),
        view_(std::move(view)),
        siblings_(file_->path()),
        verified_(new std::atomic<bool>[view_.tensor_count()]()) {}

  // Of the other passes that cannot be read as a whole.
  std::vector<std::string> sibling_notes() const {
    std::vector<std::string> notes;
    for (const uint32_t number : view_.other_passes())
      if (const std::string problem = siblings_.problem_of(number); !problem.empty())
        notes.push_back(
            fmt::format("tensors that did not change have their bytes in pass {}, which {}", number, problem));
    return notes;
  }

  size_t event_count() const override { return view_.event_count(); }
  EventRecord event(size_t index) const override { return view_.event(index); }
  UseRecord use(size_t event, size_t index) const override {
    const format::UseRow row = view_.use_row(event, index);
    UseRecord use{.role = view_.string(row.role),
                  .path = view_.string(row.path),
                  .tensor = row.tensor,
                  .written = (row.flags & format::kWritten) != 0};
    if (row.value == 0) return use;
    std::call_once(values_made_, [this] { values_ = format::ValueIndex(view_); });
    use.record = values_.row_of(row.value);
    return use;
  }
  size_t tensor_count() const override { return view_.tensor_count(); }
  TensorRecord tensor(size_t index) const override {
    TensorRecord record = view_.tensor(index);
    if (!view_.other_passes().empty() && !record.has_bytes) record.has_bytes = bytes_elsewhere(index).has_value();
    return record;
  }

  std::optional<size_t> find(const Key& key) const override {
    std::call_once(index_made_, [this] { make_index(); });
    std::array<uint32_t, 3> numbers{};
    const std::array<std::string_view, 3> texts{key.name, key.role, key.path};
    for (size_t i = 0; i < 3; ++i) {
      if (texts[i].empty()) continue;
      const auto found = string_numbers_.find(texts[i]);
      if (found == string_numbers_.end()) return std::nullopt;
      numbers[i] = found->second;
    }
    const Address wanted{numbers[0], numbers[1], numbers[2], key.call};
    const auto found = std::ranges::lower_bound(by_address_, wanted, {}, [](const auto& entry) { return entry.first; });
    if (found == by_address_.end() || found->first != wanted) return std::nullopt;
    return found->second;
  }

  Result<TensorView> read(size_t index) const override {
    const TensorRecord record = view_.tensor(index);
    const auto elsewhere = bytes_elsewhere(index);
    if (const auto pass = missing_from(index))
      return Error{.code = ErrorCode::kNotRecorded,
                   .message = fmt::format("the bytes of '{}' did not change, and were kept once: in pass {}, which is "
                                          "not here or does not have them any more",
                                          to_string(record.key()), *pass),
                   .path = info.path.string(),
                   .hint = fmt::format("put {} beside it", siblings_.path_of(*pass).filename().string())};
    if (!record.has_bytes && !elsewhere)
      return Error{.code = ErrorCode::kNotRecorded,
                   .message = fmt::format("'{}' was recorded at level '{}': its bytes were not kept",
                                          to_string(record.key()), to_string(record.level)),
                   .path = info.path.string(),
                   .hint = "record it with level full, and see `ttap ls` for what was dropped"};
    if (!elsewhere) TTAP_TRY(file_->load(view_.tensor_row(index).blob_offset, record.byte_count));
    const auto bytes = elsewhere ? *elsewhere : view_.blob(index);
    const TensorView tensor{bytes.data(), record.dtype, record.shape, {}};
    if (!verified_[index].load(std::memory_order_relaxed)) {
      if (fingerprint(tensor, {.statistics = false}).hash != record.fingerprint.hash)
        return Error{.code = ErrorCode::kCorrupt,
                     .message = fmt::format("the bytes of '{}' do not match their hash", to_string(record.key())),
                     .path = elsewhere ? siblings_.path_of(*pass_of_bytes(index)).string() : info.path.string(),
                     .offset = elsewhere ? std::nullopt : std::optional(view_.tensor_row(index).blob_offset),
                     .hint = "the file was damaged after it was recorded"};
      verified_[index].store(true, std::memory_order_relaxed);
    }
    return tensor;
  }

  std::optional<uint32_t> missing_from(size_t index) const override {
    const auto pass = pass_of_bytes(index);
    return pass && !bytes_elsewhere(index) ? pass : std::nullopt;
  }

  std::optional<uint64_t> file_offset(size_t index) const override {
    const format::TensorRow row = view_.tensor_row(index);
    const bool there = (row.flags & format::kHasBytes) != 0 && row.byte_count > 0;
    return there ? std::optional(row.blob_offset) : std::nullopt;
  }

 private:
  // Of a row whose bytes are in another pass: which one.
  std::optional<uint32_t> pass_of_bytes(size_t index) const {
    if (view_.other_passes().empty()) return std::nullopt;
    const format::TensorRow row = view_.tensor_row(index);
    return (row.flags & format::kElsewhere) != 0 ? std::optional(static_cast<uint32_t>(row.blob_offset)) : std::nullopt;
  }
  std::optional<std::span<const std::byte>> bytes_elsewhere(size_t index) const {
    const auto pass = pass_of_bytes(index);
    if (!pass) return std::nullopt;
    const format::TensorRow row = view_.tensor_row(index);
    return siblings_.find(*pass, {row.hash_low, row.hash_high}, row.byte_count);
  }

  using Address = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;  // name, role, path, call

  void make_index() const {
    // Another writer may have stored a string twice: the first number stands for all.
    std::vector<uint32_t> first(view_.string_count());
    for (uint32_t number = 1; number < view_.string_count(); ++number)
      first[number] = string_numbers_.emplace(view_.string(number), number).first->second;
    by_address_.reserve(view_.tensor_count());
    for (size_t i = 0; i < view_.tensor_count(); ++i) {
      const format::TensorRow row = view_.tensor_row(i);
      by_address_.emplace_back(Address{first[row.name], first[row.role], first[row.path], row.call}, i);
    }
    std::ranges::sort(by_address_);
  }

  std::shared_ptr<const MappedFile> file_;
  format::SegmentView view_;
  SiblingPasses siblings_;
  std::unique_ptr<std::atomic<bool>[]> verified_;  // bytes are hashed once
  // Made by the first find().
  mutable std::once_flag index_made_;
  mutable std::unordered_map<std::string_view, uint32_t> string_numbers_;
  mutable std::vector<std::pair<Address, size_t>> by_address_;
  // Made by the first use() that has a value.
  mutable std::once_flag values_made_;
  mutable format::ValueIndex values_;
};

}  // namespace

bool is_being_written(const std::filesystem::path& path) {
  auto file = FileDescriptor::open(path, O_RDONLY | O_CLOEXEC);
  return file.ok() && ::flock(file->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// A segment that is not finished: all but the blobs, which are read when they are asked for. What cannot be read is
// left to the view, which stops there.
static Result<std::shared_ptr<const MappedFile>> open_unfinished(const std::filesystem::path& path) {
  TTAP_ASSIGN(auto file, MappedFile::open_unfinished(path));
  const std::span<const std::byte> bytes = file->bytes();
  uint64_t offset = sizeof(format::FileHeader);
  bool loaded = bytes.size() >= offset && file->load(0, offset).ok();
  while (loaded && bytes.size() - offset >= sizeof(format::FrameHeader)) {
    format::FrameHeader header;
    if (!file->load(offset, sizeof header).ok()) break;
    std::memcpy(&header, bytes.data() + offset, sizeof header);
    offset += sizeof header;
    if (header.magic != format::kFrameMagic || header.payload_bytes > bytes.size() - offset) break;
    if (static_cast<format::FrameType>(header.type) != format::FrameType::kBlobs)
      loaded = file->load(offset, header.payload_bytes).ok();
    offset += std::min(format::align_up(header.payload_bytes), bytes.size() - offset);
  }
  if (bytes.size() >= sizeof(format::Trailer))
    (void)file->load(bytes.size() - sizeof(format::Trailer), sizeof(format::Trailer));
  return file;
}

Result<std::unique_ptr<Pass::Source>> open_segment_source(const std::filesystem::path& path) {
  const bool finished = !path.string().ends_with(kIncompleteSuffix);
  TTAP_ASSIGN(auto file, finished ? MappedFile::open(path) : open_unfinished(path));
  auto view = format::SegmentView::parse(file->bytes());
  if (!view.ok()) return std::move(std::move(view).error()).with_path(path.string());
  PassInfo info;
  info.path = path;
  info.format = Format::kSegment;
  info.number = view->header().pass_number;
  info.file_bytes = file->bytes().size();
  info.readable_bytes = view->readable_bytes();
  info.problem = view->problem();
  info.started_unix_ns = view->header().started_unix_ns;
  info.metadata_json = view->begin_json();
  if (const auto end = view->end_json()) {
    const EndRecord record = end_record_from_json(*end);
    info.ending = record.ending;
    info.drops = record.drops;
  } else {
    info.ending = Ending::kIncomplete;
    info.being_written = is_being_written(path);
  }
  auto source = std::make_unique<SegmentSource>(std::move(file), std::move(view).value());
  info.notes = source->sibling_notes();
  source->info = std::move(info);
  return std::unique_ptr<Pass::Source>(std::move(source));
}

}  // namespace ttap
