#include "store/segment/segment_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace ttap {

Result<SegmentFile> SegmentFile::create(const std::filesystem::path& path, DiskPace* pace) {
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC));
  // Tells readers that somebody is still at work; the lock goes with the process. Readers hold it for a moment only.
  (void)lock_exclusively(file.get(), LockWait::kYes, path);  // it only shows others that the file is in use
  close_in_forked_child(file.get());
  return SegmentFile(path, std::move(file), pace);
}

SegmentFile::~SegmentFile() {
  if (file_.is_open()) keep_in_forked_child(file_.get());
  if (direct_.is_open()) keep_in_forked_child(direct_.get());
}

bool SegmentFile::could_go_directly(uint64_t offset, const iovec& part) const {
  return pace_ != nullptr && part.iov_len >= kDirectBytes && offset % kDirectAlignment == 0 &&
         reinterpret_cast<uintptr_t>(part.iov_base) % kDirectAlignment == 0;
}

Status SegmentFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return write(offset, std::span(&part, 1));
}

Status SegmentFile::write(uint64_t offset, std::span<iovec> parts) {
  TTAP_TRY(file_.check_is_ours(path_));
  uint64_t at = offset;
  size_t first = 0;  // of what has not been written yet; begins at `offset`
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t end = at + parts[i].iov_len;
    const bool could = could_go_directly(at, parts[i]);
    if (could && !pace_->direct()) {
      pace_->left_to_cache(parts[i].iov_len);
    } else if (could) {
      TTAP_TRY(write_all(file_.get(), offset, parts.subspan(first, i - first), path_));
      auto* start = static_cast<std::byte*>(parts[i].iov_base);
      TTAP_ASSIGN(const uint64_t done, write_directly(at, {start, parts[i].iov_len}));
      parts[i] = {start + done, parts[i].iov_len - done};
      offset = at + done;
      first = i;
    }
    at = end;
  }
  return write_all(file_.get(), offset, parts.subspan(first), path_);
}

// How much of the whole pages it could write; the rest is for the cache.
Result<uint64_t> SegmentFile::write_directly(uint64_t offset, std::span<const std::byte> bytes) {
  if (!direct_.is_open()) {
    auto opened = FileDescriptor::open(path_, O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (!opened.ok()) {
      pace_ = nullptr;
      return uint64_t{0};
    }
    direct_ = std::move(opened).value();
    close_in_forked_child(direct_.get());
  }
  TTAP_TRY(direct_.check_is_ours(path_));
  const uint64_t whole = bytes.size() / kDirectAlignment * kDirectAlignment;
  const auto start = std::chrono::steady_clock::now();
  uint64_t done = 0;
  while (done < whole) {
    const ssize_t written =
        ::pwrite(direct_.get(), bytes.data() + done, whole - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL) pace_ = nullptr;
    if (written < 0 && errno != EINVAL) return errno_error("cannot write", path_);
    // A write that was cut short inside a page, or refused, is for the cache to finish.
    if (written < static_cast<ssize_t>(kDirectAlignment)) break;
    done += static_cast<uint64_t>(written) / kDirectAlignment * kDirectAlignment;
  }
  direct_bytes_ += done;
  if (pace_ != nullptr) pace_->took(done, std::chrono::steady_clock::now() - start);
  return done;
}

Status SegmentFile::cut(uint64_t length) {
  TTAP_TRY(file_.check_is_ours(path_));
  if (::ftruncate(file_.get(), static_cast<off_t>(length)) != 0) return errno_error("cannot truncate", path_);
  return {};
}

Status SegmentFile::sync() {
  TTAP_TRY(file_.check_is_ours(path_));
  if (::fdatasync(file_.get()) != 0) return errno_error("cannot sync", path_);
  return {};
}

Status SegmentFile::close(const std::filesystem::path& name) {
  if (direct_.is_open()) {
    keep_in_forked_child(direct_.get());
    TTAP_TRY(direct_.close(name));
  }
  keep_in_forked_child(file_.get());
  return file_.close(name);
}

}  // namespace ttap
