#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>

#include "format/frame.h"
#include "format/segment_view.h"
#include "store/mapped_file.h"
#include "store/segment_writer.h"
#include "ttap/run.h"

namespace ttap {
namespace {

// Every frame up to `limit` that an index lists.
std::vector<format::IndexRow> list_frames(std::span<const std::byte> bytes, uint64_t limit) {
  std::vector<format::IndexRow> index;
  uint64_t offset = sizeof(format::FileHeader);
  while (offset < limit) {
    format::FrameHeader header;
    std::memcpy(&header, bytes.data() + offset, sizeof header);
    if (static_cast<format::FrameType>(header.type) != format::FrameType::kBlobs)
      index.push_back({offset, header.type, 0, 0});
    offset += sizeof header + format::align_up(header.payload_bytes);
  }
  return index;
}

}  // namespace

Result<Recovered> recover_pass(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (!name.ends_with(kIncompleteSuffix))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "not an incomplete segment",
                 .path = name,
                 .hint = fmt::format("only files that end in {} need recovery", kIncompleteSuffix)};
  const std::filesystem::path target = name.substr(0, name.size() - kIncompleteSuffix.size());
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(path, O_RDWR | O_CLOEXEC));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "its process is still writing it",
                 .path = name,
                 .hint = "recover it after the process has ended"};
  if (std::filesystem::exists(target))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{} is there already", target.filename().string()),
                 .path = name,
                 .hint = "move one of the two away"};
  TTAP_ASSIGN(const auto mapped, MappedFile::open(path));
  auto view = format::SegmentView::parse(mapped->bytes());
  if (!view.ok()) return std::move(std::move(view).error()).with_path(name);

  // A process killed between its last write and the rename leaves a file that is whole already.
  const uint64_t readable = view->readable_bytes();
  if (!view->has_index()) {
    std::string end_json = to_json(EndRecord{.ending = Ending::kIncomplete, .recovered = true});
    auto index = list_frames(mapped->bytes(), readable);
    // An end record without its index: keep what it says.
    if (view->end_json()) {
      end_json = *view->end_json();
      std::erase_if(index, [](const auto& row) {
        return row.type == static_cast<uint16_t>(format::FrameType::kEnd) ||
               row.type == static_cast<uint16_t>(format::FrameType::kIndex);
      });
    }
    const auto tail = make_segment_tail(readable, end_json, std::move(index));
    TTAP_TRY(write_all(file.get(), readable, tail, path));
    if (::ftruncate(file.get(), static_cast<off_t>(readable + tail.size())) != 0)
      return errno_error("cannot truncate", path);
  }
  if (::rename(path.c_str(), target.c_str()) != 0) return errno_error("cannot rename", path);
  return Recovered{target, view->tensor_count(), mapped->bytes().size() - readable};
}

}  // namespace ttap
