#include "capture/convert_pass.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "store/files/posix_file.h"
#include "store/foreign/npy.h"
#include "store/graph/graph_export.h"

namespace ttap {
namespace fs = std::filesystem;
namespace {

// More than any of the formats takes beside the bytes: for the file, and for a tensor (its key is there up to four
// times, some characters as three).
constexpr uint64_t kFileOverhead = 4096;
constexpr uint64_t kTensorOverhead = 1024;
constexpr uint64_t kKeyOverhead = 12;
// The same of a graph's index: an event, a use with the name of its file, and a tensor with its statistics. Each
// character of a text may become six. An argument's file is another name of one that is there.
constexpr uint64_t kEventOverhead = 512;
constexpr uint64_t kUseOverhead = 512;
constexpr uint64_t kTextOverhead = 6;

uint64_t stored_bytes(const TensorRecord& tensor, Format format) {
  const DType stored = format == Format::kNpy ? npy_stored_dtype(tensor.dtype) : tensor.dtype;
  const uint64_t values_per_element = stored != tensor.dtype && tensor.dtype == DType::kF4E2M1FNx2 ? 2 : 1;
  return tensor.byte_count / size_of(tensor.dtype) * values_per_element * size_of(stored);
}

uint64_t most_it_takes(const Pass& pass, Format format) {
  uint64_t bytes = kFileOverhead;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord tensor = pass.tensor(i);
    if (!tensor.has_bytes && tensor.group.empty()) continue;
    if (tensor.has_bytes) bytes += stored_bytes(tensor, format);
    bytes += kTensorOverhead + kKeyOverhead * (tensor.name.size() + tensor.role.size() + tensor.path.size()) +
             kTextOverhead * tensor.group.size();
  }
  return bytes;
}

uint64_t most_the_index_takes(const Pass& pass) {
  uint64_t bytes = pass.tensor_count() * kTensorOverhead + kTextOverhead * pass.info().metadata_json.size();
  for (size_t i = 0; i < pass.event_count(); ++i) {
    const EventRecord event = pass.event(i);
    bytes += kEventOverhead + kUseOverhead * event.use_count +
             kTextOverhead * (event.name.size() + event.stack.size() + event.arguments.size() + event.results.size() +
                              event.notes.size());
  }
  return bytes;
}

// Whether it says of a call what only a segment can hold; how long it took does not count.
bool tells_of_calls(const Pass& pass) {
  for (size_t i = 0; i < pass.event_count(); ++i) {
    const EventRecord event = pass.event(i);
    if (event.use_count > 0 || !event.arguments.empty() || !event.results.empty() || !event.notes.empty()) return true;
  }
  return false;
}

// The file itself, or what is in the folder and the folder.
Result<std::vector<fs::path>> parts_of(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> parts;
  if (fs::is_directory(path, error))
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      parts.push_back(it->path());
  if (error) return Error{ErrorCode::kIo, fmt::format("cannot list: {}", error.message()), path.string()};
  parts.push_back(path);
  return parts;
}

// A file with several names counts once.
uint64_t bytes_of(const std::vector<fs::path>& parts) {
  uint64_t bytes = 0;
  std::set<ino_t> seen;
  for (const fs::path& part : parts) {
    struct stat about {};
    if (::stat(part.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) continue;
    if (seen.insert(about.st_ino).second) bytes += static_cast<uint64_t>(about.st_size);
  }
  return bytes;
}

Status sync_to_disk(const fs::path& path) {
  TTAP_ASSIGN(const FileDescriptor file, FileDescriptor::open(path, O_RDONLY | O_CLOEXEC));
  if (::fsync(file.get()) != 0) return errno_error("cannot sync", path);
  return {};
}

}  // namespace

Result<Converted> convert_pass(const fs::path& segment, const ConvertOptions& options) {
  TTAP_ASSIGN(const Pass pass, Pass::open(segment));
  const bool graphs = options.format == Format::kNpy && has_graphs(pass);
  uint64_t needed = most_it_takes(pass, options.format);
  if (graphs) needed += most_the_index_takes(pass);
  if (needed > options.room)
    return Error{.code = ErrorCode::kNoSpace,
                 .message = fmt::format("stays a segment: the quota has {} bytes left, and as {} it may take {}",
                                        options.room, to_string(options.format), needed),
                 .path = segment.string(),
                 .hint = "raise TTAP_QUOTA_BYTES, or use `ttap export`"};
  TTAP_ASSIGN(const Exported exported, graphs ? export_graph_pass(pass, segment.parent_path(), {}, options.steps)
                                              : export_pass(pass, options.format, segment.parent_path()));
  TTAP_ASSIGN(auto parts, parts_of(exported.path));
  for (const fs::path& more : exported.parts) {
    TTAP_ASSIGN(const auto its_parts, parts_of(more));
    parts.insert(parts.end(), its_parts.begin(), its_parts.end());
  }
  Converted converted{.bytes = bytes_of(parts)};
  if (options.sync) {
    for (const fs::path& part : parts) TTAP_TRY(sync_to_disk(part));
    TTAP_TRY(sync_to_disk(segment.parent_path()));
  }
  const PassInfo& info = pass.info();
  const bool says_all = graphs || (exported.without_bytes == 0 && info.drops == DropCounts{} &&
                                   info.ending == Ending::kComplete && !tells_of_calls(pass));
  if (!says_all) return converted;
  if (::unlink(segment.c_str()) != 0) return errno_error("cannot remove", segment);
  converted.segment_removed = true;
  return converted;
}

}  // namespace ttap
