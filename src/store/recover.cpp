#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "format/frame.h"
#include "format/segment_view.h"
#include "store/files/mapped_file.h"
#include "store/segment/segment_writer.h"
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

Result<Recovered> recover_pass(const std::filesystem::path& path, bool force) {
  const std::string name = path.string();
  if (!name.ends_with(kIncompleteSuffix))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "not an incomplete segment",
                 .path = name,
                 .hint = fmt::format("only files that end in {} need recovery", kIncompleteSuffix)};
  const std::filesystem::path target = name.substr(0, name.size() - kIncompleteSuffix.size());
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  const Status lock = lock_exclusively(file.get(), LockWait::kNo, path);
  if (!lock.ok() && lock.error().code == ErrorCode::kUnsupported && !force)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "cannot tell whether its process is still writing it: the file system has no locks",
                 .path = name,
                 .hint = "when you know that the process has ended, recover it with --force"};
  if (!lock.ok() && lock.error().code != ErrorCode::kUnsupported)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "its process is still writing it",
                 .path = name,
                 .hint = "recover it after the process has ended"};
  TTAP_ASSIGN(const auto mapped, MappedFile::open(path));
  auto view = format::SegmentView::parse(mapped->bytes());
  if (!view.ok()) {
    Error error = std::move(std::move(view).error()).with_path(name);
    if (error.code == ErrorCode::kTruncated) error.hint = "its process died before it recorded anything: delete it";
    return error;
  }
  if (view->header().version_minor > format::kVersionMinor)
    return Error{.code = ErrorCode::kVersion,
                 .message = "was written by a newer version, which may know more of it than this one",
                 .path = name,
                 .hint = "recover it with a newer ttap"};

  // A process killed between its last write and the rename leaves a file that is whole already.
  const uint64_t end = view->frames_end();
  if (!view->has_index()) {
    // An end record without its index: keep what it says.
    const std::string end_json = view->end_json()
                                     ? std::string(*view->end_json())
                                     : to_json(EndRecord{.ending = Ending::kIncomplete, .recovered = true});
    const auto tail = make_segment_tail(end, end_json, list_frames(mapped->bytes(), end));
    TTAP_TRY(write_all(file.get(), end, tail, path));
    if (::ftruncate(file.get(), static_cast<off_t>(end + tail.size())) != 0)
      return errno_error("cannot truncate", path);
  }
  TTAP_TRY(rename_to_new(path, target));
  return Recovered{target, view->tensor_count(), mapped->bytes().size() - view->readable_bytes()};
}

}  // namespace ttap
