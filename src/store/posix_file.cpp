#include "store/posix_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace ttap {

Error errno_error(std::string_view what, const std::filesystem::path& path) {
  const int number = errno;
  Error error{ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(number)), path.string()};
  if (number == ENOSPC || number == EDQUOT) error.code = ErrorCode::kNoSpace;
  if (number == ENOENT || number == ENOTDIR) error.code = ErrorCode::kNotFound;
  return error;
}

Result<FileDescriptor> FileDescriptor::open(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return errno_error("cannot open", path);
  return FileDescriptor(fd);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Status FileDescriptor::close(const std::filesystem::path& path) {
  // On Linux the descriptor is gone whatever close() answers, so it is never retried.
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return errno_error("cannot close", path);
  return {};
}

Status write_all(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return write_all(fd, offset, std::span(&part, 1), path);
}

Status write_all(int fd, uint64_t offset, std::span<iovec> parts, const std::filesystem::path& path) {
  while (!parts.empty()) {
    if (parts.front().iov_len == 0) {
      parts = parts.subspan(1);
      continue;
    }
    const int count = static_cast<int>(std::min<size_t>(parts.size(), IOV_MAX));
    const ssize_t written = ::pwritev(fd, parts.data(), count, static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno_error("cannot write", path);
    }
    offset += static_cast<uint64_t>(written);
    auto left = static_cast<size_t>(written);
    while (left > 0) {
      const size_t step = std::min(left, parts.front().iov_len);
      parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + step;
      parts.front().iov_len -= step;
      left -= step;
      if (parts.front().iov_len == 0) parts = parts.subspan(1);
    }
  }
  return {};
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  std::filesystem::path partial = path;
  partial += ".partial";
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC));
  return OutputFile(path, std::move(partial), std::move(file));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      file_(std::move(other.file_)),
      position_(other.position_) {}

OutputFile::~OutputFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  TTAP_TRY(write_all(file_.get(), position_, bytes, partial_));
  position_ += bytes.size();
  return {};
}

Status OutputFile::commit() {
  TTAP_TRY(file_.close(partial_));
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return errno_error("cannot rename", partial_);
  partial_.clear();
  return {};
}

}  // namespace ttap
